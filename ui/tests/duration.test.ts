import { expect, test } from "vitest";

import { distance, duration } from "../src/words/duration";

test.each([
  [0, "0 ms"],
  [118, "118 ms"],
  [999.6, "999 ms"],
  [1000, "1 s"],
  [1240, "1.2 s"],
  [9_999, "9.9 s"],
  [12_400, "12 s"],
  [303_000, "5 min 3 s"],
  [12 * 60_000 + 59_000, "12 min"],
  [2 * 3_600_000 + 5 * 60_000, "2 h 5 min"],
  [3_600_000, "1 h"],
  [76 * 3_600_000, "3 d 4 h"],
  [-303_000, "5 min 3 s"],
])("%i ms is %s", (ms, words) => {
  expect(duration(ms)).toBe(words);
});

const NOW = 1_000_000_000;

test.each([
  [0, "now"],
  [999, "now"],
  [-26_400, "26 s ago"],
  [-326_000, "5 min ago"],
  [-8 * 3_600_000 - 30_000, "8 h ago"],
  [1_500, "in 1 s"],
  [303_400, "in 5 min 3 s"],
  [20_101_000, "in 5 h 35 min"],
])("%i ms from now is %s", (ms, words) => {
  expect(distance(NOW + ms, NOW)).toBe(words);
});
