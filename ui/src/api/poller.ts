/**
 * Asks one address again and again while somebody looks, and says what is known of its answer.
 *
 * Cases, by status:
 *   200  the answer, kept with its ETag
 *   304  the kept answer still holds
 *   202  the read model is being read: progress, asked again sooner
 *   else a problem; the kept answer stays, and the next request comes later and later
 */

import { Refused, refusalOf } from "./client";

export interface Progress {
  read: number;
  of: number;
}

/** What is known. `data` may be older than `problem`; `since` says when it was last confirmed. */
export interface Known<T> {
  data?: T | undefined;
  progress?: Progress | undefined;
  problem?: Refused | undefined;
  since?: number | undefined;
}

export interface Watched {
  visible(): boolean;
  /** Calls back when it becomes visible; returns how to stop that. */
  onVisible(callback: () => void): () => void;
}

export const PROGRESS_MS = 1000;
const LEAST_MS = 2000; // between requests after a problem, doubled each time
const MOST_MS = 60_000;
const MOST_KEPT = 40;

interface Kept {
  etag: string | null;
  data: unknown;
  since: number;
}

/** Answers by URL, so that a view that is opened again shows the last one at once. The oldest are dropped. */
export class Answers {
  private readonly kept = new Map<string, Kept>();

  get(url: string): Kept | undefined {
    return this.kept.get(url);
  }

  set(url: string, kept: Kept): void {
    this.kept.delete(url);
    this.kept.set(url, kept);
    const [oldest] = this.kept.keys();
    if (this.kept.size > MOST_KEPT && oldest !== undefined) this.kept.delete(oldest);
  }
}

export class Poller<T> {
  private timer: ReturnType<typeof setTimeout> | undefined;
  private abort: AbortController | undefined;
  private failures = 0;
  private stopped = false;
  private readonly unwatch: () => void;

  /** every: after how many ms an answer is asked for again; 0 for never. tell: gets what is known, when it changes. */
  constructor(
    private readonly url: string,
    private readonly every: (data: T | undefined) => number,
    private readonly tell: (known: Known<T>) => void,
    private readonly watched: Watched,
    private readonly answers: Answers,
  ) {
    this.unwatch = watched.onVisible(() => this.askNow());
    const kept = answers.get(url);
    if (kept) tell({ data: kept.data as T, since: kept.since });
    void this.ask();
  }

  /** Asks at once, for example after an action. */
  askNow(): void {
    if (this.stopped) return;
    this.abort?.abort();
    clearTimeout(this.timer);
    void this.ask();
  }

  stop(): void {
    this.stopped = true;
    this.unwatch();
    clearTimeout(this.timer);
    this.abort?.abort();
  }

  private async ask(): Promise<void> {
    const abort = new AbortController();
    this.abort = abort;
    const next = await this.once(abort.signal);
    if (this.stopped || abort.signal.aborted || next === null) return;
    this.timer = setTimeout(() => {
      // Whoever does not look needs no news; `onVisible` asks again.
      if (this.watched.visible()) void this.ask();
    }, next);
  }

  /** One request; returns after how many ms the next one comes, null for never. */
  private async once(signal: AbortSignal): Promise<number | null> {
    const kept = this.answers.get(this.url);
    const headers: Record<string, string> = { accept: "application/json" };
    if (kept?.etag) headers["if-none-match"] = kept.etag;
    try {
      const response = await fetch(this.url, { headers, signal, credentials: "same-origin" });
      if (signal.aborted) return null;
      if (response.status === 304 && kept) {
        kept.since = Date.now();
        return this.confirmed(kept);
      }
      if (response.status === 202) {
        const body = (await response.json()) as { reading?: Progress };
        if (signal.aborted) return null;
        this.failures = 0;
        this.tell({ data: kept?.data as T | undefined, progress: body.reading ?? { read: 0, of: 0 } });
        return PROGRESS_MS;
      }
      if (!response.ok) throw await refusalOf(response);
      const data: unknown = await response.json();
      if (signal.aborted) return null;
      const found = { etag: response.headers.get("etag"), data, since: Date.now() };
      this.answers.set(this.url, found);
      return this.confirmed(found);
    } catch (error) {
      if (signal.aborted) return null;
      const problem =
        error instanceof Refused
          ? error
          : new Refused(0, "Airflow does not answer. This page asks again by itself.");
      this.failures += 1;
      this.tell({ data: kept?.data as T | undefined, since: kept?.since, problem });
      const everyMs = Math.max(this.every(kept?.data as T | undefined), LEAST_MS);
      return Math.min(MOST_MS, everyMs * 2 ** Math.min(this.failures, 5));
    }
  }

  private confirmed(kept: Kept): number | null {
    this.failures = 0;
    this.tell({ data: kept.data as T, since: kept.since });
    return this.every(kept.data as T) || null;
  }
}
