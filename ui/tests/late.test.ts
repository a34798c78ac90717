import { expect, test } from "vitest";

import type { Row } from "../src/api/answers";
import { lateWords } from "../src/words/late";

const NOW = Date.parse("2026-11-20T09:40:00Z");
const words = (of: Partial<Row>): string => lateWords({ name: "a/b", delivers_to: null, ...of } as Row, NOW);

test("a firing that was not delivered for long says what a paused sink looks like, and where to look", () => {
  const late = { delivers_to: "https://crm.example.com", oldest_since_ms: NOW - 34 * 60_000 };
  expect(words(late)).toMatch(/^Not delivered for 34 min: the sink is paused, .*The log/);
  expect(words({ ...late, oldest_since_ms: NOW - 15 * 60_000 })).toBe("");
});

test("a dispatcher's firing without a run, and one that nobody takes, are late too", () => {
  const oldest_since_ms = NOW - 2 * 3_600_000;
  expect(words({ name: "a/dispatch/b", oldest_since_ms })).toMatch(/^No run for 2 h: the target has no room/);
  expect(words({ name: "a/asset/b", oldest_since_ms })).toMatch(/^Not taken for 2 h/);
});

test("without an open firing nothing is late", () => {
  expect(words({})).toBe("");
  expect(words({ oldest_since_ms: null })).toBe("");
});
