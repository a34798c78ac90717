import { expect, test } from "vitest";

import { changed, readState, writeState } from "../src/address/query";

const SHAPE = { search: "", order: "newest", after: "" } as const;

test("members that the address does not have are the defaults", () => {
  expect(readState(SHAPE, new URLSearchParams("search=rates"))).toEqual({
    search: "rates",
    order: "newest",
    after: "",
  });
});

test("a default is left out of the address, and what is not of the view stays in it", () => {
  const before = new URLSearchParams("bus=kafka_finance&order=oldest");
  expect(writeState(SHAPE, before, { order: "newest", search: "a&b=c" }).toString()).toBe(
    "bus=kafka_finance&search=a%26b%3Dc",
  );
  expect(before.toString()).toBe("bus=kafka_finance&order=oldest");
});

test("a change of a filter goes back to the first page", () => {
  expect(writeState(SHAPE, new URLSearchParams("after=88120"), { search: "x" }, ["after"]).toString()).toBe(
    "search=x",
  );
});

test("what is written is read again", () => {
  const state = { search: "ü/\u202e +%", order: "oldest", after: "1" };
  expect(
    readState(SHAPE, new URLSearchParams(writeState(SHAPE, new URLSearchParams(), state).toString())),
  ).toEqual(state);
});

test("filters that differ from their defaults are counted", () => {
  expect(changed(SHAPE, { search: "x", order: "newest", after: "5" }, ["after"])).toBe(1);
});
