/** Which part of the graph is drawn: all of it, or what belongs to a node, a search, or what is late. */

import type { Graph, GraphEdge, GraphNode } from "../api/answers";
import { around } from "./layers";

export const MOST_NODES = 120; // more cannot be read

export interface Selection {
  /** Only what lies on a way to or from this node. */
  node: string;
  search: string;
  late: boolean;
}

export function selected(
  graph: Graph,
  by: Selection,
): { nodes: GraphNode[]; edges: GraphEdge[]; left: number } {
  const known = new Set(graph.nodes.map((node) => node.id));
  const edges = graph.edges.filter((edge) => known.has(edge.from) && known.has(edge.to));
  let wanted = graph.nodes;
  const text = by.search.trim().toLowerCase();
  if (by.node && known.has(by.node)) wanted = graph.nodes.filter((node) => node.id === by.node);
  else if (text)
    wanted = graph.nodes.filter((node) => `${node.title} ${node.dag_id ?? ""}`.toLowerCase().includes(text));
  if (by.late) wanted = wanted.filter((node) => node.late || node.id === by.node);
  let nodes = graph.nodes;
  if (wanted.length < graph.nodes.length) {
    const near = new Set<string>();
    for (const node of wanted) for (const id of around(node.id, edges)) near.add(id);
    nodes = graph.nodes.filter((node) => near.has(node.id));
  }
  const drawn = nodes.slice(0, MOST_NODES);
  const ids = new Set(drawn.map((node) => node.id));
  return {
    nodes: drawn,
    edges: edges.filter((edge) => ids.has(edge.from) && ids.has(edge.to)),
    left: nodes.length - drawn.length,
  };
}
