/** Spans that a list can look back on; the address has the name, a request the time. */

export const SPANS: Readonly<Record<string, { title: string; ms: number }>> = {
  "15m": { title: "last 15 minutes", ms: 15 * 60_000 },
  "1h": { title: "last hour", ms: 3_600_000 },
  "6h": { title: "last 6 hours", ms: 6 * 3_600_000 },
  "1d": { title: "last day", ms: 86_400_000 },
  "7d": { title: "last 7 days", ms: 7 * 86_400_000 },
  all: { title: "any time", ms: 0 },
};

// Coarse, so that the address of a request stays the same for a while, and its ETag counts.
const STEP_MS = 60_000;

/** The time from which the span looks; undefined for any time. */
export function sinceMs(span: string, nowMs: number): number | undefined {
  const length = SPANS[span]?.ms;
  return length ? Math.floor((nowMs - length) / STEP_MS) * STEP_MS : undefined;
}
