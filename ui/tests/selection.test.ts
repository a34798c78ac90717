import { expect, test } from "vitest";

import type { Graph } from "../src/api/answers";
import { MOST_NODES, selected } from "../src/pictures/selection";

const GRAPH: Graph = {
  nodes: [
    { id: "s1", kind: "sender", title: "/bank", late: true },
    { id: "s2", kind: "sender", title: "/shop", late: false },
    { id: "w1", kind: "wait", title: "daily / ready", dag_id: "daily", late: false },
    { id: "w2", kind: "wait", title: "ledger / close", dag_id: "ledger", late: false },
  ],
  edges: [
    { from: "s1", to: "w1", title: "" },
    { from: "s2", to: "w2", title: "" },
    { from: "s2", to: "missing", title: "" },
  ],
};
const ALL = { node: "", search: "", late: false };
const ids = (found: { nodes: { id: string }[] }): string[] => found.nodes.map((node) => node.id);

test("without a choice everything is drawn, but edges to nowhere", () => {
  const found = selected(GRAPH, ALL);
  expect(ids(found)).toEqual(["s1", "s2", "w1", "w2"]);
  expect(found.edges).toHaveLength(2);
});

test("a node, a search and lateness choose what belongs to them", () => {
  expect(ids(selected(GRAPH, { ...ALL, node: "w1" }))).toEqual(["s1", "w1"]);
  expect(ids(selected(GRAPH, { ...ALL, search: "LEDGER" }))).toEqual(["s2", "w2"]);
  expect(ids(selected(GRAPH, { ...ALL, late: true }))).toEqual(["s1", "w1"]);
  expect(ids(selected(GRAPH, { ...ALL, search: "nothing" }))).toEqual([]);
});

test("a node that is gone chooses nothing", () => {
  expect(ids(selected(GRAPH, { ...ALL, node: "gone" }))).toHaveLength(4);
});

test("a graph that cannot be read is cut, and says by how much", () => {
  const nodes = Array.from({ length: MOST_NODES + 5 }, (_, number) => ({
    id: String(number),
    kind: "wait",
    title: "",
    late: false,
  }));
  expect(selected({ nodes, edges: [] }, ALL)).toMatchObject({ left: 5 });
});
