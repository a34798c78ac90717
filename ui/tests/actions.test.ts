import { expect, test } from "vitest";

import { clearing } from "../src/actions/clearing";
import { draftOf, EMPTY, emissionOf } from "../src/actions/emission";
import { wantedOf } from "../src/actions/wanted";
import type { Wait } from "../src/api/answers";

test("a form becomes the request, without what is empty", () => {
  const draft = {
    ...EMPTY,
    type: " com.bank.rates ",
    data: '{"rows": 1}',
    extensions: "partitionkey = a=b\n\ntraceparent=00-1",
  };
  expect(emissionOf(draft, "kafka_default")).toEqual({
    emission: {
      bus: "kafka_default",
      type: "com.bank.rates",
      data: { rows: 1 },
      extensions: { partitionkey: "a=b", traceparent: "00-1" },
    },
  });
});

test("each mistake is told at its field, and nothing is sent", () => {
  expect(emissionOf({ ...EMPTY, data: "{", extensions: "Bad-Name=1" }, undefined)).toEqual({
    mistakes: {
      type: expect.stringContaining("needs a type"),
      data: expect.stringContaining("not JSON"),
      extensions: expect.stringContaining("Bad-Name=1"),
    },
  });
});

test("data that is false or 0 is sent", () => {
  expect(emissionOf({ ...EMPTY, type: "t", data: "0" }, undefined)).toEqual({
    emission: { type: "t", data: 0 },
  });
});

test("the form of a part that is missing has what the server says it must be", () => {
  expect(
    draftOf({ label: "rates", type: "com.bank.rates", data: { day: "20261120" }, extensions: { a: "1" } }),
  ).toEqual({
    type: "com.bank.rates",
    source: "",
    subject: "",
    data: '{\n  "day": "20261120"\n}',
    extensions: "a=1",
  });
});

const wait = (condition: string, missing: string[]): Wait =>
  ({ condition, subscription: { missing } }) as unknown as Wait;

test("without the server's word the condition's text says what is missing", () => {
  const text =
    '(event(type="com.shop.orders", source="/sh\\"op(1)", by="data.date", label="orders") & event(type="com.bank.rates", where="size(data.x) > 0", subject="eur", label="rates")).within("2h")';
  expect(wantedOf(wait(text, ["rates", "orders"]))).toEqual([
    { label: "rates", type: "com.bank.rates", source: null, subject: "eur" },
    { label: "orders", type: "com.shop.orders", source: '/sh"op(1)', subject: null },
  ]);
});

test("a matcher without a label is called by its type, and an unknown one leaves the form empty", () => {
  expect(wantedOf(wait('event(type="com.a", by="subject")', ["com.a", "other"]))).toEqual([
    { label: "com.a", type: "com.a", source: null, subject: null },
    { label: "other" },
  ]);
});

test("clearing is Airflow's own request, for one task instance alone", () => {
  expect(
    clearing({ dag_id: "a/b", run_id: "r", task_id: "t", map_index: 3 }, "https://example.com/air/"),
  ).toEqual({
    url: "https://example.com/air/api/v2/dags/a%2Fb/clearTaskInstances",
    body: {
      dry_run: false,
      dag_run_id: "r",
      task_ids: [["t", 3]],
      only_failed: false,
      include_downstream: true,
    },
  });
  expect(
    clearing({ dag_id: "a", run_id: "r", task_id: "t", map_index: -1 }, "https://example.com/")!.body,
  ).toMatchObject({ task_ids: ["t"] });
  expect(clearing({ dag_id: "a" }, "https://example.com/")).toBeNull();
});
