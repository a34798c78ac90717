import { expect, test } from "vitest";

import { visible, visibleLines } from "../src/words/visible";

// The same cases as tests/unit/events/test_visible.py has for the commands.
test.each([
  ["orders\nERROR forged", String.raw`orders\nERROR forged`],
  ["a\r\nb\tc", String.raw`a\r\nb\tc`],
  ["\x1b[2J\x07", String.raw`\x1b[2J\x07`],
  ["\x9b2J\x85", String.raw`\x9b2J\x85`],
  ["invoice\u202efdp.exe", String.raw`invoice\u202efdp.exe`],
  ["a\u2028b\u2029c", String.raw`a\u2028b\u2029c`],
  ["a\u200bb\u200dc\ufeff\u00ad\u2060", String.raw`a\u200bb\u200dc\ufeff\xad\u2060`],
  ["\u{e0041}", String.raw`\U000e0041`],
  ["no\u00a0break", String.raw`no\xa0break`],
  ["\ud800", String.raw`\ud800`],
  ["\uffff", String.raw`\uffff`],
  ["Grüße, 東京 – €5 <b>", "Grüße, 東京 – €5 <b>"],
  ["", ""],
])("%j is shown as %s", (text, shown) => {
  expect(visible(text)).toBe(shown);
  expect(visible(shown)).toBe(shown);
});

test("line breaks and tabs of a text of several lines stay", () => {
  expect(visibleLines("{\n\t1\r\u202e}")).toBe("{\n\t1\\x0d\\u202e}");
});
