/**
 * The time axis of a wait: a lane for each part with its events, and lines for what happens by itself.
 *
 * Everything is placed between 0 and `width`, linear in time, so that lengths can be compared.
 */

import type { EventRef, Explained, Next } from "../api/answers";
import { day, moment } from "../words/moment";
import { visible } from "../words/visible";
import { drawn, leavesOf, partsOf, type Mark } from "./parts";

export interface AxisInput {
  /** From when on events count, and when it was registered. */
  sinceMs: number | null;
  registeredMs: number | null;
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
  /** Ticks are whole days. */
  days: boolean;
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
const DAY = 24 * 60 * MINUTE;
const SAME_MS = 5000; // a wait is registered a moment after its task has started
const FAR_MS = 400 * DAY; // an expiry that is further away says only that there is one
const STEPS_MS = [
  ...[1, 5, 15, 30].map((s) => s * 1000),
  ...[1, 5, 15, 30].map((m) => m * MINUTE),
  ...[1, 2, 3, 6, 12].map((h) => h * 60 * MINUTE),
  ...[1, 2, 7, 14, 30, 90, 365].map((d) => d * DAY),
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
  const events = leaves.flatMap((leaf) => [
    ...(leaf.node.events ?? []),
    ...(leaf.node.apart ?? []).map((each) => each.event),
  ]);
  const [fromMs, toMs] = extentOf(input, moments, events);
  const x = (ms: number): number => {
    const place = ((ms - fromMs) / (toMs - fromMs)) * width;
    return Math.round(Math.min(width, Math.max(0, place)) * 10) / 10;
  };
  const most = Math.max(2, Math.floor(width / 90));
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
    moments
      // Events may count from long before the wait: the axis would show nothing but that.
      .filter((line) => line.kind !== "since" || line.atMs >= fromMs)
      .map((line) => ({ ...line, x: x(line.atMs) })),
    width,
  );
  return {
    fromMs,
    toMs,
    lanes,
    more,
    lines,
    ticks: ticksOf(fromMs, toMs, most).map((atMs) => ({ atMs, x: x(atMs) })),
    days: stepOf(fromMs, toMs, most) >= DAY,
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
  const { sinceMs, registeredMs } = input;
  if (registeredMs !== null) found.push({ atMs: registeredMs, title: "since", kind: "since" });
  // Mostly they are the same.
  if (sinceMs !== null && (registeredMs === null || Math.abs(sinceMs - registeredMs) > SAME_MS)) {
    found.push({ atMs: sinceMs, title: registeredMs === null ? "since" : "events count", kind: "since" });
  }
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

/**
 * The times at both ends. The wait itself and what comes next are always between them; the times of events, which
 * their senders choose, only if they make the axis at most five times as long. Others lie at its end.
 */
function extentOf(
  input: AxisInput,
  moments: readonly Moment[],
  events: readonly EventRef[],
): [number, number] {
  const near = (ms: number): boolean => Math.abs(ms - input.nowMs) < FAR_MS;
  const own = [
    input.nowMs,
    ...moments.filter((line) => line.kind !== "since").map((line) => line.atMs),
  ].filter(near);
  if (input.registeredMs !== null && near(input.registeredMs)) own.push(input.registeredMs);
  let low = Math.min(...own);
  let high = Math.max(...own);
  const length = Math.max(high - low, MINUTE);
  const times = events.map(timeOf).filter((time) => time !== null);
  const usable = times.filter((time) => time > low - 2 * length && time < high + 2 * length);
  const { sinceMs } = input;
  if (sinceMs !== null && sinceMs > low - length && sinceMs < high) usable.push(sinceMs);
  low = Math.min(low, ...usable);
  high = Math.max(high, ...usable);
  const whole = Math.max(high - low, 1000);
  return [low - whole * 0.03, high + whole * 0.04];
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

function stepOf(fromMs: number, toMs: number, most: number): number {
  const year = STEPS_MS.at(-1)!;
  const years = (toMs - fromMs) / year;
  return STEPS_MS.find((each) => (toMs - fromMs) / each <= most) ?? year * Math.ceil(years / most);
}

/** Round times between two times, at most `most`; whole hours and days are those of the browser's zone. */
export function ticksOf(fromMs: number, toMs: number, most: number): number[] {
  const step = stepOf(fromMs, toMs, most);
  const shift = -new Date(fromMs).getTimezoneOffset() * MINUTE;
  const ticks = [];
  for (let at = Math.ceil((fromMs + shift) / step) * step - shift; at <= toMs; at += step) ticks.push(at);
  return ticks;
}

/** A time of the day; at midnight the day, which would be too long beside it. */
export function tickText(atMs: number, days: boolean, nowMs: number, zone?: string): string {
  const clock = moment(atMs, atMs, "minutes", zone);
  return days || clock === "00:00" ? day(atMs, nowMs, zone) : clock;
}
