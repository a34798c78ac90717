import { expect, test } from "vitest";

import { apartWords, noteWords } from "../src/words/notes";

const NOW = 1_000_000;

test("a note with a time ahead says when", () => {
  expect(noteWords({ what: "slides_out", at_ms: NOW + 5, label: "orders" }, NOW)).toEqual([
    "orders leaves the window at ",
    { atMs: NOW + 5, relative: true },
  ]);
});

test("a time that has passed is due", () => {
  expect(noteWords({ what: "expires", at_ms: NOW - 5 }, NOW)[0]).toBe("due since ");
  expect(noteWords({ what: "expires", at_ms: NOW + 5 }, NOW)[0]).toBe("expires at ");
});

test("a period has the bounds that it has", () => {
  expect(noteWords({ what: "period", at_ms: NOW }, NOW)).toEqual([
    "period",
    " until ",
    { atMs: NOW, relative: true },
  ]);
  expect(noteWords({ what: "period", from_ms: 1 }, NOW)).toEqual(["period", " from ", { atMs: 1 }]);
});

test("a note of a later version is shown by its text or its name", () => {
  expect(noteWords({ what: "new_thing", text: "since 2026-11-20T09:12:00Z" }, NOW)).toEqual([
    "since ",
    { atMs: Date.parse("2026-11-20T09:12:00Z") },
  ]);
  expect(noteWords({ what: "new_thing" }, NOW)).toEqual(["new thing"]);
});

test("a held event that does not count says why and by how much", () => {
  expect(apartWords({ event: { id: "x", source: "/" }, why: "window", by_ms: 303_000 })).toBe(
    "is outside the window, by 5 min 3 s",
  );
});
