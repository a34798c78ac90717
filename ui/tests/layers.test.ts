import { expect, test } from "vitest";

import { around, layered, type Edge } from "../src/pictures/layers";
import { drawing, NODE } from "../src/pictures/routes";

const edges = (...pairs: string[]): Edge[] => pairs.map((pair) => ({ from: pair[0]!, to: pair[1]! }));
const idsOf = (of: readonly Edge[]): string[] => [...new Set(of.flatMap((edge) => [edge.from, edge.to]))];

test("each edge goes to a later layer, and the longest way decides which", () => {
  const of = edges("ab", "bc", "ac", "cd");
  const { places, layers } = layered(idsOf(of), of);
  expect(Object.fromEntries([...places].map(([id, place]) => [id, place.layer]))).toEqual({
    a: 0,
    b: 1,
    c: 2,
    d: 3,
  });
  expect(layers).toBe(4);
});

test("an edge over several layers has a bend in each one between", () => {
  const of = edges("ab", "bc", "cd", "ad");
  expect(layered(idsOf(of), of).bends.map((bends) => bends.map(([layer]) => layer))).toEqual([
    [],
    [],
    [],
    [1, 2],
  ]);
});

test("a circle is drawn too: DAGs feed each other", () => {
  const of = edges("ab", "bc", "ca");
  const { places, bends } = layered(idsOf(of), of);
  expect(new Set([...places.values()].map((place) => place.layer))).toEqual(new Set([0, 1, 2]));
  expect(bends[2]).toHaveLength(1); // back over the layer of b
});

test("loops, edges to nowhere, and nodes without edges do no harm", () => {
  const layout = layered(
    ["a", "b"],
    [
      { from: "a", to: "a" },
      { from: "a", to: "gone" },
    ],
  );
  expect([...layout.places.keys()].sort()).toEqual(["a", "b"]);
  const drawn = drawing(
    layout,
    [
      { from: "a", to: "a" },
      { from: "a", to: "gone" },
    ],
    false,
  );
  expect(drawn.paths).toEqual(["", ""]);
  expect(layered([], []).places.size).toBe(0);
  expect(drawing(layered([], []), [], false).paths).toEqual([]);
});

test("no two nodes have one place, and crossings that can be avoided are", () => {
  const of = edges("ax", "by", "cz");
  const { places } = layered(["a", "b", "c", "z", "y", "x"], of);
  const order = (id: string): number => places.get(id)!.order;
  expect([order("x"), order("y"), order("z")]).toEqual([order("a"), order("b"), order("c")]);
  expect(new Set([...places.values()].map((place) => `${place.layer} ${place.order}`)).size).toBe(6);
});

test.each([false, true])("nodes do not cover each other, and lie in the picture; downwards: %s", (down) => {
  const of = edges("ae", "be", "ce", "ef", "eg", "ah", "hg", "dg");
  const layout = layered(idsOf(of), of);
  const drawn = drawing(layout, of, down);
  const corners = [...drawn.at.values()];
  for (const [number, one] of corners.entries()) {
    expect(one.x).toBeGreaterThanOrEqual(0);
    expect(one.x + NODE.width).toBeLessThanOrEqual(drawn.width);
    expect(one.y + NODE.height).toBeLessThanOrEqual(drawn.height);
    for (const other of corners.slice(number + 1)) {
      expect(Math.abs(one.x - other.x) >= NODE.width || Math.abs(one.y - other.y) >= NODE.height).toBe(true);
    }
  }
  expect(drawn.paths.every((path) => /^M[\d. ]+(C[\d. ]+)+$/.test(path))).toBe(true);
});

test("what lies on a way to or from a node belongs to it, its siblings do not", () => {
  expect(around("b", edges("ab", "bc", "ax", "cd"))).toEqual(new Set(["a", "b", "c", "d"]));
});

test("a long chain of edges is no deep recursion", () => {
  const ids = Array.from({ length: 5000 }, (_, number) => `n${number}`);
  const chain = ids.slice(1).map((to, number) => ({ from: ids[number]!, to }));
  expect(layered(ids, chain).layers).toBe(5000);
});
