import { Box, Code, DataList, Heading, Stack, Text } from "@chakra-ui/react";
import type { ReactElement } from "react";

import { viewPage } from "../address/pages";
import { useAddress } from "../address/useAddress";
import type { EventReport } from "../api/answers";
import { routeUrl } from "../api/client";
import { usePolled } from "../api/usePolled";
import { Answered } from "../parts/Answered";
import { useBus } from "../parts/bus";
import { Listing } from "../parts/Listing";
import { Moment } from "../parts/Moment";
import { Section } from "../parts/Section";
import { To } from "../parts/To";
import { Words } from "../parts/Words";
import { recordOf } from "./Events";

const SHAPE = { topic: "", partition: "", offset: "" } as const;
const EVERY_MS = 15_000;

/** One event: its attributes, what it met, and what it nearly met. */
export function EventView(): ReactElement {
  const { parameter: bus } = useBus();
  const [{ topic, partition, offset }] = useAddress(SHAPE);
  const whole = topic !== "" && partition !== "" && offset !== "";
  const polled = usePolled<EventReport>(whole ? routeUrl("event", { bus, topic, partition, offset }) : null, EVERY_MS);
  if (!whole) return <Text>This address names no event. Choose one in the list of events.</Text>;
  return <Answered of={polled}>{(data) => <Report of={data} />}</Answered>;
}

function Report({ of }: { of: EventReport }): ReactElement {
  const { parameter: bus } = useBus();
  const { event } = of;
  const known: Record<string, string | null | undefined> = {
    type: event.type,
    source: event.source,
    subject: event.subject,
    datacontenttype: event.datacontenttype,
    ...event.extensions,
  };
  const facts = Object.entries(known).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return (
    <Stack gap={6}>
      <Box>
        <Heading as="h2" size="md" wordBreak="break-word">
          {event.id}
        </Heading>
        <Text color="fg.muted" fontSize="sm" wordBreak="break-word">
          {recordOf(event)}
        </Text>
      </Box>
      <Section title="Attributes">
        <DataList.Root orientation="horizontal" size="sm" gap={2}>
          {typeof event.time_ms === "number" ? (
            <DataList.Item>
              <DataList.ItemLabel>time</DataList.ItemLabel>
              <DataList.ItemValue>
                <Moment ms={event.time_ms} precision="milliseconds" relative />
              </DataList.ItemValue>
            </DataList.Item>
          ) : null}
          {facts.map(([name, value]) => (
            <DataList.Item key={name}>
              <DataList.ItemLabel>{name}</DataList.ItemLabel>
              <DataList.ItemValue wordBreak="break-word" minW={0}>
                {value}
              </DataList.ItemValue>
            </DataList.Item>
          ))}
        </DataList.Root>
      </Section>
      <Section title="What it met">
        {of.met.length ? (
          <Stack as="ul" listStyleType="none" gap={1}>
            {of.met.map((each) => {
              const name = typeof each === "string" ? each : each.name;
              return (
                <li key={name}>
                  <To page={viewPage("subscription", { bus, name })}>{name}</To>
                </li>
              );
            })}
          </Stack>
        ) : (
          <Text color="fg.muted">No wait or dispatcher that is registered now takes it.</Text>
        )}
      </Section>
      <Section title="What it nearly met">
        <Listing
          label="What it nearly met"
          rows={of.nearly}
          idOf={(row) => `${row.subscription} ${row.label}`}
          empty="It comes near no other part."
          columns={[
            { head: "Subscription", cell: (row) => <To page={viewPage("subscription", { bus, name: row.subscription })}>{row.subscription}</To> },
            { head: "Part", cell: (row) => row.label },
            { head: "Because", cell: (row) => <Words of={row.because} /> },
          ]}
        />
      </Section>
      {event.data === undefined ? null : (
        <Section title="Data">
          <Code whiteSpace="pre-wrap" wordBreak="break-word" p={3} width="100%" display="block" maxH="24rem" overflowY="auto" tabIndex={0} aria-label="Data of the event">
            {typeof event.data === "string" ? event.data : JSON.stringify(event.data, null, 2)}
          </Code>
        </Section>
      )}
    </Stack>
  );
}
