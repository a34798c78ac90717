/** What happened at a firing, in order, with the time that each step took. */

import type { Step } from "../api/answers";

export interface DrawnStep {
  title: string;
  atMs: number;
  /** Since the step before; null for the first one. */
  tookMs: number | null;
  /** What took this time, as a share of the longest; 0 for the first one. */
  share: number;
}

const TITLES: Record<string, string> = {
  event: "event appended",
  firing: "condition met, firing written",
  fired: "condition met, firing written",
  resumed: "task resumed",
  resume: "task resumed",
  delivered: "delivered",
  registered: "wait registered",
  run: "run created",
};

export function stepsOf(steps: readonly Step[]): DrawnStep[] {
  const sorted = [...steps].sort((one, other) => one.at_ms - other.at_ms);
  const took = sorted.map((step, number) => {
    if (typeof step.took_ms === "number") return step.took_ms;
    return number ? step.at_ms - sorted[number - 1]!.at_ms : null;
  });
  const longest = Math.max(1, ...took.map((ms) => ms ?? 0));
  return sorted.map((step, number) => ({
    title: [step.label, TITLES[step.what] ?? step.what].filter(Boolean).join(": "),
    atMs: step.at_ms,
    tookMs: took[number] ?? null,
    share: (took[number] ?? 0) / longest,
  }));
}
