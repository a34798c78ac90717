/**
 * The time axis of a wait: a lane for each part with its events, and lines for what happens by itself.
 *
 * Everything is placed between 0 and `width`, linear in time, so that lengths can be compared.
 */

import type { EventRef, Explained, Next } from "../api/answers";
import { visible } from "../words/visible";
import { drawn, leavesOf, partsOf, type Mark } from "./parts";

export interface AxisInput {
  sinceMs: number | null;
  nowMs: number;
  tree: Explained | null;
  next: readonly Next[];
}

export interface Dot {
  x: number;
  events: EventRef[];
  atMs: number;
}

export interface Lane {
  title: string;
  mark: Mark;
  dots: Dot[];
  /** Of events that are held and do not count. */
  apart: Dot[];
  /** While the earliest event is held or in the window: [from, to] in pixels. */
  bar: [number, number] | null;
}

export interface Line {
  x: number;
  atMs: number;
  title: string;
  kind: "since" | "now" | "ahead" | "past";
  /** Row of its title, from 0, so that titles do not cover each other. */
  row: number;
  anchor: "start" | "middle" | "end";
}

export interface Tick {
  x: number;
  atMs: number;
}

export interface Axis {
  fromMs: number;
  toMs: number;
  lanes: Lane[];
  lines: Line[];
  ticks: Tick[];
  /** How many parts have no lane. */
  more: number;
  /** How many rows the titles of the lines take. */
  rows: number;
  /** From now on. */
  ahead: [number, number];
}

const MOST_LANES = 12;
const NEAR_PX = 9; // dots that are nearer become one
const CHAR_PX = 6.2; // of a title's font
const MINUTE = 60_000;
const STEPS_MS = [
  ...[1, 5, 15, 30].map((s) => s * 1000),
  ...[1, 5, 15, 30].map((m) => m * MINUTE),
  ...[1, 2, 3, 6, 12].map((h) => h * 60 * MINUTE),
  ...[1, 2, 7, 14, 30, 90, 365].map((d) => d * 24 * 60 * MINUTE),
];

// Notes with a time ahead, and the words on the axis.
const AHEAD: Record<string, string> = {
  expires: "expires",
  fires: "fires",
  settles: "settles",
  over: "window ends",
  slides_out: "leaves the window",
  held_until: "held until",
  period: "resets",
};

export function axisOf(input: AxisInput, width: number): Axis {
  const root = input.tree === null ? null : partsOf(input.tree);
  const { parts: leaves, more } = drawn(root === null ? [] : [...leavesOf(root)], MOST_LANES);
  const moments = linesOf(input);
  const times = [
    input.nowMs,
    ...moments.map((line) => line.atMs),
    ...leaves
      .flatMap((leaf) => [...(leaf.node.events ?? []), ...(leaf.node.apart ?? []).map((each) => each.event)])
      .map(timeOf)
      .filter((time) => time !== null),
  ];
  const [fromMs, toMs] = padded(Math.min(...times), Math.max(...times));
  const x = (ms: number): number => Math.round(((ms - fromMs) / (toMs - fromMs)) * width * 10) / 10;
  const windows = root === null ? [] : windowsOf(root.node);
  const lanes = leaves.map((leaf) => {
    const dots = clustered(leaf.node.events ?? [], x);
    const ends = windows.find((each) => leaf.node.labels?.includes(each.label));
    const first = dots[0];
    return {
      title: visible(leaf.node.labels?.length === 1 ? leaf.node.labels[0]! : leaf.title),
      mark: leaf.mark,
      dots,
      apart: clustered(
        (leaf.node.apart ?? []).map((each) => each.event),
        x,
      ),
      bar: ends && first ? ([first.x, x(ends.atMs)] as [number, number]) : null,
    };
  });
  const lines = placed(
    moments.map((line) => ({ ...line, x: x(line.atMs) })),
    width,
  );
  return {
    fromMs,
    toMs,
    lanes,
    more,
    lines,
    ticks: ticksOf(fromMs, toMs, Math.max(2, Math.floor(width / 90))).map((atMs) => ({ atMs, x: x(atMs) })),
    rows: Math.max(0, ...lines.map((line) => line.row)) + 1,
    ahead: [x(input.nowMs), width],
  };
}

type Moment = Pick<Line, "atMs" | "title" | "kind">;

/** Since, now, and what comes by itself; a time that two sources name comes once. */
function linesOf(input: AxisInput): Moment[] {
  const found: Moment[] = [];
  const add = (atMs: number, title: string): void => {
    if (found.some((each) => Math.abs(each.atMs - atMs) < 1000 && each.title === title)) return;
    found.push({ atMs, title, kind: atMs > input.nowMs ? "ahead" : "past" });
  };
  for (const each of input.next) add(each.at_ms, each.label ? `${each.what} ${each.label}` : each.what);
  if (input.tree !== null) {
    for (const [node] of nodesOf(input.tree)) {
      for (const note of node.notes ?? []) {
        const words = AHEAD[note.what];
        if (words === undefined || note.at_ms === undefined) continue;
        // A bar in the lane shows until when an event is held.
        if (note.what === "held_until" || note.what === "slides_out") continue;
        add(note.at_ms, words);
      }
    }
  }
  if (input.sinceMs !== null) found.push({ atMs: input.sinceMs, title: "since", kind: "since" });
  found.push({ atMs: input.nowMs, title: "now", kind: "now" });
  return found.sort((one, other) => one.atMs - other.atMs);
}

/** Until when the earliest event of a part is in its window. */
function windowsOf(tree: Explained): { label: string; atMs: number }[] {
  const found: { label: string; atMs: number }[] = [];
  for (const [node] of nodesOf(tree)) {
    for (const note of node.notes ?? []) {
      const ends = note.what === "slides_out" || note.what === "held_until";
      if (ends && note.label !== undefined && note.at_ms !== undefined) {
        found.push({ label: note.label, atMs: note.at_ms });
      }
    }
  }
  return found;
}

function* nodesOf(tree: Explained): Generator<[Explained]> {
  yield [tree];
  for (const below of tree.of ?? []) yield* nodesOf(below);
}

function padded(low: number, high: number): [number, number] {
  const length = Math.max(high - low, 1000);
  return [low - length * 0.03, low + length * 1.04];
}

const timeOf = (event: EventRef): number | null => event.time_ms ?? event.timestamp_ms ?? null;

/** Dots from left to right; events that would cover each other share one. */
function clustered(events: readonly EventRef[], x: (ms: number) => number): Dot[] {
  const timed = events
    .map((event) => ({ event, atMs: timeOf(event) }))
    .filter((each): each is { event: EventRef; atMs: number } => each.atMs !== null)
    .sort((one, other) => one.atMs - other.atMs);
  const dots: Dot[] = [];
  for (const { event, atMs } of timed) {
    const last = dots.at(-1);
    if (last && x(atMs) - last.x < NEAR_PX) last.events.push(event);
    else dots.push({ x: x(atMs), atMs, events: [event] });
  }
  return dots;
}

/** Gives each title a row in which it covers no other one. */
function placed(lines: readonly (Moment & { x: number })[], width: number): Line[] {
  const ends: number[] = [];
  return lines.map((line) => {
    const length = line.title.length * CHAR_PX + 10;
    const anchor = line.x < length / 2 ? "start" : line.x > width - length / 2 ? "end" : "middle";
    const from = anchor === "start" ? line.x : anchor === "end" ? line.x - length : line.x - length / 2;
    let row = ends.findIndex((end) => end <= from);
    if (row < 0) row = ends.length;
    ends[row] = from + length;
    return { ...line, row, anchor };
  });
}

/** Round times between two times, at most `most`; whole hours and days are those of the browser's zone. */
export function ticksOf(fromMs: number, toMs: number, most: number): number[] {
  const step = STEPS_MS.find((each) => (toMs - fromMs) / each <= most) ?? STEPS_MS.at(-1)!;
  const shift = -new Date(fromMs).getTimezoneOffset() * MINUTE;
  const ticks = [];
  for (let at = Math.ceil((fromMs + shift) / step) * step - shift; at <= toMs; at += step) ticks.push(at);
  return ticks;
}
