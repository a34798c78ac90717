import { expect, test } from "vitest";

import { airflowPage, tabPage, viewPage } from "../src/address/pages";
import { routeUrl, urlOf } from "../src/api/client";

const READY = {
  dag_id: "daily",
  run_id: "scheduled__2026-11-20T00:00:00+00:00",
  task_id: "ready",
  map_index: -1,
};

test("a task instance, mapped or not, a run and a DAG have Airflow's own pages", () => {
  expect(airflowPage(READY)).toBe(
    "/dags/daily/runs/scheduled__2026-11-20T00%3A00%3A00%2B00%3A00/tasks/ready",
  );
  expect(airflowPage({ ...READY, map_index: 0 })).toMatch(/\/tasks\/ready\/mapped\/0$/);
  expect(airflowPage({ dag_id: "daily", run_id: "r" })).toBe("/dags/daily/runs/r");
  expect(airflowPage({ dag_id: "daily", run_id: null, task_id: "dispatch" })).toBe(
    "/dags/daily/tasks/dispatch",
  );
  expect(airflowPage({ dag_id: "daily" })).toBe("/dags/daily");
  expect(airflowPage({ dag_id: null })).toBeNull();
});

test("the tab lies below the task instance", () => {
  expect(tabPage({ ...READY, map_index: 7 })).toMatch(/\/tasks\/ready\/mapped\/7\/plugin\/interlock-wait$/);
  expect(tabPage({ dag_id: "daily" })).toBeNull();
});

test("ids cannot leave their place in the address", () => {
  expect(airflowPage({ dag_id: "../x?y#z" })).toBe("/dags/..%2Fx%3Fy%23z");
});

test("a view has its state in its address", () => {
  expect(viewPage("subscription", { bus: "", name: "a/b", key: "k&1" })).toBe(
    "/plugin/interlock/subscription?name=a%2Fb&key=k%261",
  );
});

test("requests stay below the prefix at which Airflow is served", () => {
  expect(routeUrl("waits", { bus: "", limit: 50 }, "https://example.com/airflow/")).toBe(
    "https://example.com/airflow/interlock-ui/waits?limit=50",
  );
  expect(urlOf("api/v2/version", {}, "https://example.com/")).toBe("https://example.com/api/v2/version");
});
