/** The notes of an explanation's nodes in words; conditions/explanation/node.py says what each means. */

import type { Apart, Note } from "../api/answers";
import { duration } from "./duration";
import { at, prose, type Prose } from "./prose";

// Notes about a time at which something happens by itself.
const DUE = new Set(["expires", "fires", "settles", "over"]);

export function noteWords(note: Note, nowMs: number): Prose {
  if (DUE.has(note.what) && note.at_ms !== undefined && note.at_ms <= nowMs) {
    return ["due since ", at(note.at_ms), ", its tick has not come yet"];
  }
  const time = note.at_ms === undefined ? "an unknown time" : at(note.at_ms);
  const { label = "", number = 0, text = "" } = note;
  switch (note.what) {
    case "expires":
      return ["expires at ", time];
    case "expiry_not_armed":
      return ["its time starts with the first match"];
    case "fires":
      return ["fires at ", time, " unless an event comes"];
    case "not_armed":
      return ["watches from the next event on"];
    case "not_opened":
      return ["not watched: the wait began without a first state"];
    case "settles":
      return ["met at ", time, " unless a match comes"];
    case "slides_out":
      return [`${label} leaves the window at `, time];
    case "held_until":
      return [`${label} is held until `, time];
    case "period":
      return [
        "period",
        ...(note.from_ms === undefined ? [] : [" from ", { atMs: note.from_ms }]),
        ...(note.at_ms === undefined ? [] : [" until ", time]),
      ];
    case "opened":
      return [`opened by ${label} at `, time];
    case "over":
      return ["ends at ", time];
    case "other_windows":
      return [`${number} more open`];
    case "refuted_windows":
      return [`a negated event came in ${number} more`];
    case "no_window":
      return ["no event has opened a window"];
    case "refuted":
      return ["an event came at ", time];
    case "next_step":
      return [`step ${number} is next`];
    case "recorded_apart":
      return [`recorded too far apart${by(note.by_ms)}`];
    case "same_value":
      return [`${number} more with the same ${text}`];
    case "values":
      return [text ? `values so far: ${text}` : `${number} different values so far`];
    case "values_missing":
      return [text ? `values missing: ${text}` : `${number} values missing`];
    case "value_taken":
      return [`each ${text} of its events counts for another matcher`];
    case "full":
      return [`holds ${number} events, the most it can: of more it drops the ${text}`];
    case "in_order":
      return ["matches wait for a tick later than their stamp"];
    default:
      return prose(text || note.what.replaceAll("_", " "));
  }
}

const APART: Record<string, string> = {
  window: "is outside the window",
  period: "is outside the period",
  sequence: "is too early",
  taken: "counts for another step",
  recorded: "is recorded too far from the others",
};

/** Why a held event does not count, after its name. */
export function apartWords(apart: Apart): string {
  return `${APART[apart.why] ?? apart.why}${by(apart.by_ms)}`;
}

const by = (ms: number | undefined): string => (ms === undefined ? "" : `, by ${duration(ms)}`);
