/** What happened at a firing, in order, with the time that each step took. */

import type { Step } from "../api/answers";
import { visible } from "../words/visible";

export interface DrawnStep {
  title: string;
  atMs: number;
  /** How long Interlock or Airflow took for it; null for an event, whose time its sender chose. */
  tookMs: number | null;
  /** That time as a share of the longest. */
  share: number;
  /** Since the step before; null for the first one, and if it is `tookMs`. */
  afterMs: number | null;
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
  const gaps = sorted.map((step, number) => (number ? step.at_ms - sorted[number - 1]!.at_ms : null));
  const took = sorted.map((step, number) => {
    if (typeof step.took_ms === "number") return step.took_ms;
    return step.what === "event" ? null : gaps[number]!;
  });
  const longest = Math.max(1, ...took.map((ms) => ms ?? 0));
  return sorted.map((step, number) => ({
    title: visible([step.label, TITLES[step.what] ?? step.what].filter(Boolean).join(": ")),
    atMs: step.at_ms,
    tookMs: took[number]!,
    share: (took[number] ?? 0) / longest,
    afterMs: took[number] === null ? gaps[number]! : null,
  }));
}
