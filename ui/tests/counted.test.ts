import { expect, test } from "vitest";

import { counted, listed } from "../src/words/counted";

test("numbers agree with their words and are grouped", () => {
  expect(counted(1, "wait")).toBe("1 wait");
  expect(counted(99_841, "wait")).toBe("99,841 waits");
  expect(counted(2, "match", "matches")).toBe("2 matches");
});

test.each([
  [[], ""],
  [["a"], "a"],
  [["a", "b"], "a and b"],
  [["a", "b", "c"], "a, b and c"],
  [["a", "b", "c", "d", "e"], "a, b, c and 2 more"],
])("%j is listed as %s", (things, words) => {
  expect(listed(things)).toBe(words);
});
