import { Box, chakra } from "@chakra-ui/react";
import type { ReactElement } from "react";

import type { GraphEdge, GraphNode } from "../api/answers";
import { useNow } from "../parts/now";
import { grouped } from "../words/counted";
import { spoken } from "../words/prose";
import { visible } from "../words/visible";
import { lookOf } from "./kinds";
import { layered } from "./layers";
import { drawing, NODE, type Point } from "./routes";
import { useWidth } from "./useWidth";

interface GraphPictureProps {
  nodes: readonly GraphNode[];
  edges: readonly GraphEdge[];
  chosen: string;
  choose: (id: string) => void;
}

const token = (name: string): string => `var(--chakra-colors-${name})`;
const NARROW_PX = 640;
const TITLE_CHARS = 24;
const LEAST_SCALE = 0.78;

/** The graph in layers: from left to right, or downwards where there is little room. */
export function GraphPicture(props: GraphPictureProps): ReactElement {
  const [width, ref] = useWidth();
  return (
    <Box ref={ref} minW={0}>
      {width > 0 ? <Drawn {...props} room={width} /> : null}
    </Box>
  );
}

function Drawn({ nodes, edges, chosen, choose, room }: GraphPictureProps & { room: number }): ReactElement {
  const now = useNow(60_000);
  const down = room < NARROW_PX;
  const layout = layered(
    nodes.map((node) => node.id),
    edges,
  );
  const drawn = drawing(layout, edges, down);
  // A little smaller rather than scrolled, as long as it can be read.
  const scale = Math.max(LEAST_SCALE, Math.min(1, (room - 4) / drawn.width));
  return (
    <Box
      overflow="auto"
      maxH="70vh"
      borderWidth={1}
      borderRadius="md"
      role="region"
      aria-label="Graph"
      tabIndex={0}
    >
      <chakra.svg
        width={drawn.width * scale}
        height={drawn.height * scale}
        viewBox={`0 0 ${drawn.width} ${drawn.height}`}
        role="group"
        aria-label={`${nodes.length} nodes, ${edges.length} edges; the table below has them in words`}
        display="block"
        mx="auto"
        fontSize="12px"
      >
        <defs>
          <marker
            id="interlock-arrow"
            viewBox="0 0 8 8"
            refX="7"
            refY="4"
            markerWidth="7"
            markerHeight="7"
            orient="auto-start-reverse"
          >
            <path d="M0 0L8 4L0 8z" fill={token("border-inverted")} />
          </marker>
        </defs>
        {edges.map((edge, number) => {
          const path = drawn.paths[number];
          return path ? (
            <path
              key={number}
              d={path}
              fill="none"
              stroke={token("border-inverted")}
              strokeWidth={chosen && (edge.from === chosen || edge.to === chosen) ? 2.25 : 1.25}
              opacity={chosen && edge.from !== chosen && edge.to !== chosen ? 0.45 : 0.8}
              markerEnd="url(#interlock-arrow)"
            >
              <title>{spoken(edge.title, now)}</title>
            </path>
          ) : null;
        })}
        {nodes.map((node) => (
          <Node
            key={node.id}
            of={node}
            at={drawn.at.get(node.id)!}
            chosen={chosen === node.id}
            choose={choose}
          />
        ))}
      </chakra.svg>
    </Box>
  );
}

interface NodeProps {
  of: GraphNode;
  at: Point;
  chosen: boolean;
  choose: (id: string) => void;
}

function Node({ of, at, chosen, choose }: NodeProps): ReactElement {
  const look = lookOf(of.kind);
  const palette = of.late ? "orange" : look.palette;
  const late = of.late ? (typeof of.late === "string" ? `, late: ${of.late}` : ", late") : "";
  const press = (): void => choose(chosen ? "" : of.id);
  return (
    <chakra.g
      role="button"
      tabIndex={0}
      aria-pressed={chosen}
      cursor="pointer"
      transform={`translate(${at.x}, ${at.y})`}
      onClick={press}
      onKeyDown={(each) => {
        if (each.key === "Enter" || each.key === " ") {
          each.preventDefault();
          press();
        }
      }}
      css={{ "&:focus-visible": { outline: "none" }, "&:focus-visible rect": { strokeWidth: "3px" } }}
    >
      <title>{visible(`${of.title}${late}`)}</title>
      <rect
        width={NODE.width}
        height={NODE.height}
        rx={6}
        fill={token(`${palette}-subtle`)}
        stroke={token(`${palette}-${of.late || chosen ? "solid" : "emphasized"}`)}
        strokeWidth={of.late || chosen ? 2.25 : 1.25}
      />
      <text x={10} y={17} fontSize="10.5px" fill={token(`${palette}-fg`)}>
        {[look.title, of.waits && of.waits > 1 ? grouped(of.waits) : "", of.late ? "late" : ""]
          .filter(Boolean)
          .join(" · ")}{" "}
      </text>
      <text x={10} y={33} fill={token("fg")} fontWeight={500}>
        {cut(visible(of.title))}
      </text>
    </chakra.g>
  );
}

/** Cut in the middle: the ends of names tell more than their middles. */
function cut(text: string): string {
  const chars = [...text];
  if (chars.length <= TITLE_CHARS) return text;
  const half = Math.floor((TITLE_CHARS - 1) / 2);
  return `${chars.slice(0, half).join("")}…${chars.slice(-half).join("")}`;
}
