import { chakra } from "@chakra-ui/react";
import type { ReactElement } from "react";

import { distance } from "../words/duration";
import { machine, moment, utc, type Precision } from "../words/moment";
import { useNow } from "./now";

interface MomentProps {
  ms: number;
  precision?: Precision;
  /** Also says how far it is from now. */
  relative?: boolean;
}

/** A time in the browser's zone, with the same time in UTC as its title. */
export function Moment({ ms, precision = "minutes", relative = false }: MomentProps): ReactElement {
  const now = useNow(relative ? 1000 : 60_000);
  return (
    <chakra.time dateTime={machine(ms)} title={utc(ms)} whiteSpace={relative ? "normal" : "nowrap"}>
      {moment(ms, now, precision)}
      {relative ? ` (${distance(ms, now)})` : ""}
    </chakra.time>
  );
}

/** How far a time is from now, with the time as its title. */
export function Ago({ ms }: { ms: number }): ReactElement {
  const now = useNow(1000);
  return (
    <chakra.time dateTime={machine(ms)} title={utc(ms)} whiteSpace="nowrap">
      {distance(ms, now)}
    </chakra.time>
  );
}
