import { Code, Stack, Text, VisuallyHidden } from "@chakra-ui/react";
import type { ReactElement } from "react";

import { Ask } from "../actions/Ask";
import { airflowPage, tabPage, viewPage } from "../address/pages";
import { changed } from "../address/query";
import { useAddress } from "../address/useAddress";
import type { Firing, Rows } from "../api/answers";
import { routeUrl } from "../api/client";
import { usePolled } from "../api/usePolled";
import { Answered } from "../parts/Answered";
import { connectionOf, useBus } from "../parts/bus";
import { Filters, TextFilter } from "../parts/Filters";
import { Listing, type Column } from "../parts/Listing";
import { Ago, Moment } from "../parts/Moment";
import { Pages } from "../parts/Pages";
import { State } from "../parts/State";
import { To } from "../parts/To";
import { counted, listed } from "../words/counted";
import { visible } from "../words/visible";
import { TaskCell } from "./rows";
import { PAGE_ROWS, shownOf } from "./Waits";

const SHAPE = { search: "", name: "", dag_id: "", before: "" } as const;
const PAGING = ["before"] as const;
const NONE = { search: "", name: "", dag_id: "" };
const EVERY_MS = 5000;

/** Firings, the newest first, with what each made continue. */
export function Firings(): ReactElement {
  const { parameter: bus, known } = useBus();
  const [state, change] = useAddress(SHAPE, PAGING);
  const polled = usePolled<Rows<Firing>>(routeUrl("firings", { bus, ...state, limit: PAGE_ROWS }), EVERY_MS);
  const filtered = changed(SHAPE, state, ["before"]) > 0;
  const columns: Column<Firing>[] = [
    {
      head: "Fired",
      cell: (row) => (
        <>
          <To page={whyPage(row, bus)}>
            <Moment ms={row.fired_ms} precision="seconds" />
            <VisuallyHidden>{visible(`: why ${row.name} fired`)}</VisuallyHidden>
          </To>
          <Text fontSize="xs" color="fg.muted">
            <Ago ms={row.fired_ms} />
          </Text>
        </>
      ),
    },
    { head: "Of", minW: "10rem", cell: (row) => <TaskCell of={row} name={row.name} /> },
    { head: "By", wide: true, cell: (row) => <EventsOf of={row} /> },
    { head: "Key", wide: true, cell: (row) => row.key ?? "" },
    {
      head: "To",
      cell: (row) => (
        <>
          <State of={row.state}>{row.state === "acked" ? "taken" : "open"}</State>{" "}
          {row.outcome === "met" ? null : <State of="late">{row.outcome}</State>}
          {row.target ? (
            <Text fontSize="xs">
              <To page={airflowPage(row.target)}>{row.target.run_id ?? row.target.dag_id}</To>
            </Text>
          ) : null}
          {row.state === "open" && row.kind === "durable" && row.may_skip ? (
            <Ask
              button="Skip…"
              size="xs"
              title="Skip this firing?"
              confirm="Skip it"
              danger
              url={routeUrl("skip")}
              body={{ bus: connectionOf({ parameter: bus, known }), name: row.name, firing: row.id }}
              done="Skipped."
              then={polled.refresh}
            >
              <Text>
                It counts as taken: no run is created for it, or it is not delivered. Use this for a firing
                that stays open because its run cannot be created, or its sink does not take it.
              </Text>
              <Text overflowWrap="anywhere">{visible(`${row.name}, firing ${row.id}`)}</Text>
            </Ask>
          ) : null}
        </>
      ),
    },
  ];
  return (
    <Stack gap={4}>
      <Filters clear={filtered ? () => change(NONE) : null}>
        <TextFilter
          label="Search"
          value={state.search}
          onChange={(search) => change({ search })}
          placeholder="name, event or key"
        />
        <TextFilter label="DAG" value={state.dag_id} onChange={(dag_id) => change({ dag_id })} />
      </Filters>
      {state.name ? <Text overflowWrap="anywhere">{visible(`Of ${state.name} alone.`)}</Text> : null}
      <Answered of={polled}>
        {(data) => (
          <>
            <Listing
              label="Firings"
              rows={data.rows}
              columns={columns}
              idOf={(row) => `${row.name} ${row.id}`}
              empty={filtered ? "No firing matches these filters." : "Nothing has fired yet."}
            />
            <Pages
              shown={shownOf(data, "firing")}
              cursor={state.before}
              next={data.next}
              go={(before) => change({ before }, { push: true })}
            />
            {data.next ? null : <Older name={state.name} />}
          </>
        )}
      </Answered>
    </Stack>
  );
}

/** What the list does not have, and where to look then. */
function Older({ name }: { name: string }): ReactElement {
  return (
    <Text fontSize="sm" color="fg.muted" overflowWrap="anywhere">
      Older firings than the latest 10,000 of the bus are not listed. The log of a task says when its wait
      fired and by which events;{" "}
      <Code size="sm">{visible(`airflow interlock explain ${name ? quoted(name) : "NAME"}`)}</Code> looks
      through the latest 200,000 records of the bus.
    </Text>
  );
}

const quoted = (name: string): string =>
  /^[\w@%+=:,./-]+$/.test(name) ? name : `'${name.replaceAll("'", "'\\''")}'`;

/** The tab of the task that it made continue, or the subscription that fired. */
function whyPage(of: Firing, bus: string): string {
  return (of.kind === "one-shot" ? tabPage(of) : null) ?? viewPage("subscription", { bus, name: of.name });
}

function EventsOf({ of }: { of: Firing }): ReactElement {
  const all = Object.values(of.events).flat();
  const missing = of.missing?.length ? `; without ${listed(of.missing)}` : "";
  return (
    <Text
      as="span"
      wordBreak="break-word"
      title={all.map((event) => visible(`${event.id} from ${event.source}`)).join("\n")}
    >
      {visible(listed(Object.keys(of.events)))}
      <Text
        as="span"
        color="fg.muted"
      >{` (${counted(all.length + (of.left_out ?? 0), "event")}${missing})`}</Text>
    </Text>
  );
}
