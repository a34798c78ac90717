/**
 * Addresses of pages, for React Router's links: they have no prefix, the router adds it.
 *
 * Airflow gives a plugin's page the route `plugin/<url_route>/*`, below a task instance for a tab.
 */

export const PAGE_ROUTE = "interlock";
export const TAB_ROUTE = "interlock-wait";

export interface TaskInstance {
  dag_id?: string | null;
  run_id?: string | null;
  task_id?: string | null;
  map_index?: number | null;
}

export type View =
  | "waits"
  | "durable"
  | "subscription"
  | "firings"
  | "events"
  | "event"
  | "dead-letters"
  | "dead-letter"
  | "graph"
  | "health";

const e = encodeURIComponent;

export const dagPage = (dagId: string): string => `/dags/${e(dagId)}`;
export const runPage = (dagId: string, runId: string): string => `${dagPage(dagId)}/runs/${e(runId)}`;

/** The most exact page of Airflow for these ids; null without any. */
export function airflowPage(of: TaskInstance): string | null {
  if (!of.dag_id) return null;
  if (!of.run_id) return of.task_id ? `${dagPage(of.dag_id)}/tasks/${e(of.task_id)}` : dagPage(of.dag_id);
  if (!of.task_id) return runPage(of.dag_id, of.run_id);
  const task = `${runPage(of.dag_id, of.run_id)}/tasks/${e(of.task_id)}`;
  return isMapped(of.map_index) ? `${task}/mapped/${of.map_index}` : task;
}

/** The tab Wait of a task instance; null if the ids name none. */
export function tabPage(of: TaskInstance): string | null {
  if (!of.dag_id || !of.run_id || !of.task_id) return null;
  return `${airflowPage(of)}/plugin/${TAB_ROUTE}`;
}

export const isMapped = (mapIndex: number | null | undefined): mapIndex is number =>
  typeof mapIndex === "number" && mapIndex >= 0;

/** A view of the page Interlock. Parameters that are empty are left out. */
export function viewPage(
  view: View,
  parameters: Record<string, string | number | null | undefined> = {},
  route = PAGE_ROUTE,
): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== null && value !== undefined && value !== "") query.set(name, String(value));
  }
  const text = query.toString();
  return `/plugin/${route}/${view}${text ? `?${text}` : ""}`;
}
