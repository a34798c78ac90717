/**
 * Sentences with times in them. The server writes times as RFC 3339 in UTC, which each browser shows in its own
 * zone: `registered at 2026-11-20T09:12:00Z` becomes ["registered at ", {atMs}].
 */

import { moment } from "./moment";
import { visible } from "./visible";

export interface Time {
  atMs: number;
  /** Also how far it is from now. */
  relative?: boolean;
}

export type Prose = readonly (string | Time)[];

const TIME = /\b\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d)/g;

export function prose(text: string): Prose {
  const pieces: (string | Time)[] = [];
  let end = 0;
  for (const found of text.matchAll(TIME)) {
    const atMs = Date.parse(found[0]);
    if (Number.isNaN(atMs)) continue;
    if (found.index > end) pieces.push(text.slice(end, found.index));
    pieces.push({ atMs });
    end = found.index + found[0].length;
  }
  if (end < text.length) pieces.push(text.slice(end));
  return pieces;
}

/** The sentence as a plain text, with its times in the browser's zone: for titles that a pointer shows. */
export function spoken(text: string, nowMs: number): string {
  return prose(text)
    .map((piece) => (typeof piece === "string" ? visible(piece) : moment(piece.atMs, nowMs)))
    .join("");
}

/** A time and its distance, for a sentence that is put together. */
export const at = (atMs: number): Time => ({ atMs, relative: true });
