/** Why an event nearly met a matcher and did not; conditions/explanation/near_miss.py says what each member means. */

import type { NearMiss, NearMisses } from "../api/answers";
import { counted } from "./counted";
import { at, type Prose } from "./prose";

/** texts: whether the user may see texts of events; without that a value that is left out may be withheld. */
export function missWords(miss: NearMiss, texts?: boolean): Prose {
  const differs = miss.difference === undefined ? "" : `; ${miss.difference}`;
  const data = miss.data ?? "";
  let more = miss.refused > 1 ? ` (and ${miss.refused - 1} more of ${miss.terms} terms)` : "";
  if (miss.wanted !== undefined) {
    const written = miss.raw === undefined ? "" : ` (written ${miss.raw})`;
    const key = `its key is ${miss.key ?? "another"}${written}, and ${miss.wanted} is wanted`;
    if (miss.why === "key") return [key + differs];
    more += `; ${key}`;
  }
  const because = data ? `: ${data}` : "";
  const term = miss.term ?? "a term";
  switch (miss.why) {
    case "term": {
      if (miss.attribute === undefined) return [`${term} refused it${because}${differs}${more}`];
      return [`${term} refused its ${miss.attribute}${valueWords(miss, texts)}${because}${differs}${more}`];
    }
    case "error":
      return [`${term} could not be evaluated${colon(data || miss.error)}${differs}${more}`];
    case "no key":
    case "no data":
      return [`it has no key at ${miss.attribute ?? "its path"}${because}`];
    case "no value":
      return [`it has no value at ${miss.attribute ?? "its path"}, so it does not count${because}`];
    case "since":
      return sinceWords(miss);
    case "waiting":
      return ["it waits for a due time"];
    case "repeat":
      return [
        miss.held_for === undefined
          ? "read before, and no longer held: it took part in a firing, a later one replaced it, or its window is over"
          : `a repeat: an event with this id and source is held for ${miss.held_for}, and does not count twice`,
      ];
    case "released":
      return [
        `held for ${miss.held_for ?? "another part"}, no longer for this one: its window is over, or a firing dropped it`,
      ];
    case "fired":
      return [`took part in ${miss.firing ?? "a firing"}`];
    case "refuted":
      return miss.refuted_ms === undefined
        ? [`${miss.refuted_by ?? "a negated event"} came in its window`]
        : [`${miss.refuted_by ?? "a negated event"} came in its window, at `, at(miss.refuted_ms)];
    case "unread":
      return ["it fits: the engines have not read it yet"];
    case "gone":
      return [
        "it fits: it was read, and is no longer held, because its window is over, or a firing or a limit dropped it",
      ];
    default:
      return ["it fits: not read yet, or no longer held"];
  }
}

function sinceWords(miss: NearMiss): Prose {
  const stamp = miss.event.timestamp_ms;
  if (typeof stamp !== "number") return ["it is stamped before this wait counts events"];
  if (stamp < 0) {
    return [
      "its record has no timestamp, so it counts for no wait: message.timestamp.type=LogAppendTime on the topic gives each record the brokers' time",
    ];
  }
  return ["it is stamped before this wait counts events, at ", at(stamp)];
}

function valueWords(miss: NearMiss, texts: boolean | undefined): string {
  if (miss.value !== undefined) return `, which is ${quoted(miss.value)}`;
  return texts === true ? ", of which it has none" : "";
}

const colon = (text: string | undefined): string => (text ? `: ${text}` : "");
const quoted = (text: string): string => `"${text}"`;

/** What is left to say about the near misses of one part, beside those that are shown; "" for nothing. */
export function leftOut(misses: NearMisses): string {
  const parts = [
    misses.counted ? `${counted(misses.counted, "event")} that counted before` : "",
    misses.other_keys ? `${counted(misses.other_keys, "event")} of other keys` : "",
  ].filter(Boolean);
  return parts.length ? `Also: ${parts.join("; ")}.` : "";
}
