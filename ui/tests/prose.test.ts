import { expect, test } from "vitest";

import { prose, spoken } from "../src/words/prose";

test("a time in a sentence becomes a time, and the rest stays text", () => {
  expect(prose("Waits since 2026-11-20T09:12:00Z for 2 events.")).toEqual([
    "Waits since ",
    { atMs: Date.parse("2026-11-20T09:12:00Z") },
    " for 2 events.",
  ]);
});

test("offsets and fractions are read", () => {
  expect(prose("2026-11-20T09:12:00.250+01:00")).toEqual([{ atMs: Date.parse("2026-11-20T08:12:00.250Z") }]);
});

test("a run id with a time in it stays a name", () => {
  expect(prose("run scheduled__2026-11-20T00:00:00+00:00 waits")).toEqual([
    "run scheduled__2026-11-20T00:00:00+00:00 waits",
  ]);
});

test("what only looks like a time stays text", () => {
  expect(prose("2026-13-45T99:99:99Z")).toEqual(["2026-13-45T99:99:99Z"]);
  expect(prose("")).toEqual([]);
});

test("as a plain text the times are in words", () => {
  const now = Date.parse("2026-11-20T09:40:00Z");
  expect(spoken("none since 2024-01-05T09:12:00Z", now)).toMatch(/^none since \d+ Jan 2024, \d\d:\d\d$/);
});
