import { Box } from "@chakra-ui/react";
import type { ReactElement } from "react";

import { viewPage } from "../address/pages";
import type { EventRef } from "../api/answers";
import { visible } from "../words/visible";
import { useBus } from "./bus";
import { Moment } from "./Moment";
import { To } from "./To";

/** An event by its id, source and time, linked to its own view. */
export function EventName({ of }: { of: EventRef }): ReactElement {
  const { parameter } = useBus();
  const timeMs = of.time_ms ?? of.timestamp_ms;
  return (
    <Box as="span" overflowWrap="anywhere">
      <To page={eventPage(of, parameter)}>{of.id}</To> from {visible(of.source)}
      {typeof timeMs === "number" ? (
        <>
          {" at "}
          <Moment ms={timeMs} precision="seconds" />
        </>
      ) : null}
    </Box>
  );
}

/** The view of an event; null if the place of its record is not known. */
export function eventPage(of: EventRef, bus: string): string | null {
  const { topic, partition, offset } = of;
  if (!topic || typeof partition !== "number" || typeof offset !== "number") return null;
  return viewPage("event", { bus, topic, partition, offset });
}
