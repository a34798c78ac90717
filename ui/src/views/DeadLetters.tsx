import { Button, Checkbox, HStack, Stack, Text } from "@chakra-ui/react";
import { useState, type ReactElement } from "react";

import { Redriver } from "../actions/Redriver";
import { viewPage } from "../address/pages";
import { changed } from "../address/query";
import { sinceMs, SPANS } from "../address/since";
import { useAddress } from "../address/useAddress";
import type { DeadLetter, Rows } from "../api/answers";
import { routeUrl } from "../api/client";
import { usePolled } from "../api/usePolled";
import { Answered } from "../parts/Answered";
import { mayOperate, useBus } from "../parts/bus";
import { Choice, Filters, TextFilter } from "../parts/Filters";
import { Listing, type Column } from "../parts/Listing";
import { Moment } from "../parts/Moment";
import { useNow } from "../parts/now";
import { State } from "../parts/State";
import { To } from "../parts/To";
import { Words } from "../parts/Words";
import { counted } from "../words/counted";
import { visible } from "../words/visible";

const SHAPE = { since: "7d", stage: "", reason: "", limit: "100" } as const;
const NONE = { stage: "", reason: "" };
const EVERY_MS = 15_000;
const STAGES = { "": "any stage", event: "event", trigger: "trigger", delivery: "delivery" };

/** Records that could not be processed, the newest first; who may sends them again. */
export function DeadLetters(): ReactElement {
  const bus = useBus();
  const [state, change] = useAddress(SHAPE);
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const now = useNow(60_000);
  const polled = usePolled<Rows<DeadLetter>>(
    routeUrl("dead-letters", { bus: bus.parameter, ...state, since: sinceMs(state.since, now) }),
    EVERY_MS,
  );
  const may = mayOperate(bus);
  const filtered = changed(SHAPE, state, ["since", "limit"]) > 0;
  const choose = (places: readonly string[], on: boolean): void =>
    setChosen((before) => {
      const next = new Set(before);
      for (const place of places) {
        if (on) next.add(place);
        else next.delete(place);
      }
      return next;
    });
  return (
    <Stack gap={4}>
      <Filters clear={filtered ? () => change(NONE) : null}>
        <Choice
          label="Stage"
          value={state.stage}
          choices={STAGES}
          onChange={(stage) => change({ stage })}
          width="9rem"
        />
        <TextFilter
          label="Reason"
          value={state.reason}
          onChange={(reason) => change({ reason })}
          width="16rem"
        />
        <Choice
          label="Since"
          value={state.since}
          choices={Object.fromEntries(Object.entries(SPANS).map(([name, span]) => [name, span.title]))}
          onChange={(since) => change({ since })}
        />
      </Filters>
      <Answered of={polled}>
        {(data) => {
          const shown = data.rows.map((row) => row.place);
          const here = shown.filter((place) => chosen.has(place));
          return (
            <Stack gap={3}>
              {may && data.rows.length ? (
                <HStack flexWrap="wrap" gap={3}>
                  <Button
                    size="xs"
                    variant="outline"
                    onClick={() => choose(shown, here.length < shown.length)}
                  >
                    {here.length < shown.length ? "Choose all shown" : "Choose none"}
                  </Button>
                  <Redriver places={here} then={polled.refresh} />
                </HStack>
              ) : null}
              <Listing
                label="Dead letters"
                rows={data.rows}
                columns={columnsOf(bus.parameter, may ? { chosen, choose } : null)}
                idOf={(row) => row.place}
                empty={
                  filtered
                    ? "No dead letter matches these filters."
                    : "No record was set aside in this time: nothing is lost."
                }
              />
              <Text fontSize="sm" color="fg.muted" role="status">
                {counted(data.rows.length, "dead letter")}
              </Text>
            </Stack>
          );
        }}
      </Answered>
    </Stack>
  );
}

interface Choosing {
  chosen: ReadonlySet<string>;
  choose: (places: readonly string[], on: boolean) => void;
}

function columnsOf(bus: string, choosing: Choosing | null): Column<DeadLetter>[] {
  const columns: Column<DeadLetter>[] = [
    {
      head: "Record",
      minW: "9rem",
      cell: (row) => (
        <>
          <To page={viewPage("dead-letter", { bus, place: row.place })}>{row.place}</To>
          <Text fontSize="xs" color="fg.muted">
            <Moment ms={row.time_ms} precision="seconds" />
          </Text>
          {typeof row.redriven_ms === "number" ? <State of="acked">sent again</State> : null}
        </>
      ),
    },
    {
      head: "Reason",
      minW: "9rem",
      cell: (row) => (
        <Text wordBreak="break-word" lineClamp={4}>
          <Words of={row.reason} />
        </Text>
      ),
    },
    { head: "Stage", wide: true, minW: "5.5rem", cell: (row) => row.stage },
    {
      head: "What it is",
      wide: true,
      minW: "13rem",
      cell: (row) => (
        <Text wordBreak="break-word">
          {row.subscription ? (
            <To page={viewPage("subscription", { bus, name: row.subscription })}>{row.subscription}</To>
          ) : (
            visible(row.type || "not an event")
          )}
          <Text as="span" display="block" fontSize="xs" color="fg.muted">
            {visible(row.id ?? "")}
          </Text>
        </Text>
      ),
    },
  ];
  if (!choosing) return columns;
  const choice: Column<DeadLetter> = {
    head: "Choose",
    cell: (row) => (
      <Checkbox.Root
        checked={choosing.chosen.has(row.place)}
        onCheckedChange={(each) => choosing.choose([row.place], each.checked === true)}
      >
        <Checkbox.HiddenInput aria-label={`Choose ${row.place}`} />
        <Checkbox.Control />
      </Checkbox.Root>
    ),
  };
  return [choice, ...columns];
}
