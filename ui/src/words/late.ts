/** What is late about a durable subscription: the oldest of its firings that nobody has taken yet. */

import type { Row } from "../api/answers";
import { duration } from "./duration";

export const LATE_MS = 15 * 60_000; // as in `airflow interlock health`

/** A sentence, or "" if nothing is late. Which sinks are paused is not on the bus: this is how one shows. */
export function lateWords(of: Row, nowMs: number): string {
  const since = of.oldest_since_ms;
  if (typeof since !== "number" || nowMs - since <= LATE_MS) return "";
  const age = duration(nowMs - since);
  if (of.delivers_to)
    return `Not delivered for ${age}: the sink is paused, or does not accept it. The log of the process that delivers says why.`;
  if (/^[^/]+\/dispatch\//.test(of.name))
    return `No run for ${age}: the target has no room, or the run cannot be created. The log of its task says why.`;
  return `Not taken for ${age}: the log of its process says why.`;
}
