import { Stack, Text } from "@chakra-ui/react";
import type { ReactElement } from "react";

import { viewPage } from "../address/pages";
import { changed } from "../address/query";
import { useAddress } from "../address/useAddress";
import type { Row, Rows } from "../api/answers";
import { routeUrl } from "../api/client";
import { usePolled } from "../api/usePolled";
import { Answered } from "../parts/Answered";
import { useBus } from "../parts/bus";
import { Choice, Filters, TextFilter } from "../parts/Filters";
import { Listing, type Column } from "../parts/Listing";
import { Ago } from "../parts/Moment";
import { useNow } from "../parts/now";
import { Pages } from "../parts/Pages";
import { State } from "../parts/State";
import { To } from "../parts/To";
import { grouped, listed } from "../words/counted";
import { lateWords } from "../words/late";
import { visible } from "../words/visible";
import { TaskCell } from "./rows";
import { PAGE_ROWS, shownOf } from "./Waits";

const SHAPE = { search: "", dag_id: "", type: "", order: "newest", after: "" } as const;
const PAGING = ["after"] as const;
const NONE = { search: "", dag_id: "", type: "" };
const EVERY_MS = 5000;

const number = (value: number | null | undefined): string =>
  typeof value === "number" ? grouped(value) : "";

/** Dispatchers, deliveries and asset watchers: what each holds, and what waits to be taken. */
export function Durable(): ReactElement {
  const { parameter: bus } = useBus();
  const [state, change] = useAddress(SHAPE, PAGING);
  const polled = usePolled<Rows<Row>>(
    routeUrl("waits", { bus, kind: "durable", ...state, limit: PAGE_ROWS }),
    EVERY_MS,
  );
  const filtered = changed(SHAPE, state, ["order", "after"]) > 0;
  return (
    <Stack gap={4}>
      <Filters clear={filtered ? () => change(NONE) : null}>
        <TextFilter
          label="Search"
          value={state.search}
          onChange={(search) => change({ search })}
          placeholder="name, label or sink"
        />
        <TextFilter label="DAG" value={state.dag_id} onChange={(dag_id) => change({ dag_id })} />
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
              label="Dispatchers and deliveries"
              rows={data.rows}
              columns={columnsOf(data.rows, bus)}
              idOf={(row) => row.name}
              empty={
                filtered
                  ? "None matches these filters."
                  : "There is no dispatcher, delivery or asset watcher."
              }
            />
            <Pages
              shown={shownOf(data, "subscription")}
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

function Late({ of }: { of: Row }): ReactElement | null {
  const words = lateWords(of, useNow(60_000));
  if (!words) return null;
  return (
    <Text fontSize="xs" mt={1} maxW="20rem">
      <State of="late">late</State> {words}
    </Text>
  );
}

function columnsOf(rows: readonly Row[], bus: string): Column<Row>[] {
  const has = (name: "held" | "in_flight") => rows.some((row) => typeof row[name] === "number");
  return [
    {
      head: "Subscription",
      minW: "11rem",
      cell: (row) => (
        <>
          <To page={viewPage("subscription", { bus, name: row.name })}>{row.name}</To>{" "}
          <Text fontSize="xs" color="fg.muted">
            {visible(listed(row.labels))}
          </Text>
          <Late of={row} />
        </>
      ),
    },
    { head: "DAG", wide: true, cell: (row) => (row.dag_id ? <TaskCell of={row} name="" /> : "") },
    { head: "Goes to", wide: true, cell: (row) => row.delivers_to ?? "runs of its DAG" },
    { head: "Open keys", numeric: true, wide: true, cell: (row) => number(row.open_keys) },
    {
      head: "Open firings",
      numeric: true,
      cell: (row) => (
        <>
          {number(row.open_firings)}
          {typeof row.oldest_since_ms === "number" ? (
            <Text fontSize="xs" color="fg.muted">
              oldest <Ago ms={row.oldest_since_ms} />
            </Text>
          ) : null}
        </>
      ),
    },
    ...(has("held") ? [{ head: "Held", numeric: true, cell: (row: Row) => number(row.held) }] : []),
    ...(has("in_flight")
      ? [{ head: "In flight", numeric: true, cell: (row: Row) => number(row.in_flight) }]
      : []),
  ];
}
