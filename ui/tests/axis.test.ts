import { expect, test } from "vitest";

import type { Explained } from "../src/api/answers";
import { axisOf, tickText, ticksOf } from "../src/pictures/axis";

const at = (text: string): number => Date.parse(`2026-11-20T${text}Z`);

const TREE: Explained = {
  kind: "expires",
  title: "expires after 6h",
  met: false,
  needed: true,
  notes: [{ what: "expires", at_ms: at("15:12:00") }],
  of: [
    {
      kind: "within",
      title: "within 2h",
      met: false,
      needed: true,
      notes: [{ what: "slides_out", at_ms: at("11:15:00"), label: "orders" }],
      of: [
        {
          kind: "all",
          title: "all of",
          met: false,
          needed: true,
          have: 1,
          need: 2,
          of: [
            {
              kind: "event",
              title: "orders",
              met: true,
              needed: true,
              labels: ["orders"],
              events: [{ id: "o", source: "/o", time_ms: at("09:15:00") }],
            },
            { kind: "event", title: "rates", met: false, needed: true, labels: ["rates"] },
          ],
        },
      ],
    },
  ],
};
const INPUT = {
  sinceMs: at("09:12:00"),
  registeredMs: at("09:12:01"),
  nowMs: at("09:40:00"),
  tree: TREE,
  next: [{ what: "expires", at_ms: at("15:12:00") }],
};

test("a lane for each part, with its events and until when they are in the window", () => {
  const axis = axisOf(INPUT, 600);
  expect(axis.lanes.map((lane) => [lane.title, lane.mark, lane.dots.length])).toEqual([
    ["orders", "met", 1],
    ["rates", "missing", 0],
  ]);
  const [orders] = axis.lanes;
  expect(orders!.bar![0]).toBe(orders!.dots[0]!.x);
  expect(orders!.bar![1]).toBeGreaterThan(axis.ahead[0]);
});

test("places are linear in time, and everything lies on the axis", () => {
  const axis = axisOf(INPUT, 600);
  const x = Object.fromEntries(axis.lines.map((line) => [line.title, line.x]));
  const perMs = (x["now"]! - x["since"]!) / (INPUT.nowMs - INPUT.sinceMs);
  expect((x["expires"]! - x["now"]!) / (at("15:12:00") - INPUT.nowMs)).toBeCloseTo(perMs, 5);
  for (const each of [...axis.lines, ...axis.ticks, ...axis.lanes.flatMap((lane) => lane.dots)]) {
    expect(each.x).toBeGreaterThanOrEqual(0);
    expect(each.x).toBeLessThanOrEqual(600);
  }
});

test("what the answer and the condition both name comes once", () => {
  expect(axisOf(INPUT, 600).lines.filter((line) => line.title === "expires")).toHaveLength(1);
});

test("what is over is not ahead", () => {
  const kinds = axisOf({ ...INPUT, nowMs: at("16:00:00") }, 600).lines.map((line) => [line.title, line.kind]);
  expect(kinds).toContainEqual(["expires", "past"]);
});

test("titles that would cover each other go to rows of their own, also at the edges", () => {
  const next = ["expires", "timeout", "retry"].map((what, number) => ({
    what,
    at_ms: at("15:12:00") + number * 1000,
  }));
  const axis = axisOf({ ...INPUT, next }, 300);
  const late = axis.lines.filter((line) => line.kind === "ahead");
  expect(new Set(late.map((line) => line.row)).size).toBe(3);
  expect(late.every((line) => line.anchor === "end")).toBe(true);
  expect(axis.rows).toBeGreaterThanOrEqual(3);
});

test("events that would cover each other share a dot", () => {
  const events = Array.from({ length: 20 }, (_, number) => ({
    id: String(number),
    source: "/h",
    time_ms: at("09:20:00") + number,
  }));
  const tree: Explained = {
    kind: "count",
    title: "count of beats",
    met: false,
    needed: true,
    labels: ["beats"],
    have: 20,
    need: 30,
    events,
  };
  const [lane] = axisOf({ ...INPUT, tree }, 600).lanes;
  expect(lane!.dots).toHaveLength(1);
  expect(lane!.dots[0]!.events).toHaveLength(20);
});

test("of many parts the missing ones have lanes first", () => {
  const of = Array.from({ length: 40 }, (_, number): Explained => ({
    kind: "event",
    title: `p${number}`,
    met: number !== 39,
    needed: true,
    labels: [`p${number}`],
  }));
  const axis = axisOf(
    { ...INPUT, tree: { kind: "all", title: "all of", met: false, needed: true, of } },
    600,
  );
  expect(axis.lanes).toHaveLength(12);
  expect(axis.lanes.at(-1)).toMatchObject({ title: "p39", mark: "missing" });
  expect(axis.more).toBe(28);
});

test("without a tree, a start or anything ahead there is still an axis with now", () => {
  const axis = axisOf(
    { sinceMs: null, registeredMs: null, nowMs: at("09:40:00"), tree: null, next: [] },
    300,
  );
  expect(axis.lines.map((line) => line.title)).toEqual(["now"]);
  expect(axis.toMs).toBeGreaterThan(axis.fromMs);
});

test("an event without a time is left out of the axis", () => {
  const tree: Explained = {
    kind: "event",
    title: "x",
    met: true,
    needed: true,
    labels: ["x"],
    events: [{ id: "a", source: "/" }],
  };
  expect(axisOf({ ...INPUT, tree }, 300).lanes[0]!.dots).toEqual([]);
});

test.each([
  [60_000, 6],
  [3_600_000, 6],
  [86_400_000, 4],
  [40 * 86_400_000, 5],
  [20 * 365 * 86_400_000, 4],
])("ticks over %i ms are at most %i, evenly spaced", (length, most) => {
  const from = at("09:12:34");
  const ticks = ticksOf(from, from + length, most);
  expect(ticks.length).toBeGreaterThan(0);
  expect(ticks.length).toBeLessThanOrEqual(most + 1);
  expect(new Set(ticks.slice(1).map((tick, number) => tick - ticks[number]!)).size).toBeLessThanOrEqual(1);
});

test("a wait that counts events from long before it was registered has an axis of its own time", () => {
  const axis = axisOf({ ...INPUT, sinceMs: 1 }, 600);
  expect(axis.fromMs).toBeGreaterThan(at("08:30:00"));
  expect(axis.lines.filter((line) => line.kind === "since").map((line) => line.title)).toEqual(["since"]);
  const near = axisOf({ ...INPUT, sinceMs: at("07:00:00") }, 600);
  expect(near.lines.filter((line) => line.kind === "since").map((line) => line.title)).toEqual([
    "events count",
    "since",
  ]);
});

test.each([["1970-01-01T00:00:00Z"], ["9999-01-01T00:00:00Z"]])(
  "an event of %s lies at the end of the axis",
  (time) => {
    const tree: Explained = {
      kind: "event",
      title: "x",
      met: true,
      needed: true,
      labels: ["x"],
      events: [{ id: "a", source: "/", time_ms: Date.parse(time) }],
    };
    const axis = axisOf({ ...INPUT, tree }, 300);
    expect(axis.toMs - axis.fromMs).toBeLessThan(8 * 3_600_000);
    expect([0, 300]).toContain(axis.lanes[0]!.dots[0]!.x);
  },
);

test("an event from before the wait makes the axis longer", () => {
  const [fromMs] = [axisOf({ ...INPUT, tree: eventAt("06:00:00") }, 300).fromMs];
  expect(fromMs).toBeLessThanOrEqual(at("06:00:00"));
});

test("over days the ticks are days", () => {
  const next = [{ what: "expires", at_ms: at("09:12:00") + 6 * 86_400_000 }];
  expect(axisOf({ ...INPUT, tree: null, next }, 600).days).toBe(true);
  expect(axisOf(INPUT, 600).days).toBe(false);
});

test("a tick is a time of the day, and at midnight the day", () => {
  const now = Date.parse("2026-11-20T22:00:00Z");
  const text = (time: string, days = false): string => tickText(Date.parse(time), days, now, "Europe/Berlin");
  expect(text("2026-11-20T22:00:00Z")).toBe("23:00");
  expect(text("2026-11-20T23:00:00Z")).toBe("21 Nov");
  expect(text("2026-11-21T00:00:00Z")).toBe("01:00");
  expect(text("2026-11-21T11:00:00Z", true)).toBe("21 Nov");
});

function eventAt(time: string): Explained {
  const events = [{ id: "a", source: "/", time_ms: at(time) }];
  return { kind: "event", title: "x", met: true, needed: true, labels: ["x"], events };
}
