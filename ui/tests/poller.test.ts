import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { Answers, Poller, PROGRESS_MS, type Known, type Watched } from "../src/api/poller";

const URL = "https://example.com/interlock-ui/waits";

class Page implements Watched {
  shown = true;
  callback: (() => void) | null = null;
  visible(): boolean {
    return this.shown;
  }
  onVisible(callback: () => void): () => void {
    this.callback = callback;
    return () => (this.callback = null);
  }
}

interface Sent {
  headers: Record<string, string>;
  signal: AbortSignal;
}

/** Answers each request with the next response; the last one again and again. */
class Server {
  readonly sent: Sent[] = [];
  constructor(private readonly responses: (() => Response | Promise<Response>)[]) {
    vi.stubGlobal("fetch", (_: string, options: Sent) => {
      this.sent.push(options);
      const next = this.responses.length > 1 ? this.responses.shift()! : this.responses[0]!;
      return Promise.resolve().then(next);
    });
  }
}

const json =
  (status: number, body: unknown, headers: Record<string, string> = {}) =>
  () =>
    new Response(status === 304 ? null : JSON.stringify(body), { status, headers });

function polled(everyMs = 5000, page = new Page(), answers = new Answers()) {
  const known: Known<unknown>[] = [];
  const poller = new Poller<unknown>(
    URL,
    () => everyMs,
    (each) => known.push(each),
    page,
    answers,
  );
  return { known, poller, page, answers, last: () => known.at(-1) };
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

test("an unchanged answer is confirmed by its ETag and not sent again", async () => {
  const server = new Server([json(200, { rows: [1] }, { etag: '"a"' }), json(304, null)]);
  const { known, poller } = polled();
  await vi.advanceTimersByTimeAsync(5000);
  expect(server.sent.map((each) => each.headers["if-none-match"])).toEqual([undefined, '"a"']);
  expect(known[1]!.data).toBe(known[0]!.data);
  poller.stop();
});

test("while the model is read it tells how far, and asks sooner", async () => {
  const server = new Server([json(202, { reading: { read: 5, of: 10 } }), json(200, { rows: [] })]);
  const { known, poller } = polled(60_000);
  await vi.advanceTimersByTimeAsync(0);
  expect(known).toEqual([{ data: undefined, progress: { read: 5, of: 10 } }]);
  await vi.advanceTimersByTimeAsync(PROGRESS_MS);
  expect(known.at(-1)!.data).toEqual({ rows: [] });
  expect(known.at(-1)!.progress).toBeUndefined();
  expect(server.sent).toHaveLength(2);
  poller.stop();
});

test("a problem keeps the last answer, says what the server says, and asks later and later", async () => {
  const server = new Server([
    json(200, { rows: [1] }),
    json(502, { detail: "The cluster does not answer." }),
  ]);
  const { poller, last } = polled(2000);
  await vi.advanceTimersByTimeAsync(2000);
  expect(last()!.problem).toMatchObject({ status: 502, detail: "The cluster does not answer." });
  expect(last()!.data).toEqual({ rows: [1] });
  await vi.advanceTimersByTimeAsync(4000); // twice the time after the first problem
  expect(server.sent).toHaveLength(3);
  await vi.advanceTimersByTimeAsync(4000);
  expect(server.sent).toHaveLength(3);
  await vi.advanceTimersByTimeAsync(4000);
  expect(server.sent).toHaveLength(4);
  poller.stop();
});

test("without an answer at all it says so, and forgets the problem at the next one", async () => {
  new Server([() => Promise.reject(new TypeError("Failed to fetch")), json(200, { rows: [] })]);
  const { poller, last } = polled(2000);
  await vi.advanceTimersByTimeAsync(0);
  expect(last()!.problem).toMatchObject({ status: 0 });
  await vi.advanceTimersByTimeAsync(4000);
  expect(last()!.problem).toBeUndefined();
  poller.stop();
});

test("it does not ask while nobody looks, and asks at once when somebody does", async () => {
  const server = new Server([json(200, {})]);
  const { poller, page } = polled(1000);
  await vi.advanceTimersByTimeAsync(0);
  page.shown = false;
  await vi.advanceTimersByTimeAsync(60_000);
  expect(server.sent).toHaveLength(1);
  page.shown = true;
  page.callback!();
  await vi.advanceTimersByTimeAsync(0);
  expect(server.sent).toHaveLength(2);
  await vi.advanceTimersByTimeAsync(1000);
  expect(server.sent).toHaveLength(3);
  poller.stop();
});

test("after stop it neither asks nor tells, and ends the request under way", async () => {
  const server = new Server([json(200, {})]);
  const { known, poller, page } = polled(1000);
  poller.stop();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(server.sent).toHaveLength(1);
  expect(server.sent[0]!.signal.aborted).toBe(true);
  expect(known).toEqual([]);
  expect(page.callback).toBeNull();
});

test("an answer that is kept from before is told at once", async () => {
  new Server([json(200, { rows: [7] }, { etag: '"a"' }), json(304, null)]);
  const answers = new Answers();
  const first = polled(1000, new Page(), answers);
  await vi.advanceTimersByTimeAsync(0);
  first.poller.stop();
  const second = polled(1000, new Page(), answers);
  expect(second.known).toMatchObject([{ data: { rows: [7] } }]);
  second.poller.stop();
});

test("asking after an action ends the request under way, so that no older answer comes after it", async () => {
  const server = new Server([json(200, { n: 1 }), json(200, { n: 2 })]);
  const { known, poller } = polled(60_000);
  poller.askNow();
  await vi.advanceTimersByTimeAsync(0);
  expect(server.sent[0]!.signal.aborted).toBe(true);
  expect(known.map((each) => each.data)).toEqual([{ n: 2 }]);
  poller.stop();
});

test("0 asks once", async () => {
  const server = new Server([json(200, {})]);
  const { poller } = polled(0);
  await vi.advanceTimersByTimeAsync(600_000);
  expect(server.sent).toHaveLength(1);
  poller.stop();
});

test("only so many answers are kept", () => {
  const answers = new Answers();
  for (let number = 0; number < 60; number += 1)
    answers.set(String(number), { etag: null, data: number, since: 0 });
  expect(answers.get("0")).toBeUndefined();
  expect(answers.get("59")?.data).toBe(59);
});
