import { Box, chakra, Text } from "@chakra-ui/react";
import type { ReactElement } from "react";

import { useNow } from "../parts/now";
import { counted, listed } from "../words/counted";
import { distance } from "../words/duration";
import { utc } from "../words/moment";
import { visible } from "../words/visible";
import { axisOf, tickText, type AxisInput, type Dot, type Lane, type Line } from "./axis";
import { colour } from "./MarkIcon";
import { useWidth } from "./useWidth";

const LANE_PX = 28;
const ROW_PX = 16;
const TICKS_PX = 22;
const STEP_MS = 1000;
const MOST_TITLE_PX = 170;

const token = (name: string): string => `var(--chakra-colors-${name})`;

/** The time axis of a wait: when its events came, and what comes by itself. */
export function AxisPicture({ of }: { of: Omit<AxisInput, "nowMs"> }): ReactElement {
  const nowMs = useNow(STEP_MS);
  const [width, ref] = useWidth();
  return (
    <Box ref={ref} width="100%" minW={0} overflow="hidden">
      {width > 0 ? <Drawn of={{ ...of, nowMs }} width={width} /> : <Box height="6rem" />}
    </Box>
  );
}

function Drawn({ of, width }: { of: AxisInput; width: number }): ReactElement {
  const titlePx = Math.min(MOST_TITLE_PX, Math.floor(width * 0.28));
  const inner = Math.max(120, width - titlePx - 8);
  const axis = axisOf(of, inner);
  const top = axis.rows * ROW_PX + 6;
  const bottom = top + Math.max(1, axis.lanes.length) * LANE_PX;
  const height = bottom + TICKS_PX;
  const rest = axis.more ? `and ${counted(axis.more, "more part")}` : "";
  return (
    <>
      <chakra.svg
        width={width}
        height={height}
        viewBox={`0 0 ${width} ${height}`}
        role="img"
        aria-label={inWords(axis.lanes, axis.lines, of.nowMs)}
        display="block"
        fontSize="12px"
        css={{ "& text": { fontFamily: "inherit" } }}
      >
        <g transform={`translate(${titlePx}, 0)`}>
          <rect
            x={axis.ahead[0]}
            y={top}
            width={Math.max(0, axis.ahead[1] - axis.ahead[0])}
            height={bottom - top}
            fill={token("bg-muted")}
            opacity={0.6}
          />
          {axis.ticks.map((tick) => (
            <g key={tick.atMs}>
              <line x1={tick.x} x2={tick.x} y1={top} y2={bottom + 4} stroke={token("border")} />
              <text
                x={tick.x}
                y={height - 6}
                textAnchor={tick.x > inner - 24 ? "end" : "middle"}
                fill={token("fg-muted")}
                fontSize="11px"
              >
                {tickText(tick.atMs, axis.days, of.nowMs)}
              </text>
            </g>
          ))}
          {axis.lines.map((line) => (
            <LineOf key={`${line.kind} ${line.title}`} of={line} bottom={bottom} />
          ))}
          {axis.lanes.map((lane, number) => (
            <LaneOf
              key={number}
              of={lane}
              y={top + number * LANE_PX}
              inner={inner}
              titlePx={titlePx}
              nowX={axis.ahead[0]}
            />
          ))}
        </g>
      </chakra.svg>
      {rest ? (
        <Text fontSize="sm" color="fg.muted">
          {rest}
        </Text>
      ) : null}
    </>
  );
}

/** Where an event would be if it came now. */
function Missing({ x, y, inner }: { x: number; y: number; inner: number }): ReactElement {
  const before = x > inner - 60;
  return (
    <g>
      <circle
        cx={x}
        cy={y}
        r={5.5}
        fill={token("bg")}
        stroke={colour("missing")}
        strokeWidth={1.75}
        strokeDasharray="3 2"
      />
      <text
        x={before ? x - 10 : x + 10}
        y={y + 4}
        textAnchor={before ? "end" : "start"}
        fill={token("orange-fg")}
      >
        missing
      </text>
    </g>
  );
}

function LaneOf(props: { of: Lane; y: number; inner: number; titlePx: number; nowX: number }): ReactElement {
  const { of, y, inner, titlePx, nowX } = props;
  const middle = y + LANE_PX / 2;
  return (
    <g>
      <line x1={0} x2={inner} y1={middle} y2={middle} stroke={token("border")} strokeDasharray="2 4" />
      <text x={-titlePx} y={middle + 4} fill={token(of.mark === "unneeded" ? "fg-muted" : "fg")}>
        <title>{of.title}</title>
        {cut(of.title, (titlePx - 10) / 6.4)}
      </text>
      {of.bar ? (
        <rect
          x={of.bar[0]}
          y={middle - 4}
          width={Math.max(2, Math.min(inner, of.bar[1]) - of.bar[0])}
          height={8}
          rx={4}
          fill={token("green-muted")}
        />
      ) : null}
      {of.apart.map((dot) => (
        <DotOf key={dot.x} of={dot} y={middle} hollow />
      ))}
      {of.dots.map((dot) => (
        <DotOf key={dot.x} of={dot} y={middle} />
      ))}
      {of.mark === "missing" && !of.dots.length ? <Missing x={nowX} y={middle} inner={inner} /> : null}
    </g>
  );
}

function DotOf({ of, y, hollow = false }: { of: Dot; y: number; hollow?: boolean }): ReactElement {
  const several = of.events.length > 1;
  const names = visible(listed(of.events.map((event) => event.id)));
  return (
    <g>
      <title>{`${names}${hollow ? ", which does not count" : ""}, ${utc(of.atMs)}`}</title>
      <circle
        cx={of.x}
        cy={y}
        r={several ? 8 : 5.5}
        fill={hollow ? token("bg") : colour("met")}
        stroke={hollow ? token("fg-muted") : token("bg")}
        strokeWidth={1.5}
      />
      {several ? (
        <text x={of.x} y={y + 3.5} textAnchor="middle" fontSize="10px" fill={token(hollow ? "fg" : "bg")}>
          {of.events.length > 99 ? "99" : of.events.length}
        </text>
      ) : null}
    </g>
  );
}

function LineOf({ of, bottom }: { of: Line; bottom: number }): ReactElement {
  const stroke = token(
    of.kind === "ahead" ? "orange-solid" : of.kind === "now" ? "purple-solid" : "fg-subtle",
  );
  const fill = token(of.kind === "ahead" ? "orange-fg" : of.kind === "now" ? "purple-fg" : "fg-muted");
  const y = of.row * ROW_PX + 12;
  return (
    <g>
      <title>{`${of.title}: ${utc(of.atMs)}`}</title>
      <line
        x1={of.x}
        x2={of.x}
        y1={y + 3}
        y2={bottom}
        stroke={stroke}
        strokeWidth={of.kind === "now" ? 2 : 1.5}
        strokeDasharray={of.kind === "ahead" ? "4 3" : "none"}
      />
      <text
        x={of.x}
        y={y}
        textAnchor={of.anchor}
        fill={fill}
        fontWeight={of.kind === "now" ? 600 : 400}
        // Its own ground hides the line of another title.
        stroke={token("bg")}
        strokeWidth={4}
        paintOrder="stroke"
      >
        {of.title}
      </text>
    </g>
  );
}

/** The same for whoever hears the page; the tree beside it has the events by name. */
function inWords(lanes: readonly Lane[], lines: readonly Line[], nowMs: number): string {
  const parts = lanes.map((lane) => {
    const count = lane.dots.reduce((sum, dot) => sum + dot.events.length, 0);
    return `${lane.title}: ${count ? counted(count, "event") : lane.mark}`;
  });
  const ahead = lines
    .filter((line) => line.kind === "ahead" || line.kind === "since")
    .map((line) => `${line.title} ${distance(line.atMs, nowMs)}`);
  return `Time axis. ${[...parts, ...ahead].join("; ")}.`;
}

function cut(text: string, most: number): string {
  const chars = [...text];
  return chars.length <= most ? text : `${chars.slice(0, Math.max(1, Math.floor(most) - 1)).join("")}…`;
}
