import { expect, test } from "vitest";

import type { NearMiss } from "../src/api/answers";
import { leftOut, missWords } from "../src/words/misses";

const miss = (of: Partial<NearMiss>): NearMiss => ({
  event: { id: "r-1", source: "/bank" },
  why: "term",
  refused: 1,
  terms: 2,
  ...of,
});
const words = (of: Partial<NearMiss>): string =>
  missWords(miss(of), true)
    .map((piece) => (typeof piece === "string" ? piece : "TIME"))
    .join("");

test.each<[Partial<NearMiss>, string]>([
  [{ term: 'Where("data.rows > 0")' }, 'Where("data.rows > 0") refused it'],
  [
    { term: 'Exact(source="/b")', attribute: "source", value: "/bank" },
    'Exact(source="/b") refused its source, which is "/bank"',
  ],
  [{ term: "T", attribute: "subject" }, "T refused its subject, of which it has none"],
  [{ term: "T", attribute: "subject", value: "" }, 'T refused its subject, which is ""'],
  [{ term: "T", refused: 3, terms: 4 }, "T refused it (and 2 more of 4 terms)"],
  [{ why: "error", term: "W", error: "no such key" }, "W could not be evaluated: no such key"],
  [
    { why: "error", term: "W", error: "no such key", data: "its data is XML" },
    "W could not be evaluated: its data is XML",
  ],
  [
    { why: "key", key: "2026-11-19", raw: "20261119", wanted: "2026-11-20" },
    "its key is 2026-11-19 (written 20261119), and 2026-11-20 is wanted",
  ],
  [{ why: "term", term: "T", key: "a", wanted: "b" }, "T refused it; its key is a, and b is wanted"],
  [
    { why: "no key", attribute: "data.day", data: "its data is empty" },
    "it has no key at data.day: its data is empty",
  ],
  [{ why: "fired", firing: "firing 7" }, "took part in firing 7"],
  [{ why: "refuted", refuted_by: "failed", refuted_ms: 5 }, "failed came in its window, at TIME"],
  [{ why: "unread" }, "it fits: the engines have not read it yet"],
  [{ why: "something later" }, "it fits: not read yet, or no longer held"],
])("%j", (of, text) => {
  expect(words(of)).toBe(text);
});

test("an event before the wait says when it was stamped, or that it never was", () => {
  expect(words({ why: "since", event: { id: "", source: "", timestamp_ms: 5 } })).toMatch(/, at TIME$/);
  expect(words({ why: "since", event: { id: "", source: "", timestamp_ms: -1 } })).toMatch(/LogAppendTime/);
});

test("what is not shown is counted", () => {
  expect(leftOut({ label: "rates", misses: [], errors: 4, other_keys: 2, counted: 1 })).toBe(
    "Also: 1 event that counted before; 2 events of other keys.",
  );
  expect(leftOut({ label: "rates", misses: [], errors: 0, other_keys: 0, counted: 0 })).toBe("");
});

test("a value that is withheld is not called missing", () => {
  const refused = miss({ term: "T", attribute: "source" });
  expect(missWords(refused, false)).toEqual(["T refused its source"]);
  expect(missWords(refused)).toEqual(["T refused its source"]);
  expect(missWords(miss({ why: "error", term: "W" }), false)).toEqual(["W could not be evaluated"]);
});
