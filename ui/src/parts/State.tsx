import { Badge } from "@chakra-ui/react";
import type { ReactElement } from "react";

// Airflow's own colours of states: purple is the square that made somebody ask.
const COLOURS: Record<string, string> = {
  waiting: "purple",
  fired: "green",
  delivered: "green",
  acked: "green",
  open: "blue",
  none: "gray",
  late: "orange",
  problem: "red",
};

/** A state as a badge: its word, in Airflow's colour. */
export function State({ of, children }: { of: string; children?: string }): ReactElement {
  return (
    <Badge colorPalette={COLOURS[of] ?? "gray"} size="sm" textTransform="none" flexShrink={0}>
      {children ?? of}
    </Badge>
  );
}
