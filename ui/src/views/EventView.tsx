import { Box, Heading, Stack, Text } from "@chakra-ui/react";
import type { ReactElement } from "react";

import { viewPage } from "../address/pages";
import { useAddress } from "../address/useAddress";
import type { Compared, EventReport } from "../api/answers";
import { routeUrl } from "../api/client";
import { usePolled } from "../api/usePolled";
import { Answered } from "../parts/Answered";
import { useBus } from "../parts/bus";
import { Facts, type Fact } from "../parts/Facts";
import { Listing } from "../parts/Listing";
import { Moment } from "../parts/Moment";
import { Raw } from "../parts/Raw";
import { Section } from "../parts/Section";
import { To } from "../parts/To";
import { Words } from "../parts/Words";
import { counted, grouped } from "../words/counted";
import { indented } from "../words/indented";
import { visible } from "../words/visible";
import { recordOf } from "./Events";

const SHAPE = { topic: "", partition: "", offset: "" } as const;
const EVERY_MS = 15_000;

/** One event: its attributes, what it met, and what it nearly met. */
export function EventView(): ReactElement {
  const { parameter: bus } = useBus();
  const [{ topic, partition, offset }] = useAddress(SHAPE);
  const whole = topic !== "" && partition !== "" && offset !== "";
  const polled = usePolled<EventReport>(
    whole ? routeUrl("event", { bus, topic, partition, offset }) : null,
    EVERY_MS,
  );
  if (!whole) return <Text>This address names no event. Choose one in the list of events.</Text>;
  return <Answered of={polled}>{(data) => <Report of={data} />}</Answered>;
}

function Report({ of }: { of: EventReport }): ReactElement {
  const { parameter: bus } = useBus();
  const { event } = of;
  const facts: Fact[] = [
    [
      "time",
      typeof event.time_ms === "number" ? (
        <Moment ms={event.time_ms} precision="milliseconds" relative />
      ) : null,
    ],
    ["type", event.type],
    ["source", event.source],
    ["subject", event.subject],
    ["datacontenttype", event.datacontenttype],
    ...Object.entries(event.extensions ?? {}),
  ];
  return (
    <Stack gap={6}>
      <Box>
        <Heading as="h2" size="md" wordBreak="break-word">
          {visible(event.id)}
        </Heading>
        <Text color="fg.muted" fontSize="sm" wordBreak="break-word">
          {recordOf(event)}
        </Text>
      </Box>
      <Section title="Attributes">
        <Facts of={facts} />
      </Section>
      <Section title="What it met">
        {of.met.length ? (
          <Stack as="ul" listStyleType="none" gap={1}>
            {of.met.map(({ name }) => (
              <li key={name}>
                <To page={viewPage("subscription", { bus, name })}>{name}</To>
              </li>
            ))}
            {of.left_out ? <li>and {counted(of.left_out, "more subscription")}</li> : null}
          </Stack>
        ) : (
          <Text color="fg.muted">No wait or dispatcher that is registered now takes it.</Text>
        )}
      </Section>
      <Section title="What it nearly met" aside={<ComparedWith of={of.subscriptions} />}>
        <Listing
          label="What it nearly met"
          rows={of.nearly}
          idOf={(row) => `${row.subscription} ${row.label}`}
          empty="It comes near no other part."
          columns={[
            {
              head: "Subscription",
              minW: "9rem",
              cell: (row) => (
                <To page={viewPage("subscription", { bus, name: row.subscription })}>{row.subscription}</To>
              ),
            },
            { head: "Part", minW: "6rem", cell: (row) => row.label },
            { head: "Because", minW: "10rem", cell: (row) => <Words of={row.because} /> },
          ]}
        />
      </Section>
      {typeof event.data === "string" ? (
        <Section
          title={`Data${typeof event.data_bytes === "number" ? ` (${counted(event.data_bytes, "byte")})` : ""}`}
        >
          <Raw label="Data of the event" text={indented(event.data)} />
        </Section>
      ) : (
        <Text color="fg.muted">
          {event.data === null ? "It has no data." : "Its data is for who may read all logs."}
        </Text>
      )}
    </Stack>
  );
}

function ComparedWith({ of }: { of: Compared | undefined }): ReactElement | null {
  if (of === undefined || of.shown >= of.all) return null;
  return (
    <Text fontSize="sm" color="fg.muted">
      compared with {grouped(of.shown)} of {counted(of.all, "subscription")}
    </Text>
  );
}
