import { Box, Progress, Skeleton, Stack, Text, VisuallyHidden } from "@chakra-ui/react";
import type { ReactElement, ReactNode } from "react";

import type { Progress as Reading } from "../api/poller";
import type { Polled } from "../api/usePolled";
import { grouped } from "../words/counted";
import { Problem } from "./Problem";

interface AnsweredProps<T> {
  of: Polled<T>;
  children: (data: T) => ReactNode;
}

/** What is known of an answer: how far it is read, a problem, its data, or that it comes. */
export function Answered<T>({ of, children }: AnsweredProps<T>): ReactElement {
  const { data, problem, progress, stale } = of;
  return (
    <Stack gap={4} minW={0}>
      {progress ? <ReadingProgress of={progress} /> : null}
      <VisuallyHidden aria-live="polite">{progress ? spokenOf(progress) : ""}</VisuallyHidden>
      {problem ? <Problem of={problem} older={data !== undefined} again={of.refresh} /> : null}
      {data !== undefined ? (
        <Box aria-busy={stale} opacity={stale ? 0.6 : 1} minW={0}>
          {children(data)}
        </Box>
      ) : problem || progress ? null : (
        <Waiting />
      )}
    </Stack>
  );
}

function ReadingProgress({ of }: { of: Reading }): ReactElement {
  const known = of.of > 0;
  return (
    <Stack gap={2} maxW="30rem">
      <Text>
        {known
          ? `Reading ${grouped(of.read)} of ${grouped(of.of)} records of the bus.`
          : "Reading the records of the bus."}{" "}
        <Text as="span" color="fg.muted">
          The first look after a while takes a moment; then answers come at once.
        </Text>
      </Text>
      <Progress.Root
        value={known ? Math.min(100, (100 * of.read) / of.of) : null}
        size="sm"
        colorPalette="brand"
      >
        <VisuallyHidden>
          <Progress.Label>Records read</Progress.Label>
        </VisuallyHidden>
        <Progress.Track>
          <Progress.Range _motionReduce={{ animation: "none", transition: "none" }} />
        </Progress.Track>
      </Progress.Root>
    </Stack>
  );
}

/** In steps of a tenth: whoever listens hears no number each second. */
function spokenOf({ read, of }: Reading): string {
  return of > 0
    ? `Reading the bus: ${10 * Math.floor((10 * Math.min(read, of)) / of)} percent.`
    : "Reading the bus.";
}

function Waiting(): ReactElement {
  return (
    <Stack gap={3} role="status" aria-label="Reading">
      <Skeleton height="1.5rem" maxW="60%" _motionReduce={{ animation: "none" }} />
      <Skeleton height="1.5rem" maxW="80%" _motionReduce={{ animation: "none" }} />
      <Skeleton height="6rem" _motionReduce={{ animation: "none" }} />
    </Stack>
  );
}
