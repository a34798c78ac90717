import { expect, test } from "vitest";

import { stepsOf } from "../src/pictures/steps";

test("steps come in order; what Interlock and Airflow took is told apart from the time between events", () => {
  const steps = stepsOf([
    { what: "firing", at_ms: 21_118 },
    { what: "event", label: "orders", at_ms: 0 },
    { what: "event", label: "rates", at_ms: 21_000 },
    { what: "resumed", at_ms: 22_078, took_ms: 960 },
  ]);
  expect(steps.map((step) => [step.title, step.tookMs, step.afterMs])).toEqual([
    ["orders: event appended", null, null],
    ["rates: event appended", null, 21_000],
    ["condition met, firing written", 118, null],
    ["task resumed", 960, null],
  ]);
  expect(steps.map((step) => step.share)).toEqual([0, 0, 118 / 960, 1]);
});

test("a step of a later version is shown by its own name", () => {
  expect(stepsOf([{ what: "archived", at_ms: 1 }])[0]).toMatchObject({ title: "archived", tookMs: null });
});
