import { useCallback, useState } from "react";

import { post, Refused } from "../api/client";
import { useSay } from "../parts/Live";

export interface Action<T> {
  busy: boolean;
  problem: Refused | null;
  /** Sends the request; returns what is answered, or null after a problem. */
  send: (url: string, body: unknown) => Promise<T | null>;
  forget: () => void;
}

/** One request that changes something, with its problem. */
export function useAction<T>(): Action<T> {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Refused | null>(null);
  const say = useSay();
  const send = useCallback(
    async (url: string, body: unknown): Promise<T | null> => {
      setBusy(true);
      setProblem(null);
      try {
        return await post<T>(url, body);
      } catch (error) {
        const found = error instanceof Refused ? error : new Refused(0, String(error));
        setProblem(found);
        say(`Not done: ${found.detail}`);
        return null;
      } finally {
        setBusy(false);
      }
    },
    [say],
  );
  return { busy, problem, send, forget: useCallback(() => setProblem(null), []) };
}
