import { expect, test } from "vitest";

import { day, machine, moment, utc } from "../src/words/moment";

const NOW = Date.parse("2026-11-20T09:40:00Z");
const BERLIN = "Europe/Berlin";

test("a time of the same day is its clock time in the zone", () => {
  expect(moment(Date.parse("2026-11-20T09:12:03.5Z"), NOW, "minutes", BERLIN)).toBe("10:12");
  expect(moment(Date.parse("2026-11-20T09:12:03.5Z"), NOW, "seconds", BERLIN)).toBe("10:12:03");
  expect(moment(Date.parse("2026-11-20T09:12:03.5Z"), NOW, "milliseconds", BERLIN)).toBe("10:12:03.500");
});

test("a time of another day in the zone has its date, though it is the same day in UTC", () => {
  expect(moment(Date.parse("2026-11-20T23:30:00Z"), NOW, "minutes", BERLIN)).toBe("21 Nov, 00:30");
});

test("a time of another year has the year", () => {
  expect(moment(Date.parse("2025-01-02T03:04:05Z"), NOW, "minutes", "UTC")).toBe("2 Jan 2025, 03:04");
});

test("midnight is 00:00, not 24:00", () => {
  expect(moment(Date.parse("2026-11-20T00:00:00Z"), NOW, "minutes", "UTC")).toBe("00:00");
});

test("the title is the whole time in UTC", () => {
  expect(utc(Date.parse("2026-11-20T09:12:03Z"))).toBe("2026-11-20 09:12:03 UTC");
  expect(utc(Date.parse("2026-11-20T09:12:03.120Z"))).toBe("2026-11-20 09:12:03.120 UTC");
});

test.each([1e20, -1e20, Number.NaN, Number.POSITIVE_INFINITY])(
  "%d ms, which is no time, does not throw",
  (ms) => {
    expect(moment(ms, NOW)).toBe(`${ms} ms`);
    expect(utc(ms)).toContain(String(ms));
    expect(machine(ms)).toBeUndefined();
  },
);

test("a day has its year if it is another one", () => {
  expect(day(Date.parse("2026-11-20T23:30:00Z"), NOW, BERLIN)).toBe("21 Nov");
  expect(day(Date.parse("2025-11-20T12:00:00Z"), NOW, BERLIN)).toBe("20 Nov 2025");
});
