import { Box } from "@chakra-ui/react";
import { useMemo, type ReactElement } from "react";

import { useAddress } from "../address/useAddress";
import type { Buses, Wait } from "../api/answers";
import { routeUrl } from "../api/client";
import { usePolled } from "../api/usePolled";
import { Answered } from "../parts/Answered";
import { BusContext } from "../parts/bus";
import { Choice } from "../parts/Filters";
import { Shell } from "../parts/Shell";
import { everyMs, WaitView } from "./WaitView";

/** What Airflow gives to the tab of a task instance; texts of its address. */
export interface TabProps {
  dagId?: string;
  runId?: string;
  taskId?: string;
  mapIndex?: string | number;
}

const SHAPE = { bus: "", key: "" } as const;

/** The tab Wait: why this task instance waits, or what made it continue. */
export function WaitTab(props: TabProps): ReactElement {
  return (
    <Shell>
      <Tab {...props} />
    </Shell>
  );
}

function Tab({ dagId, runId, taskId, mapIndex }: TabProps): ReactElement {
  const [{ bus, key }, change] = useAddress(SHAPE);
  const buses = usePolled<Buses>(routeUrl("buses"), 0);
  const index = mapIndex === undefined || mapIndex === "" ? undefined : Number(mapIndex);
  const url = routeUrl("wait", {
    bus,
    dag_id: dagId,
    run_id: runId,
    task_id: taskId,
    key,
    map_index: index !== undefined && index >= 0 ? index : undefined,
  });
  const first = usePolled<Wait>(url, everyMs);
  const choice = useMemo(() => ({ parameter: bus, known: buses.data }), [bus, buses.data]);
  const several = buses.data !== undefined && buses.data.buses.length > 1;
  return (
    <BusContext value={choice}>
      {several ? (
        <Box mb={4}>
          <Choice
            label="Bus"
            value={bus || buses.data!.buses[0]!.conn_id}
            choices={Object.fromEntries(
              buses.data!.buses.map((each) => [each.conn_id, each.bus || each.conn_id]),
            )}
            onChange={(value) => change({ bus: value }, { push: true })}
          />
        </Box>
      ) : null}
      <Answered of={first}>{(data) => <WaitView of={data} refresh={first.refresh} inTab />}</Answered>
    </BusContext>
  );
}
