/** Which events would meet the missing parts, as far as it is known: for the form that sends one. */

import type { Wait, WantedEvent } from "../api/answers";

/** What the server says; else one for each missing part that the condition's text gives a type for. */
export function wantedOf(wait: Wait): WantedEvent[] {
  if (wait.wanted?.length) return wait.wanted;
  const missing = wait.subscription?.missing ?? wait.explanation?.missing ?? [];
  return missing.map((label) => ({ label, type: typeIn(wait.condition ?? "", label) }));
}

/** The type of `event("TYPE", ..., label="LABEL")`; the label itself if it looks like a type. */
function typeIn(condition: string, label: string): string | null {
  for (const found of condition.matchAll(/event\("([^"]+)"((?:[^()"]|"[^"]*"|\([^()]*\))*)\)/g)) {
    const own = /label="([^"]*)"/.exec(found[2] ?? "");
    if ((own?.[1] ?? found[1]) === label) return found[1] ?? null;
  }
  return /^[\w-]+(\.[\w-]+)+$/.test(label) ? label : null;
}
