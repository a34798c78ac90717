import { createContext, useContext } from "react";

import type { Buses } from "../api/answers";

/** Which bus a view shows. */
export interface BusChoice {
  /** For requests and links: the connection's id, "" for the first one. */
  parameter: string;
  known: Buses | undefined;
}

export const BusContext = createContext<BusChoice>({ parameter: "", known: undefined });

export const useBus = (): BusChoice => useContext(BusContext);

/** The connection whose bus is shown; undefined while it is not known. */
export function connectionOf(choice: BusChoice): string | undefined {
  return choice.parameter || choice.known?.buses[0]?.conn_id;
}
