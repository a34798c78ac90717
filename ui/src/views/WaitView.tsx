import { Alert, Box, Code, EmptyState, Flex, HStack, Stack, Text } from "@chakra-ui/react";
import type { ReactElement } from "react";

import { Ask } from "../actions/Ask";
import { clearing } from "../actions/clearing";
import { Emit } from "../actions/Emit";
import { wantedOf } from "../actions/wanted";
import { airflowPage, isMapped, runPage, tabPage, viewPage } from "../address/pages";
import type { Row, Wait } from "../api/answers";
import { routeUrl } from "../api/client";
import { Advice } from "../parts/Advice";
import { Copied } from "../parts/Copied";
import { connectionOf, useBus } from "../parts/bus";
import { Facts, type Fact } from "../parts/Facts";
import { Moment } from "../parts/Moment";
import { Raw } from "../parts/Raw";
import { Section } from "../parts/Section";
import { State } from "../parts/State";
import { To } from "../parts/To";
import { Words } from "../parts/Words";
import { AxisPicture } from "../pictures/AxisPicture";
import { StepsPicture } from "../pictures/StepsPicture";
import { Tree } from "../pictures/Tree";
import { listed } from "../words/counted";
import { visible } from "../words/visible";
import { Keys } from "./Keys";
import { Nearly } from "./Nearly";
import { NextSteps } from "./NextSteps";
import { TakenEvents } from "./TakenEvents";

// Two columns where the place the view has is wide enough, whatever the window's width is.
const WIDE = "@container wait (min-width: 54rem)";

const WAITING_MS = 3000;
const SETTLED_MS = 20_000;

/** How often the answer is asked for: what has fired, and a task that waits for nothing, rarely change. */
export const everyMs = (wait: Wait | undefined): number =>
  wait === undefined || wait.state === "waiting" ? WAITING_MS : SETTLED_MS;

interface WaitViewProps {
  of: Wait;
  refresh: () => void;
  /** The view is the tab of this task instance, so it does not link to it. */
  inTab?: boolean;
}

/** Why a wait or a durable subscription has not fired, or what its firing was. */
export function WaitView({ of, refresh, inTab = false }: WaitViewProps): ReactElement {
  if (of.state === "none" || of.subscription === null) return <Nothing of={of} inTab={inTab} />;
  const { subscription, explanation } = of;
  const fired = of.firing !== null;
  return (
    <Box containerType="inline-size" containerName="wait">
      <Stack gap={6}>
        <Head of={of} subscription={subscription} refresh={refresh} />
        <Notes of={of.notes} />
        <Box
          css={{
            display: "grid",
            gap: "1.5rem",
            gridTemplateColumns: "minmax(0, 1fr)",
            [WIDE]: { gridTemplateColumns: "minmax(0, 1fr) 20rem" },
          }}
        >
          <Stack gap={6} minW={0}>
            {of.steps.length ? (
              <Section title="What happened">
                <StepsPicture of={of.steps} />
              </Section>
            ) : null}
            {of.firing ? <TakenEvents of={of.firing} /> : null}
            {explanation ? (
              <Section title="The condition">
                <Tree of={explanation.tree} />
              </Section>
            ) : null}
            {fired || (explanation === null && !of.next.length) ? null : (
              <Section title="Time">
                {explanation ? (
                  <AxisPicture
                    of={{
                      sinceMs: subscription.since_ms,
                      registeredMs: subscription.registered_ms,
                      tree: explanation.tree,
                      next: of.next,
                    }}
                  />
                ) : null}
                <NextSteps of={of.next} ends={subscription.kind === "one-shot"} />
              </Section>
            )}
            {of.keys.length ? <Keys of={of} /> : null}
            {explanation && !fired ? <Nearly of={explanation} texts={of.may.read_texts} /> : null}
          </Stack>
          <Stack gap={6} minW={0}>
            <About of={of} subscription={subscription} inTab={inTab} />
            {of.commands.length ? (
              <Section title="In a terminal">
                <Stack gap={3}>
                  {of.commands.map((each) => (
                    <Copied key={each.command} what={each.what} command={each.command} />
                  ))}
                </Stack>
              </Section>
            ) : null}
          </Stack>
        </Box>
      </Stack>
    </Box>
  );
}

function Head(props: { of: Wait; subscription: Row; refresh: () => void }): ReactElement {
  const { of, subscription, refresh } = props;
  const bus = connectionOf(useBus());
  const [first, ...rest] = of.words;
  const clear = clearing(subscription);
  const durable = subscription.kind === "durable";
  const expired = of.firing?.outcome === "expired";
  return (
    <Flex gap={4} justify="space-between" wrap="wrap" align="start">
      <Stack gap={1} flex="1 1 20rem" minW={0}>
        <HStack align="start" gap={2}>
          {expired ? (
            <State of="late">expired</State>
          ) : (
            <State of={of.state}>{durable && of.state === "waiting" ? "registered" : of.state}</State>
          )}
          <Text fontSize="lg" fontWeight="medium" lineHeight="short" wordBreak="break-word">
            {first === undefined ? visible(subscription.name) : <Words of={first} />}
          </Text>
        </HStack>
        {rest.map((each, number) => (
          <Text key={number} wordBreak="break-word">
            <Words of={each} />
          </Text>
        ))}
      </Stack>
      <HStack gap={2} flexWrap="wrap">
        {of.may.emit && of.state === "waiting" ? (
          <Emit bus={bus} wanted={wantedOf(of)} then={refresh} />
        ) : null}
        {(of.may.clear ?? of.may.cancel) && clear ? (
          <Ask
            button="Clear the task…"
            title="Clear the task?"
            confirm="Clear it"
            url={clear.url}
            body={clear.body}
            done="Cleared. Airflow runs the task again."
            then={refresh}
          >
            <Text>
              Airflow runs it again, with the tasks after it. If its condition was met, it finds the same
              firing again; else it waits again, and its time starts anew.
            </Text>
          </Ask>
        ) : null}
        {of.may.cancel && of.state === "waiting" ? (
          <Ask
            button={durable ? "Cancel…" : "Cancel the wait…"}
            title={durable ? "Cancel the subscription?" : "Cancel the wait?"}
            confirm="Cancel it"
            danger
            url={routeUrl("cancel")}
            body={{ bus, name: subscription.name }}
            done="Cancelled."
            then={refresh}
          >
            <Text>
              This removes the registration, and drops what it has pending.{" "}
              {durable
                ? "The next run of its DAG registers it again, and events count from then on: remove or pause that DAG as well."
                : "It is refused while a process holds the wait: then mark the task failed, or clear it."}
            </Text>
            <Code overflowWrap="anywhere" p={2}>
              {visible(subscription.name)}
            </Code>
          </Ask>
        ) : null}
      </HStack>
    </Flex>
  );
}

function Notes({ of }: { of: readonly string[] }): ReactElement | null {
  if (!of.length) return null;
  return (
    <Alert.Root status="info" size="sm">
      <Alert.Indicator aria-hidden />
      <Alert.Content minW={0}>
        <Stack gap={2}>
          {of.map((each, number) => (
            <Advice key={number} of={each} />
          ))}
        </Stack>
      </Alert.Content>
    </Alert.Root>
  );
}

function About(props: { of: Wait; subscription: Row; inTab: boolean }): ReactElement {
  const { of, subscription: row, inTab } = props;
  const { parameter } = useBus();
  const task = [row.dag_id, row.task_id].filter(Boolean).join(" / ");
  const tab = inTab ? null : tabPage(row);
  const mapped = isMapped(row.map_index) ? ` [${row.map_index}]` : "";
  const target = of.firing?.target;
  const started = target?.run_id ? `${target.dag_id} / ${target.run_id}` : target?.dag_id;
  const facts: Fact[] = [
    ["Task", inTab || !row.dag_id ? null : <To page={airflowPage(row)}>{`${task}${mapped}`}</To>],
    [
      "Run",
      inTab || !row.dag_id || !row.run_id ? null : (
        <To page={runPage(row.dag_id, row.run_id)}>{row.run_id}</To>
      ),
    ],
    ["Tab", tab ? <To page={tab}>Wait of the task instance</To> : null],
    ["Started", target && started ? <To page={airflowPage(target)}>{started}</To> : null],
    [
      "Subscription",
      inTab ? (
        <To page={viewPage("subscription", { bus: parameter, name: row.name })}>{row.name}</To>
      ) : (
        row.name
      ),
    ],
    [
      "Firings",
      row.kind === "durable" ? (
        <To
          page={viewPage("firings", { bus: parameter, name: row.name })}
        >{`its firings${row.open_firings ? `, ${row.open_firings} open` : ""}`}</To>
      ) : null,
    ],
    ["Key", row.key],
    ["Events count since", row.since_ms === null ? null : <Since ms={row.since_ms} />],
    ["Registered", row.registered_ms === null ? null : <Moment ms={row.registered_ms} precision="seconds" />],
    ["Delivers to", row.delivers_to],
    [
      "Held by",
      of.firing === null ? listed(row.held_by) || (row.kind === "one-shot" ? "no process" : null) : null,
    ],
    [
      "Condition as text",
      of.condition ? <Raw label="Condition as text" text={of.condition} maxH="12rem" /> : null,
    ],
  ];
  return (
    <Section title="About it">
      <Facts of={facts} narrow />
    </Section>
  );
}

/** 0 and 1 are how it is written that all events count. */
function Since({ ms }: { ms: number }): ReactElement {
  return ms <= 1 ? <>the beginning of the bus</> : <Moment ms={ms} precision="seconds" />;
}

function Nothing({ of, inTab }: { of: Wait; inTab: boolean }): ReactElement {
  const { parameter } = useBus();
  return (
    <EmptyState.Root size="sm">
      <EmptyState.Content>
        <EmptyState.Indicator aria-hidden>
          <Quiet />
        </EmptyState.Indicator>
        <EmptyState.Title>
          {inTab ? "This task waits for no event" : "Nothing waits under this name"}
        </EmptyState.Title>
        <EmptyState.Description maxW="34rem" textAlign="center">
          {of.words.length
            ? of.words.map((each, number) => (
                <Text key={number}>
                  <Words of={each} />
                </Text>
              ))
            : "When it waits for events, this tab says for which, what came, and what is missing. A wait that fired before the latest 10,000 firings of the bus is in the task's log alone."}
        </EmptyState.Description>
        <To page={viewPage("waits", { bus: parameter })}>See all waits</To>
        {of.notes.map((each, number) => (
          <Text key={number} fontSize="sm" color="fg.muted">
            <Words of={each} />
          </Text>
        ))}
      </EmptyState.Content>
    </EmptyState.Root>
  );
}

function Quiet(): ReactElement {
  return (
    <svg
      viewBox="0 0 24 24"
      width="32"
      height="32"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.5"
      aria-hidden
    >
      <circle cx="12" cy="12" r="9" />
      <path d="M8 12h8" />
    </svg>
  );
}
