import { Button, HStack, Stack, Text } from "@chakra-ui/react";
import { useMemo, type ReactElement } from "react";

import { dagPage, viewPage } from "../address/pages";
import { useAddress } from "../address/useAddress";
import type { Graph, GraphEdge, GraphNode } from "../api/answers";
import { routeUrl } from "../api/client";
import { usePolled } from "../api/usePolled";
import { Answered } from "../parts/Answered";
import { useBus } from "../parts/bus";
import { Choice, Filters, TextFilter } from "../parts/Filters";
import { Listing } from "../parts/Listing";
import { Section } from "../parts/Section";
import { State } from "../parts/State";
import { To } from "../parts/To";
import { Words } from "../parts/Words";
import { GraphPicture } from "../pictures/GraphPicture";
import { lookOf } from "../pictures/kinds";
import { selected } from "../pictures/selection";
import { visible } from "../words/visible";
import { counted, grouped } from "../words/counted";

const SHAPE = { node: "", search: "", only: "all" } as const;
const EVERY_MS = 10_000;

/** Who feeds what: senders, events, waits and the runs that come of them, with what is late in colour. */
export function GraphView(): ReactElement {
  const { parameter: bus } = useBus();
  const [state, change] = useAddress(SHAPE);
  const polled = usePolled<Graph>(routeUrl("graph", { bus }), EVERY_MS);
  return (
    <Stack gap={4}>
      <Filters>
        <TextFilter
          label="Search"
          value={state.search}
          onChange={(search) => change({ search, node: "" })}
          placeholder="DAG, sender or event type"
          width="16rem"
        />
        <Choice
          label="Show"
          value={state.only}
          choices={{ all: "everything", late: "what is late" }}
          onChange={(only) => change({ only })}
        />
      </Filters>
      <Answered of={polled}>{(data) => <Selected of={data} state={state} change={change} />}</Answered>
    </Stack>
  );
}

interface SelectedProps {
  of: Graph;
  state: { node: string; search: string; only: string };
  change: (change: { node: string }, options?: { push?: boolean }) => void;
}

function Selected({ of, state, change }: SelectedProps): ReactElement {
  const { node, search, only } = state;
  const found = useMemo(
    () => selected(of, { node, search, late: only === "late" }),
    [of, node, search, only],
  );
  const chosen = of.nodes.find((each) => each.id === node);
  if (!of.nodes.length) return <Text color="fg.muted">Nothing waits, and nothing was sent lately.</Text>;
  if (!found.nodes.length) return <Text color="fg.muted">Nothing matches. Search for something else.</Text>;
  return (
    <Stack gap={4}>
      {chosen ? <Chosen of={chosen} clear={() => change({ node: "" })} /> : null}
      {found.left + (of.left_out ?? 0) ? (
        <Text fontSize="sm" color="fg.muted">
          {counted(found.left + (of.left_out ?? 0), "more node")} not drawn. Search, or choose a node, to see
          what belongs to it.
        </Text>
      ) : null}
      {of.subscriptions && of.subscriptions.shown < of.subscriptions.all ? (
        <Text fontSize="sm" color="fg.muted">
          Drawn from the newest {grouped(of.subscriptions.shown)} of{" "}
          {counted(of.subscriptions.all, "subscription")}.
        </Text>
      ) : null}
      <GraphPicture
        nodes={found.nodes}
        edges={found.edges}
        chosen={node}
        choose={(id) => change({ node: id }, { push: true })}
      />
      <Edges nodes={found.nodes} edges={found.edges} />
    </Stack>
  );
}

function Chosen({ of, clear }: { of: GraphNode; clear: () => void }): ReactElement {
  const { parameter: bus } = useBus();
  return (
    <HStack flexWrap="wrap" gap={3} role="status">
      <Text>
        {lookOf(of.kind).title} <b>{visible(of.title)}</b>
      </Text>
      {of.late ? <State of="late">late</State> : null}
      {typeof of.late === "string" ? (
        <Text>
          <Words of={of.late} />
        </Text>
      ) : null}
      {of.waits ? <Text color="fg.muted">{counted(of.waits, "wait")}</Text> : null}
      {of.dag_id ? <To page={dagPage(of.dag_id)}>Open the DAG</To> : null}
      {of.dag_id ? <To page={viewPage("waits", { bus, dag_id: of.dag_id })}>Its waits</To> : null}
      <Button size="xs" variant="outline" onClick={clear}>
        Show all
      </Button>
    </HStack>
  );
}

function Edges({ nodes, edges }: { nodes: readonly GraphNode[]; edges: readonly GraphEdge[] }): ReactElement {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const name = (id: string): ReactElement => {
    const node = byId.get(id);
    if (!node) return <>{id}</>;
    return (
      <>
        {lookOf(node.kind).title} <To page={node.dag_id ? dagPage(node.dag_id) : null}>{node.title}</To>{" "}
        {node.late ? <State of="late">late</State> : null}
      </>
    );
  };
  return (
    <Section title="The same as a table">
      <Listing
        label="Edges of the graph"
        rows={edges}
        idOf={(row) => `${row.from} ${row.to} ${row.title}`}
        empty="No edges."
        columns={[
          { head: "From", cell: (row) => name(row.from) },
          { head: "By", wide: true, cell: (row) => <Words of={row.title} /> },
          { head: "To", cell: (row) => name(row.to) },
        ]}
      />
    </Section>
  );
}
