/** The request of Airflow's own API that clears one task instance, as its button Clear does. */

import type { TaskInstance } from "../address/pages";
import { isMapped } from "../address/pages";
import { urlOf } from "../api/client";

export function clearing(of: TaskInstance, base?: string): { url: string; body: object } | null {
  const { dag_id, run_id, task_id, map_index } = of;
  if (!dag_id || !run_id || !task_id) return null;
  return {
    url: urlOf(`api/v2/dags/${encodeURIComponent(dag_id)}/clearTaskInstances`, {}, base),
    body: {
      dry_run: false,
      dag_run_id: run_id,
      task_ids: [isMapped(map_index) ? [task_id, map_index] : task_id],
      only_failed: false, // a deferred one is cleared too
      include_downstream: true,
    },
  };
}
