import { Badge, Box, chakra, Flex, Heading, HStack, Link, Text } from "@chakra-ui/react";
import { useEffect, useMemo, useRef, type ReactElement } from "react";
import { Link as RouterLink, useParams } from "react-router-dom";

import { viewPage, type View } from "../address/pages";
import { useAddress } from "../address/useAddress";
import type { Bus, Buses } from "../api/answers";
import { Refused, routeUrl } from "../api/client";
import { usePolled, type Polled } from "../api/usePolled";
import { BusContext, busOf } from "../parts/bus";
import { Choice } from "../parts/Filters";
import { Problem } from "../parts/Problem";
import { Shell } from "../parts/Shell";
import { DeadLetterView } from "./DeadLetterView";
import { DeadLetters } from "./DeadLetters";
import { Durable } from "./Durable";
import { EventView } from "./EventView";
import { Events } from "./Events";
import { Firings } from "./Firings";
import { GraphView } from "./GraphView";
import { HealthView } from "./HealthView";
import { Subscription } from "./Subscription";
import { Waits } from "./Waits";

const VIEWS: Record<View, () => ReactElement> = {
  waits: Waits,
  durable: Durable,
  subscription: Subscription,
  firings: Firings,
  events: Events,
  event: EventView,
  "dead-letters": DeadLetters,
  "dead-letter": DeadLetterView,
  graph: GraphView,
  health: HealthView,
};

const TABS: readonly [view: View, title: string, also: readonly View[]][] = [
  ["waits", "Waits", ["subscription"]],
  ["durable", "Dispatchers & deliveries", []],
  ["firings", "Firings", []],
  ["events", "Events", ["event"]],
  ["dead-letters", "Dead letters", ["dead-letter"]],
  ["graph", "Graph", []],
  ["health", "Health", []],
];

const SHAPE = { bus: "" } as const;
const BUSES_MS = 60_000;

/** The page Interlock, with a view for each address below it. */
export function InterlockPage(): ReactElement {
  return (
    <Shell>
      <Page />
    </Shell>
  );
}

function Page(): ReactElement {
  const place = (useParams()["*"] ?? "").replace(/\/+$/, "");
  const view = viewAt(place || "waits");
  const [{ bus }, change] = useAddress(SHAPE);
  const buses = usePolled<Buses>(routeUrl("buses"), BUSES_MS);
  const choice = useMemo(() => ({ parameter: bus, known: buses.data }), [bus, buses.data]);
  const broken = busOf(choice)?.error;
  const Chosen = view === null ? NoView : VIEWS[view];
  return (
    <BusContext value={choice}>
      <Flex justify="space-between" align="center" wrap="wrap" gap={3} mb={2}>
        <Heading as="h1" size="xl">
          Interlock
        </Heading>
        <BusOf buses={buses} bus={bus} choose={(value) => change({ bus: value }, { push: true })} />
      </Flex>
      <Tabs view={view} bus={bus} />
      {buses.problem && buses.data === undefined ? (
        <Problem of={buses.problem} again={buses.refresh} />
      ) : buses.data?.buses.length === 0 ? (
        <Text>
          This page shows no bus yet: name the connections of your buses in the setting page_connections,
          section interlock, of Airflow&apos;s configuration.
        </Text>
      ) : (
        <>
          {broken ? (
            <Box mb={4}>
              <Problem of={new Refused(503, broken)} title="The connection of this bus cannot be used" />
            </Box>
          ) : null}
          <Chosen />
        </>
      )}
    </BusContext>
  );
}

const viewAt = (place: string): View | null => (Object.hasOwn(VIEWS, place) ? (place as View) : null);

function BusOf(props: {
  buses: Polled<Buses>;
  bus: string;
  choose: (bus: string) => void;
}): ReactElement | null {
  const known = props.buses.data?.buses ?? [];
  const [first] = known;
  if (!first) return null;
  const chosen = known.find((each) => each.conn_id === props.bus) ?? first;
  if (known.length === 1) {
    return (
      <HStack fontSize="sm" color="fg.muted" flexWrap="wrap">
        <span>{chosen.bus ? `bus ${chosen.bus}` : chosen.conn_id}</span>
        <chakra.span hideBelow="md">{chosen.cluster}</chakra.span>
        {chosen.deployment ? <Badge>{chosen.deployment}</Badge> : null}
      </HStack>
    );
  }
  return (
    <Choice
      label="Bus"
      value={chosen.conn_id}
      choices={Object.fromEntries(known.map((each) => [each.conn_id, busTitle(each)]))}
      onChange={props.choose}
      width="16rem"
    />
  );
}

const busTitle = (bus: Bus): string => (bus.bus ? `${bus.bus} (${bus.conn_id})` : bus.conn_id);

function Tabs({ view, bus }: { view: View | null; bus: string }): ReactElement {
  const nav = useRef<HTMLDivElement>(null);
  useEffect(() => {
    // Where not all fit, the current one is in sight.
    const here = nav.current?.querySelector<HTMLElement>("[aria-current]");
    if (nav.current && here) nav.current.scrollLeft = here.offsetLeft - nav.current.offsetLeft - 24;
  }, [view]);
  return (
    <Box as="nav" ref={nav} aria-label="Views of Interlock" overflowX="auto" borderBottomWidth={1} mb={4}>
      <HStack as="ul" gap={1} listStyleType="none" minW="max-content">
        {TABS.map(([name, title, also]) => {
          const here = view !== null && (view === name || also.includes(view));
          return (
            <li key={name}>
              <Link
                asChild
                display="block"
                px={3}
                py={2}
                borderBottomWidth={2}
                borderColor={here ? "fg.info" : "transparent"}
                color={here ? "fg" : "fg.muted"}
                fontWeight={here ? "semibold" : "normal"}
                _hover={{ color: "fg", textDecoration: "none", borderColor: "border.emphasized" }}
              >
                <RouterLink to={viewPage(name, { bus })} aria-current={here ? "page" : undefined}>
                  {title}
                </RouterLink>
              </Link>
            </li>
          );
        })}
      </HStack>
    </Box>
  );
}

function NoView(): ReactElement {
  return <p>Interlock has no view at this address. Choose one above.</p>;
}
