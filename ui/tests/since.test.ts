import { expect, test } from "vitest";

import { sinceMs } from "../src/address/since";

const NOW = Date.parse("2026-11-20T09:40:31Z");

test("a span looks back from now, in whole minutes, so that its address changes once a minute", () => {
  expect(sinceMs("1h", NOW)).toBe(Date.parse("2026-11-20T08:40:00Z"));
  expect(sinceMs("1h", NOW + 20_000)).toBe(sinceMs("1h", NOW));
});

test("any time, and a span that is not known, ask for no time", () => {
  expect(sinceMs("all", NOW)).toBeUndefined();
  expect(sinceMs("__proto__", NOW)).toBeUndefined();
});
