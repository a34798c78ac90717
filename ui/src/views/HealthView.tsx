import { Alert, SimpleGrid, Stack, Stat, Text } from "@chakra-ui/react";
import type { ReactElement, ReactNode } from "react";

import { viewPage } from "../address/pages";
import type { Health, HealthPartition, HealthSink } from "../api/answers";
import { routeUrl } from "../api/client";
import { usePolled } from "../api/usePolled";
import { Advice } from "../parts/Advice";
import { Answered } from "../parts/Answered";
import { useBus } from "../parts/bus";
import { Listing, type Column } from "../parts/Listing";
import { Section } from "../parts/Section";
import { To } from "../parts/To";
import { Words } from "../parts/Words";
import { counted, grouped } from "../words/counted";
import { duration } from "../words/duration";

const EVERY_MS = 10_000;

const number = (value: number | null | undefined): string =>
  typeof value === "number" ? grouped(value) : "not known";

/** The state of the bus: problems with what to do, engines, partitions, deliveries. */
export function HealthView(): ReactElement {
  const { parameter: bus } = useBus();
  const polled = usePolled<Health>(routeUrl("health", { bus }), EVERY_MS);
  return <Answered of={polled}>{(data) => <Report of={data} bus={bus} />}</Answered>;
}

function Report({ of, bus }: { of: Health; bus: string }): ReactElement {
  return (
    <Stack gap={6}>
      <Problems of={of} />
      <Counts of={of} bus={bus} />
      {of.partial ? (
        <Text color="fg.muted">
          Engines, partitions and deliveries are for who may edit the connection of the bus.
        </Text>
      ) : (
        <Details of={of} bus={bus} />
      )}
    </Stack>
  );
}

/** How much there is, with links to it. */
function Counts({ of, bus }: { of: Health; bus: string }): ReactElement {
  const letters = of.dead_letters;
  const partitions = of.partitions ?? [];
  const lag = partitions.reduce((sum, each) => sum + (each.lag ?? 0), 0);
  return (
    <Stack gap={4}>
      <SimpleGrid columns={{ base: 2, md: 4 }} gap={4}>
        <Fact name="Waits" value={number(of.registrations?.one_shot)} page={viewPage("waits", { bus })} />
        <Fact
          name="Dispatchers & deliveries"
          value={number(of.registrations?.durable)}
          page={viewPage("durable", { bus })}
        />
        {of.partial ? null : (
          <>
            <Fact name="Unread records" value={partitions.length ? grouped(lag) : "not known"} page={null} />
            <Fact
              name="Open dead letters"
              value={letters ? `${letters.complete ? "" : "at least "}${grouped(letters.open)}` : "not known"}
              page={viewPage("dead-letters", { bus })}
            />
          </>
        )}
      </SimpleGrid>
      {of.registrations?.oldest ? (
        <Text fontSize="sm" color="fg.muted" wordBreak="break-word">
          The oldest registration is{" "}
          <To page={viewPage("subscription", { bus, name: of.registrations.oldest })}>
            {of.registrations.oldest}
          </To>
          {of.registrations.oldest_since ? (
            <>
              , of <Words of={of.registrations.oldest_since} />
            </>
          ) : null}
          .
        </Text>
      ) : null}
    </Stack>
  );
}

function Details({ of, bus }: { of: Health; bus: string }): ReactElement {
  const partitions = of.partitions ?? [];
  return (
    <>
      <Section title="Engines">
        <Listing
          label="Engines"
          rows={of.engines ?? []}
          idOf={(row) => row.engine}
          empty="No engine runs: start a triggerer."
          columns={[
            { head: "Engine", cell: (row) => row.engine },
            { head: "Host", wide: true, cell: (row) => row.host },
            { head: "Partitions", numeric: true, cell: (row) => grouped(row.partitions) },
          ]}
        />
      </Section>
      <Section title="Deliveries">
        <Listing
          label="Deliveries"
          rows={of.deliveries ?? []}
          idOf={(row) => row.deployment}
          empty="No deployment has a sink."
          columns={[
            { head: "Deployment", cell: (row) => row.deployment },
            { head: "Sinks", numeric: true, cell: (row) => grouped(row.sinks) },
            { head: "Processes that deliver", numeric: true, cell: (row) => number(row.deliverers) },
            { head: "Records behind", numeric: true, cell: (row) => number(row.behind) },
          ]}
        />
      </Section>
      {of.sinks?.length ? (
        <Section title="Firings that wait for a sink">
          <Listing
            label="Firings that wait for a sink"
            rows={of.sinks}
            idOf={(row) => row.subscription}
            empty=""
            columns={sinkColumns(bus)}
          />
        </Section>
      ) : null}
      <Section
        title="Partitions"
        aside={
          <Text fontSize="sm" color="fg.muted">
            {counted(partitions.length, "partition")}
          </Text>
        }
      >
        <Listing
          label="Partitions"
          rows={[...partitions].sort(byTrouble)}
          idOf={(row) => `${row.topic} ${row.partition}`}
          empty="The cluster shows none."
          columns={PARTITIONS}
        />
      </Section>
    </>
  );
}

function Problems({ of }: { of: Health }): ReactElement {
  if (!of.problems.length) {
    return (
      <Alert.Root status="success">
        <Alert.Indicator aria-hidden />
        <Alert.Title>All is well</Alert.Title>
      </Alert.Root>
    );
  }
  return (
    <Alert.Root status="error">
      <Alert.Indicator aria-hidden />
      <Alert.Content minW={0}>
        <Alert.Title>{of.partial ? "Not well" : counted(of.problems.length, "problem")}</Alert.Title>
        <Stack as="ul" gap={2} listStyleType="none" mt={1}>
          {of.problems.map((each, place) => (
            <li key={place}>
              <Advice of={each} />
            </li>
          ))}
        </Stack>
      </Alert.Content>
    </Alert.Root>
  );
}

function Fact({ name, value, page }: { name: string; value: string; page: string | null }): ReactElement {
  return (
    <Stat.Root>
      <Stat.Label>{page ? <To page={page}>{name}</To> : name}</Stat.Label>
      <Stat.ValueText>{value}</Stat.ValueText>
    </Stat.Root>
  );
}

const sinkColumns = (bus: string): Column<HealthSink>[] => [
  {
    head: "Subscription",
    cell: (row) => (
      <To page={viewPage("subscription", { bus, name: row.subscription })}>{row.subscription}</To>
    ),
  },
  { head: "Sink", wide: true, cell: (row) => row.delivers_to },
  { head: "Open firings", numeric: true, cell: (row) => number(row.open_firings) },
  {
    head: "Oldest",
    numeric: true,
    cell: (row): ReactNode => (row.oldest_age_s === null ? "" : duration(row.oldest_age_s * 1000)),
  },
];

const PARTITIONS: readonly Column<HealthPartition>[] = [
  { head: "Partition", cell: (row) => `${row.topic}[${row.partition}]` },
  { head: "State", cell: (row) => row.state },
  { head: "Unread", numeric: true, cell: (row) => number(row.lag) },
  { head: "Tries", numeric: true, wide: true, cell: (row) => grouped(row.tries) },
  { head: "Engine", wide: true, cell: (row) => row.engine ?? "none" },
];

/** Partitions that are not read come first, then those with the most unread records. */
function byTrouble(one: HealthPartition, other: HealthPartition): number {
  const rank = (each: HealthPartition): number => (each.state === "open" && !each.tries ? 1 : 0);
  return rank(one) - rank(other) || (other.lag ?? -1) - (one.lag ?? -1);
}
