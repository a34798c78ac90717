/**
 * Where the nodes of a graph lie: in layers, each edge from a layer to a later one.
 *
 *   1. edges that close a circle are turned round for the layout
 *   2. a node's layer is the longest way to it
 *   3. edges over several layers get a bend in each one between, so that they pass between nodes
 *   4. the order in a layer follows the middle of the neighbours, to and fro, while fewer edges cross
 */

export interface Edge {
  from: string;
  to: string;
}

export interface Place {
  id: string;
  layer: number;
  /** Position in its layer, from 0; bends count too. */
  order: number;
}

export interface Layout {
  places: Map<string, Place>;
  /** For each edge, in their order: the bends between its ends, as [layer, order]. */
  bends: [layer: number, order: number][][];
  layers: number;
  /** The most places in one layer. */
  width: number;
}

const SWEEPS = 8;

export function layered(ids: readonly string[], edges: readonly Edge[]): Layout {
  const known = new Set(ids);
  const usable = edges.map((edge) =>
    known.has(edge.from) && known.has(edge.to) && edge.from !== edge.to ? edge : null,
  );
  const forward = withoutCircles(ids, usable);
  const layerOf = longestWays(ids, forward);
  const chains: string[][] = forward.map((edge, number) => {
    if (!edge) return [];
    const chain = [edge.from];
    for (let layer = layerOf.get(edge.from)! + 1; layer < layerOf.get(edge.to)!; layer += 1) {
      const bend = `\0${number}.${layer}`;
      layerOf.set(bend, layer);
      chain.push(bend);
    }
    return [...chain, edge.to];
  });
  const rows = ordered(ids, layerOf, chains);
  const places = new Map<string, Place>();
  rows.forEach((row, layer) => row.forEach((id, order) => places.set(id, { id, layer, order })));
  const bends = chains.map((chain, number) => {
    const inner = chain
      .slice(1, -1)
      .map((id): [number, number] => [places.get(id)!.layer, places.get(id)!.order]);
    return usable[number]?.from === forward[number]?.from ? inner : inner.reverse();
  });
  for (const id of [...places.keys()]) if (!known.has(id)) places.delete(id);
  return { places, bends, layers: rows.length, width: Math.max(0, ...rows.map((row) => row.length)) };
}

function withoutCircles(ids: readonly string[], edges: readonly (Edge | null)[]): (Edge | null)[] {
  const out = new Map<string, number[]>(ids.map((id) => [id, []]));
  edges.forEach((edge, number) => edge && out.get(edge.from)!.push(number));
  const state = new Map<string, "open" | "done">();
  const turned = new Set<number>();
  for (const start of ids) {
    if (state.has(start)) continue;
    const stack: [id: string, next: number][] = [[start, 0]];
    state.set(start, "open");
    while (stack.length) {
      const top = stack.at(-1)!;
      const number = out.get(top[0])![top[1]];
      top[1] += 1;
      if (number === undefined) {
        state.set(top[0], "done");
        stack.pop();
        continue;
      }
      const to = edges[number]!.to;
      if (state.get(to) === "open") turned.add(number);
      else if (!state.has(to)) {
        state.set(to, "open");
        stack.push([to, 0]);
      }
    }
  }
  return edges.map((edge, number) => (edge && turned.has(number) ? { from: edge.to, to: edge.from } : edge));
}

function longestWays(ids: readonly string[], edges: readonly (Edge | null)[]): Map<string, number> {
  const layer = new Map<string, number>(ids.map((id) => [id, 0]));
  const before = new Map<string, number>(ids.map((id) => [id, 0]));
  const out = new Map<string, string[]>(ids.map((id) => [id, []]));
  for (const edge of edges) {
    if (!edge) continue;
    out.get(edge.from)!.push(edge.to);
    before.set(edge.to, before.get(edge.to)! + 1);
  }
  const ready = ids.filter((id) => before.get(id) === 0);
  for (let id = ready.shift(); id !== undefined; id = ready.shift()) {
    for (const to of out.get(id)!) {
      layer.set(to, Math.max(layer.get(to)!, layer.get(id)! + 1));
      before.set(to, before.get(to)! - 1);
      if (before.get(to) === 0) ready.push(to);
    }
  }
  return layer;
}

function ordered(
  ids: readonly string[],
  layerOf: ReadonlyMap<string, number>,
  chains: readonly string[][],
): string[][] {
  const rows: string[][] = [];
  const place = (id: string): void => void (rows[layerOf.get(id)!] ??= []).push(id);
  for (const id of ids) place(id);
  const above = new Map<string, string[]>();
  const below = new Map<string, string[]>();
  const link = (of: Map<string, string[]>, id: string, other: string): void => {
    const found = of.get(id);
    if (found) found.push(other);
    else of.set(id, [other]);
  };
  for (const chain of chains) {
    for (const id of chain.slice(1, -1)) place(id);
    for (let number = 1; number < chain.length; number += 1) {
      link(below, chain[number - 1]!, chain[number]!);
      link(above, chain[number]!, chain[number - 1]!);
    }
  }
  let best = rows.map((row) => [...row]);
  let fewest = crossings(best, below);
  for (let sweep = 0; sweep < SWEEPS && fewest > 0; sweep += 1) {
    const down = sweep % 2 === 0;
    const numbers = rows.map((_, number) => number);
    for (const number of down ? numbers.slice(1) : numbers.slice(0, -1).reverse()) {
      const beside = rows[down ? number - 1 : number + 1]!;
      const position = new Map(beside.map((id, order) => [id, order]));
      const own = new Map(rows[number]!.map((id, order) => [id, order]));
      const middle = (id: string): number => {
        const near = (down ? above : below).get(id) ?? [];
        return near.length
          ? near.reduce((sum, each) => sum + position.get(each)!, 0) / near.length
          : own.get(id)!;
      };
      const middles = new Map(rows[number]!.map((id) => [id, middle(id)]));
      rows[number]!.sort(
        (one, other) => middles.get(one)! - middles.get(other)! || own.get(one)! - own.get(other)!,
      );
    }
    const now = crossings(rows, below);
    if (now < fewest) {
      fewest = now;
      best = rows.map((row) => [...row]);
    }
  }
  return best;
}

/** How many pairs of edges cross between neighbouring layers. */
function crossings(rows: readonly string[][], below: ReadonlyMap<string, string[]>): number {
  let count = 0;
  for (let number = 0; number + 1 < rows.length; number += 1) {
    const position = new Map(rows[number + 1]!.map((id, order) => [id, order]));
    const ends: number[] = [];
    for (const id of rows[number]!) {
      const targets = (below.get(id) ?? [])
        .map((each) => position.get(each)!)
        .sort((one, other) => one - other);
      for (const target of targets) for (const end of ends) if (end > target) count += 1;
      ends.push(...targets);
    }
  }
  return count;
}

/** The nodes that lie on a way to or from one. */
export function around(id: string, edges: readonly Edge[]): Set<string> {
  const found = new Set([id]);
  for (const [near, far] of [
    ["from", "to"],
    ["to", "from"],
  ] as const) {
    const next = new Map<string, string[]>();
    for (const edge of edges) next.set(edge[near], [...(next.get(edge[near]) ?? []), edge[far]]);
    const seen = new Set([id]);
    const open = [id];
    for (let each = open.pop(); each !== undefined; each = open.pop()) {
      for (const other of next.get(each) ?? []) {
        if (!seen.has(other)) {
          seen.add(other);
          found.add(other);
          open.push(other);
        }
      }
    }
  }
  return found;
}
