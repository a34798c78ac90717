/**
 * Made-up answers to the requests of docs/understand/page.md, from ui/fixtures.
 *
 * A fixture is written for one moment, and its times are moved to now. Some names ask for a state: the task
 * `reading`, `failing`, `forbidden`, or that of a file, such as `wait-fired.json`; `?search=` the same for lists,
 * and `?bus=` that of a file for other routes, such as `health-partial.json`.
 */

import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import { join } from "node:path";

import { WRITTEN_MS } from "./moment.ts";

const FIXTURES = join(import.meta.dirname, "..", "fixtures");
const IS_LENGTH = /^(took|by)_ms$/;
const TIME = /\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00)/g;

// One moment for all answers of a run, so that an answer stays the same until it is asked for anew. NOW_MS: of
// pictures, which are to be the same each time.
const STARTED_MS = Number(process.env["NOW_MS"] || Date.now());
let reads = 0;

interface Answer {
  status: number;
  body: unknown;
}

/** Answers a request; false if it is none of Interlock's. */
export function answer(path: string, request: IncomingMessage, response: ServerResponse): void {
  const url = new URL(path, "http://harness");
  const found = answerTo(url, request.method ?? "GET");
  const text = JSON.stringify(found.body);
  const etag = `"${createHash("sha256").update(text).digest("hex").slice(0, 16)}"`;
  if (found.status === 200 && request.headers["if-none-match"] === etag) {
    response.writeHead(304, { etag }).end();
    return;
  }
  response.writeHead(found.status, {
    "content-type": "application/json",
    ...(found.status === 200 ? { etag } : {}),
  });
  response.end(text);
}

function answerTo(url: URL, method: string): Answer {
  const route = url.pathname.slice(1);
  const of = (name: string): string => url.searchParams.get(name) ?? "";
  const state = of("task_id") || of("search") || of("name");
  if (state === "reading") {
    reads += 1400;
    return { status: 202, body: { reading: { read: reads % 99_841, of: 99_841 } } };
  }
  if (state === "failing") return { status: 500, body: "no JSON object" };
  if (state === "forbidden") {
    return {
      status: 403,
      body: { detail: "You may not read the DAG 'ledger_close'. Ask for the right to read it." },
    };
  }
  if (state === "away") {
    return {
      status: 502,
      body: {
        detail: "The cluster kafka.example.com:9092 does not answer: check the connection kafka_default.",
      },
    };
  }
  if (method === "POST") return action(route);
  switch (route) {
    case "wait":
      return fixture(`wait-${state}`, "wait");
    case "subscription":
      return fixture(of("key") ? "wait" : of("name").includes("dispatch") ? "subscription-several" : "wait");
    case "waits":
      return of("kind") === "durable" ? fixture("waits-durable") : fixture(`waits-${of("search")}`, "waits");
    case "buses":
      return fixture(`buses-${process.env["BUSES"] ?? ""}`, "buses");
    default:
      return fixture(`${route}-${of("bus")}`, route);
  }
}

function action(route: string): Answer {
  switch (route) {
    case "redrive":
      return fixture("redrive");
    case "emit":
      return {
        status: 200,
        body: {
          event: { id: "1", source: "/analytics/page", type: "com.bank.rates.published" },
          topic: "interlock-event",
          partition: 3,
          offset: 41_300,
        },
      };
    case "cancel":
      return {
        status: 409,
        body: {
          detail:
            "It is not cancelled: process 'triggerer-1' on host 'worker-a' waits for it, and would register it again. Mark the task failed, or clear it, in Airflow.",
        },
      };
    default:
      return { status: 200, body: {} };
  }
}

function fixture(...names: string[]): Answer {
  const name = names.find((each) => /^[\w-]+$/.test(each) && existsSync(join(FIXTURES, `${each}.json`)));
  if (name === undefined) return { status: 404, body: { detail: `There is no ${names.at(-1)}.` } };
  return { status: 200, body: moved(JSON.parse(readFileSync(join(FIXTURES, `${name}.json`), "utf8"))) };
}

function moved(value: unknown, name = ""): unknown {
  // 1 is no time: events count from the beginning of the bus.
  if (typeof value === "number" && value > 1 && name.endsWith("_ms") && !IS_LENGTH.test(name))
    return value - WRITTEN_MS + STARTED_MS;
  if (typeof value === "string" && !/^(run_id|name|subscription|command|condition|term)$/.test(name)) {
    return value.replace(TIME, (time) => new Date(Date.parse(time) - WRITTEN_MS + STARTED_MS).toISOString());
  }
  if (Array.isArray(value)) return value.map((each) => moved(each, name));
  if (value !== null && typeof value === "object") {
    return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, moved(each, key)]));
  }
  return value;
}
