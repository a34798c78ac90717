/**
 * The parts of a condition as they are drawn: an explanation's tree with a mark for each node.
 *
 * Of a node with many parts only some are drawn at first: the missing ones come before the met ones, and each
 * keeps its place among those that are drawn.
 */

import type { Explained } from "../api/answers";

/** `open`: not met yet, because a part below it is missing. */
export type Mark = "met" | "missing" | "open" | "unneeded";

export const MOST_PARTS = 8;

export interface Part {
  /** Unique in the tree: the positions on the way to it. */
  id: string;
  mark: Mark;
  title: string;
  /** `1 of 2`; "" for a node that needs one thing. */
  count: string;
  /** For a row of dots; null if there are too many, or one. */
  dots: { have: number; need: number } | null;
  /** From 1, in a sequence. */
  step: number | null;
  node: Explained;
  parts: Part[];
}

const MOST_DOTS = 12;

export function partsOf(tree: Explained, id = "0", step: number | null = null): Part {
  const { have, need } = tree;
  const several = have !== undefined && need !== undefined && need > 1;
  return {
    id,
    mark: tree.met ? "met" : !tree.needed ? "unneeded" : tree.of?.length ? "open" : "missing",
    title: tree.title,
    count: several ? `${have} of ${need}` : "",
    dots: several && need <= MOST_DOTS ? { have, need } : null,
    step,
    node: tree,
    parts: (tree.of ?? []).map((below, number) =>
      partsOf(below, `${id}.${number}`, tree.kind === "sequence" ? number + 1 : null),
    ),
  };
}

/** The parts that are drawn at first, and how many more there are. */
export function drawn(parts: readonly Part[], most = MOST_PARTS): { parts: Part[]; more: number } {
  if (parts.length <= most + 1) return { parts: [...parts], more: 0 };
  const order: Mark[] = ["missing", "open", "met", "unneeded"];
  const chosen = new Set(
    [...parts].sort((one, other) => order.indexOf(one.mark) - order.indexOf(other.mark)).slice(0, most),
  );
  return { parts: parts.filter((part) => chosen.has(part)), more: parts.length - most };
}

/** The leaves: parts that events meet, in order. */
export function* leavesOf(part: Part): Generator<Part> {
  if (!part.parts.length) yield part;
  for (const below of part.parts) yield* leavesOf(below);
}
