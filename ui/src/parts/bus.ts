import { createContext, useContext } from "react";

import type { Bus, Buses } from "../api/answers";

/** Which bus a view shows. */
export interface BusChoice {
  /** For requests and links: the connection's id, "" for the first one. */
  parameter: string;
  known: Buses | undefined;
}

export const BusContext = createContext<BusChoice>({ parameter: "", known: undefined });

export const useBus = (): BusChoice => useContext(BusContext);

/** The bus that is shown; undefined while it is not known. */
export function busOf(choice: BusChoice): Bus | undefined {
  const known = choice.known?.buses ?? [];
  return known.find((each) => each.conn_id === choice.parameter) ?? known[0];
}

/** Whether the user may send events and dead letters on this bus. */
export function mayOperate(choice: BusChoice): boolean {
  return busOf(choice)?.may?.operate ?? choice.known?.may.operate ?? false;
}

/** The connection whose bus is shown; undefined while it is not known. */
export function connectionOf(choice: BusChoice): string | undefined {
  return choice.parameter || choice.known?.buses[0]?.conn_id;
}
