import { useCallback, useEffect, useRef, useState } from "react";

import { Answers, Poller, type Known, type Watched } from "./poller";

const answers = new Answers();

const page: Watched = {
  visible: () => document.visibilityState === "visible",
  onVisible(callback) {
    const listener = () => {
      if (document.visibilityState === "visible") callback();
    };
    document.addEventListener("visibilitychange", listener);
    return () => document.removeEventListener("visibilitychange", listener);
  },
};

export interface Polled<T> extends Known<T> {
  /** True while `data` is of another address than the one that was asked for last. */
  stale: boolean;
  refresh: () => void;
}

/**
 * What is known of the answer at a URL; null asks nothing. While a new URL is read, the old answer stays.
 *
 * every: after how many ms it is asked for again, 0 for never; a function of the answer must be a constant.
 */
export function usePolled<T>(
  url: string | null,
  every: number | ((data: T | undefined) => number),
): Polled<T> {
  const [known, setKnown] = useState<{ of: string | null; what: Known<T> }>({ of: null, what: {} });
  const poller = useRef<Poller<T> | null>(null);
  useEffect(() => {
    if (url === null) return undefined;
    const tell = (what: Known<T>) =>
      setKnown((before) => {
        const nothingNew = what.data === undefined && what.problem === undefined;
        // Progress keeps the rows of the address before, if there are any.
        return { of: url, what: nothingNew && before.of !== url ? { ...before.what, ...what } : what };
      });
    const everyMs = typeof every === "function" ? every : () => every;
    poller.current = new Poller<T>(url, everyMs, tell, page, answers);
    return () => {
      poller.current?.stop();
      poller.current = null;
    };
  }, [url, every]);
  const refresh = useCallback(() => poller.current?.askNow(), []);
  return { ...known.what, stale: known.of !== url, refresh };
}
