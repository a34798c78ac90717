/** Coordinates of a layered graph: where each node is drawn, and the path of each edge. */

import type { Edge, Layout } from "./layers";

export interface Point {
  x: number;
  y: number;
}

export interface Drawing {
  width: number;
  height: number;
  /** The upper left corner of each node. */
  at: Map<string, Point>;
  /** For each edge, as the `d` of an SVG path; "" for one that is not drawn. */
  paths: string[];
}

export const NODE = { width: 176, height: 42 } as const;
const GAP = { along: 64, across: 18 } as const;
const MARGIN = 16;

/** down: layers go downwards instead of to the right. */
export function drawing(layout: Layout, edges: readonly Edge[], down: boolean): Drawing {
  const layerPx = (down ? NODE.height : NODE.width) + GAP.along;
  const placePx = (down ? NODE.width : NODE.height) + GAP.across;
  const counts = new Map<number, number>();
  const count = (layer: number, order: number): void =>
    void counts.set(layer, Math.max(counts.get(layer) ?? 0, order + 1));
  for (const place of layout.places.values()) count(place.layer, place.order);
  for (const bends of layout.bends) for (const [layer, order] of bends) count(layer, order);
  // Each layer is centred on the widest one.
  const cornerOf = (layer: number, order: number): Point => {
    const along = MARGIN + layer * layerPx;
    const across = MARGIN + (order + (layout.width - (counts.get(layer) ?? 0)) / 2) * placePx;
    return down ? { x: across, y: along } : { x: along, y: across };
  };
  const at = new Map(
    [...layout.places.values()].map((place) => [place.id, cornerOf(place.layer, place.order)]),
  );
  const paths = edges.map((edge, number) => {
    const from = layout.places.get(edge.from);
    const to = layout.places.get(edge.to);
    if (!from || !to || edge.from === edge.to) return "";
    const back = from.layer > to.layer;
    const points = [
      side(at.get(edge.from)!, down, back ? "before" : "after"),
      ...(layout.bends[number] ?? []).flatMap(([layer, order]) => {
        const corner = cornerOf(layer, order);
        const ends = [side(corner, down, "before"), side(corner, down, "after")];
        return back ? ends.reverse() : ends;
      }),
      side(at.get(edge.to)!, down, back ? "after" : "before"),
    ];
    return pathOf(points, down);
  });
  const alongPx = MARGIN * 2 + Math.max(1, layout.layers) * layerPx - GAP.along;
  const acrossPx = MARGIN * 2 + Math.max(1, layout.width) * placePx - GAP.across;
  return { width: down ? acrossPx : alongPx, height: down ? alongPx : acrossPx, at, paths };
}

/** The middle of the side of a node that faces the layer before or after it. */
function side(corner: Point, down: boolean, facing: "before" | "after"): Point {
  const far = facing === "after" ? 1 : 0;
  return down
    ? { x: corner.x + NODE.width / 2, y: corner.y + far * NODE.height }
    : { x: corner.x + far * NODE.width, y: corner.y + NODE.height / 2 };
}

function pathOf(points: readonly Point[], down: boolean): string {
  const [first, ...rest] = points;
  let before = first!;
  const pieces = [`M${before.x} ${before.y}`];
  for (const point of rest) {
    const [x, y] = [(before.x + point.x) / 2, (before.y + point.y) / 2];
    pieces.push(
      down
        ? `C${before.x} ${y} ${point.x} ${y} ${point.x} ${point.y}`
        : `C${x} ${before.y} ${x} ${point.y} ${point.x} ${point.y}`,
    );
    before = point;
  }
  return pieces.join("");
}
