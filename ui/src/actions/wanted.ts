/** Which events would meet the missing parts, as far as it is known: for the form that sends one. */

import type { Wait, WantedEvent } from "../api/answers";

/** What the server says; else one for each missing part that the condition's text gives a type for. */
export function wantedOf(wait: Wait): WantedEvent[] {
  if (wait.wanted?.length) return wait.wanted;
  const missing = wait.subscription?.missing ?? wait.explanation?.missing ?? [];
  const matchers = matchersIn(wait.condition ?? "");
  return missing.map((label) => matchers.find((each) => each.label === label) ?? { label });
}

// In the text of a condition: event(type="TYPE", source="...", label="LABEL", ...). Texts are quoted as in JSON.
const MATCHER = /\bevent\(((?:[^()"]|"(?:[^"\\]|\\.)*"|\((?:[^()"]|"(?:[^"\\]|\\.)*")*\))*)\)/g;
const ARGUMENT = /(?:^|, )(\w+)=("(?:[^"\\]|\\.)*")(?=,|$)/g;

function matchersIn(condition: string): WantedEvent[] {
  return [...condition.matchAll(MATCHER)].map((found) => {
    const own = new Map<string, string>();
    for (const [, name, text] of found[1]!.matchAll(ARGUMENT)) {
      try {
        own.set(name!, JSON.parse(text!) as string);
      } catch {
        // a text that is no JSON after all: the form stays empty there
      }
    }
    const type = own.get("type") ?? null;
    const label = own.get("label") ?? type ?? "";
    return { label, type, source: own.get("source") ?? null, subject: own.get("subject") ?? null };
  });
}
