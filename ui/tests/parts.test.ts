import { expect, test } from "vitest";

import type { Explained } from "../src/api/answers";
import { drawn, leavesOf, partsOf } from "../src/pictures/parts";

const leaf = (label: string, met: boolean, needed = true): Explained => ({
  kind: "event",
  title: label,
  met,
  needed,
  have: met ? 1 : 0,
  need: 1,
  labels: [label],
});
const all = (...of: Explained[]): Explained => ({
  kind: "all",
  title: "all of",
  met: of.every((each) => each.met),
  needed: true,
  have: of.filter((each) => each.met).length,
  need: of.length,
  of,
});

test("a part is met, missing, open because of a part below it, or not needed", () => {
  const root = partsOf(all(leaf("orders", true), leaf("rates", false), leaf("fees", false, false)));
  expect(root.mark).toBe("open");
  expect(root.parts.map((part) => part.mark)).toEqual(["met", "missing", "unneeded"]);
  expect(root.count).toBe("1 of 3");
  expect(root.dots).toEqual({ have: 1, need: 3 });
  expect(root.parts[0]!.count).toBe("");
});

test("steps of a sequence are numbered, other parts are not", () => {
  const sequence: Explained = {
    kind: "sequence",
    title: "in this order",
    met: false,
    needed: true,
    of: [leaf("a", true), leaf("b", false)],
  };
  expect(partsOf(sequence).parts.map((part) => part.step)).toEqual([1, 2]);
  expect(partsOf(all(leaf("a", true))).parts[0]!.step).toBeNull();
});

test("of many parts the missing ones are drawn first, each in its place", () => {
  const shops = Array.from({ length: 31 }, (_, number) =>
    leaf(`shop ${number + 1}`, ![3, 16, 28].includes(number)),
  );
  const { parts, more } = drawn(partsOf(all(...shops)).parts, 8);
  expect(parts.map((part) => part.title)).toEqual([
    "shop 1",
    "shop 2",
    "shop 3",
    "shop 4",
    "shop 5",
    "shop 6",
    "shop 17",
    "shop 29",
  ]);
  expect(more).toBe(23);
});

test("one part more than are drawn is drawn too, instead of a button for it", () => {
  const nine = partsOf(all(...Array.from({ length: 9 }, (_, number) => leaf(String(number), true)))).parts;
  expect(drawn(nine, 8)).toEqual({ parts: nine, more: 0 });
});

test("ids are unique in the tree", () => {
  const root = partsOf(all(all(leaf("a", true), leaf("a", true)), leaf("a", true)));
  const ids = [...leavesOf(root)].map((part) => part.id);
  expect(new Set(ids).size).toBe(3);
});

test("more dots than can be counted are not drawn", () => {
  expect(partsOf({ ...leaf("beats", false), kind: "count", have: 3, need: 13 }).dots).toBeNull();
});
