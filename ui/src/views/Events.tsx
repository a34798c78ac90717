import { Button, Stack, Text } from "@chakra-ui/react";
import { useState, type ReactElement } from "react";

import { changed } from "../address/query";
import { sinceMs, SPANS } from "../address/since";
import { useAddress } from "../address/useAddress";
import type { BusEvent, Events as EventsAnswer } from "../api/answers";
import { routeUrl } from "../api/client";
import { usePolled } from "../api/usePolled";
import { Answered } from "../parts/Answered";
import { useBus } from "../parts/bus";
import { eventPage } from "../parts/EventName";
import { Choice, Filters, TextFilter } from "../parts/Filters";
import { Listing, type Column } from "../parts/Listing";
import { Moment } from "../parts/Moment";
import { useNow } from "../parts/now";
import { To } from "../parts/To";
import { counted, grouped } from "../words/counted";
import { visible } from "../words/visible";

const SHAPE = { since: "1h", type: "", source: "", subject: "", search: "", limit: "50" } as const;
const NONE = { type: "", source: "", subject: "", search: "" };
const EVERY_MS = 3000;

/** The latest events of the bus, the newest first, again and again. */
export function Events(): ReactElement {
  const { parameter: bus } = useBus();
  const [state, change] = useAddress(SHAPE);
  const [paused, setPaused] = useState(false);
  const now = useNow(60_000);
  const url = routeUrl("events", { bus, ...state, since: sinceMs(state.since, now) });
  const [shown, setShown] = useState(url);
  if (!paused && shown !== url) setShown(url);
  const polled = usePolled<EventsAnswer>(paused ? shown : url, paused ? 0 : EVERY_MS);
  const filtered = changed(SHAPE, state, ["since", "limit"]) > 0;
  return (
    <Stack gap={4}>
      <Filters clear={filtered ? () => change(NONE) : null}>
        <TextFilter label="Type" value={state.type} onChange={(type) => change({ type })} width="16rem" />
        <TextFilter label="Source" value={state.source} onChange={(source) => change({ source })} />
        <TextFilter
          label="Subject"
          value={state.subject}
          onChange={(subject) => change({ subject })}
          width="9rem"
        />
        <TextFilter
          label="Search"
          value={state.search}
          onChange={(search) => change({ search })}
          placeholder="any text"
        />
        <Choice
          label="Since"
          value={state.since}
          choices={Object.fromEntries(Object.entries(SPANS).map(([name, span]) => [name, span.title]))}
          onChange={(since) => change({ since })}
        />
        <Choice
          label="At most"
          value={state.limit}
          choices={{ 50: "50 events", 200: "200 events" }}
          onChange={(limit) => change({ limit })}
          width="8rem"
        />
        <Button size="sm" variant="outline" aria-pressed={paused} onClick={() => setPaused(!paused)}>
          {paused ? "Follow again" : "Pause"}
        </Button>
      </Filters>
      <Answered of={polled}>
        {(data) => (
          <Stack gap={2}>
            <Listing
              label="Events"
              rows={data.rows}
              columns={columnsOf(bus)}
              idOf={(row) => `${row.topic} ${row.partition} ${row.offset} ${row.id} ${row.source}`}
              empty={
                filtered ? "No event matches these filters in this time." : "No event came in this time."
              }
            />
            <Text fontSize="sm" color="fg.muted">
              {inWords(data)}
              {paused ? " Paused." : " New ones appear by themselves."}
            </Text>
          </Stack>
        )}
      </Answered>
    </Stack>
  );
}

/** How many are shown, of which, and what of them. */
function inWords(data: EventsAnswer): string {
  const looked =
    typeof data.looked_at === "number" && data.complete === false
      ? `, among the latest ${grouped(data.looked_at)} of the bus`
      : "";
  const unread = data.unreadable ? ` ${counted(data.unreadable, "record")} could not be read as events.` : "";
  const texts =
    data.may?.read_texts === false
      ? " Subjects and data are for who may read all logs, and are not searched."
      : "";
  return `${counted(data.rows.length, "event")}${looked}.${unread}${texts}`;
}

function columnsOf(bus: string): Column<BusEvent>[] {
  return [
    {
      head: "Time",
      cell: (row) => (typeof row.time_ms === "number" ? <Moment ms={row.time_ms} precision="seconds" /> : ""),
    },
    {
      head: "Event",
      minW: "10rem",
      cell: (row) => (
        <>
          <To page={eventPage(row, bus)}>{row.id}</To>
          <Text fontSize="xs" wordBreak="break-word">
            {visible(row.type ?? "")}
          </Text>
        </>
      ),
    },
    { head: "Source", wide: true, minW: "9rem", cell: (row) => row.source },
    { head: "Subject", wide: true, cell: (row) => row.subject ?? "" },
    { head: "Record", wide: true, minW: "13rem", cell: (row) => recordOf(row) },
  ];
}

export function recordOf(event: BusEvent): string {
  return event.topic ? `${event.topic}[${event.partition}]@${event.offset}` : "";
}
