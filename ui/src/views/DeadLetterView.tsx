import { Heading, Stack, Text } from "@chakra-ui/react";
import type { ReactElement } from "react";

import { Redriver } from "../actions/Redriver";
import { viewPage } from "../address/pages";
import { useAddress } from "../address/useAddress";
import type { DeadLetter, DeadLetterContent } from "../api/answers";
import { routeUrl } from "../api/client";
import { usePolled } from "../api/usePolled";
import { Answered } from "../parts/Answered";
import { mayOperate, useBus } from "../parts/bus";
import { Facts, type Fact } from "../parts/Facts";
import { Listing } from "../parts/Listing";
import { Moment } from "../parts/Moment";
import { Raw } from "../parts/Raw";
import { Section } from "../parts/Section";
import { To } from "../parts/To";
import { Words } from "../parts/Words";
import { grouped } from "../words/counted";

const SHAPE = { place: "" } as const;
const EVERY_MS = 30_000;

/** One dead letter: why it was set aside, and its content for who may see it. */
export function DeadLetterView(): ReactElement {
  const bus = useBus();
  const [{ place }] = useAddress(SHAPE);
  const polled = usePolled<DeadLetter>(
    place ? routeUrl("dead-letter", { bus: bus.parameter, place }) : null,
    EVERY_MS,
  );
  if (!place) return <Text>This address names no dead letter. Choose one in the list.</Text>;
  return (
    <Answered of={polled}>
      {(data) => (
        <Stack gap={6}>
          <Stack gap={2} align="start">
            <Heading as="h2" size="md" wordBreak="break-word">
              {data.place}
            </Heading>
            <Text wordBreak="break-word">
              <Words of={data.reason} />
            </Text>
            {mayOperate(bus) ? <Redriver places={[data.place]} then={polled.refresh} /> : null}
          </Stack>
          <About of={data} bus={bus.parameter} />
          {data.content ? (
            <Content of={data.content} />
          ) : (
            <Text color="fg.muted">Its content is shown to who may edit the connection of the bus.</Text>
          )}
        </Stack>
      )}
    </Answered>
  );
}

function About({ of, bus }: { of: DeadLetter; bus: string }): ReactElement {
  const facts: Fact[] = [
    ["Set aside", <Moment key="time" ms={of.time_ms} precision="seconds" relative />],
    ["Stage", of.stage],
    ["Original record", of.origin || "not known"],
    ["Attempts", of.attempts ?? ""],
    ["Type", of.type || "not an event"],
    ["Id", of.id ?? ""],
  ];
  if (of.subscription) {
    facts.push([
      "Subscription",
      <To key="name" page={viewPage("subscription", { bus, name: of.subscription })}>
        {of.subscription}
      </To>,
    ]);
  }
  if (of.sink) facts.push(["Sink", of.sink]);
  if (typeof of.redriven_ms === "number")
    facts.push(["Sent again", <Moment key="again" ms={of.redriven_ms} precision="seconds" relative />]);
  return <Facts of={facts} />;
}

function Content({ of }: { of: DeadLetterContent }): ReactElement {
  const size = typeof of.value_bytes === "number" ? ` (${grouped(of.value_bytes)} bytes)` : "";
  return (
    <>
      <Section title={`Value${size}`}>
        <Raw label="Value" text={of.value ?? "null"} />
      </Section>
      <Section title="Key">
        <Raw label="Key" text={of.key ?? "null"} />
      </Section>
      <Section title="Headers">
        <Listing
          label="Headers"
          rows={Object.entries(of.headers ?? {})}
          idOf={([name]) => name}
          empty="None."
          columns={[
            { head: "Header", minW: "8rem", cell: ([name]) => name },
            { head: "Value", cell: ([, value]) => value },
          ]}
        />
      </Section>
    </>
  );
}
