import { Stack } from "@chakra-ui/react";
import type { ReactElement } from "react";

import { changed } from "../address/query";
import { useAddress } from "../address/useAddress";
import type { Row, Rows } from "../api/answers";
import { routeUrl } from "../api/client";
import { usePolled } from "../api/usePolled";
import { Answered } from "../parts/Answered";
import { useBus } from "../parts/bus";
import { Choice, Filters, TextFilter } from "../parts/Filters";
import { Listing, type Column } from "../parts/Listing";
import { Ago, Moment } from "../parts/Moment";
import { Pages } from "../parts/Pages";
import { State } from "../parts/State";
import { counted } from "../words/counted";
import { MissingCell, TaskCell } from "./rows";

const SHAPE = { search: "", dag_id: "", key: "", type: "", order: "newest", after: "" } as const;
const PAGING = ["after"] as const;
const NONE = { search: "", dag_id: "", key: "", type: "" };
const EVERY_MS = 5000;
export const PAGE_ROWS = 50;

/** All waits of tasks, the newest first. */
export function Waits(): ReactElement {
  const { parameter: bus } = useBus();
  const [state, change] = useAddress(SHAPE, PAGING);
  const polled = usePolled<Rows<Row>>(
    routeUrl("waits", { bus, kind: "one-shot", ...state, limit: PAGE_ROWS }),
    EVERY_MS,
  );
  const filtered = changed(SHAPE, state, ["order", "after"]) > 0;
  const newest = state.order === "newest";
  const columns: Column<Row>[] = [
    { head: "Task", cell: (row) => <TaskCell of={row} name={row.name} /> },
    { head: "Missing", cell: (row) => <MissingCell of={row} /> },
    { head: "Key", wide: true, cell: (row) => row.key ?? "" },
    {
      head: "Waits since",
      sorted: newest ? "descending" : "ascending",
      sort: () => change({ order: newest ? "oldest" : "newest" }),
      cell: (row) => (row.registered_ms === null ? "" : <WaitsSince ms={row.registered_ms} />),
    },
    {
      head: "Expires",
      wide: true,
      cell: (row) => (typeof row.expires_ms === "number" ? <Ago ms={row.expires_ms} /> : ""),
    },
    {
      head: "Held by",
      wide: true,
      cell: (row) => (row.held_by.length ? row.held_by.join(", ") : <State of="late">no process</State>),
    },
  ];
  return (
    <Stack gap={4}>
      <Filters clear={filtered ? () => change(NONE) : null}>
        <TextFilter
          label="Search"
          value={state.search}
          onChange={(search) => change({ search })}
          placeholder="name or label"
        />
        <TextFilter label="DAG" value={state.dag_id} onChange={(dag_id) => change({ dag_id })} />
        <TextFilter label="Key" value={state.key} onChange={(key) => change({ key })} width="9rem" />
        <TextFilter
          label="Event type"
          value={state.type}
          onChange={(type) => change({ type })}
          width="16rem"
        />
        <Choice
          label="Order"
          value={state.order}
          choices={{ newest: "newest first", oldest: "oldest first" }}
          onChange={(order) => change({ order })}
          width="9rem"
        />
      </Filters>
      <Answered of={polled}>
        {(data) => (
          <>
            <Listing
              label="Waits"
              rows={data.rows}
              columns={columns}
              idOf={(row) => row.name}
              empty={filtered ? "No wait matches these filters." : "No task waits for an event."}
            />
            <Pages
              shown={shownOf(data, "wait")}
              cursor={state.after}
              next={data.next}
              go={(after) => change({ after }, { push: true })}
            />
          </>
        )}
      </Answered>
    </Stack>
  );
}

function WaitsSince({ ms }: { ms: number }): ReactElement {
  return (
    <>
      <Moment ms={ms} /> <br />
      <Ago ms={ms} />
    </>
  );
}

/** How many rows are shown, of how many. */
export function shownOf(data: Rows<unknown>, one: string): string {
  const { total } = data;
  if (typeof total !== "number") return counted(data.rows.length, one);
  return total > data.rows.length ? `${data.rows.length} of ${counted(total, one)}` : counted(total, one);
}
