import { useSyncExternalStore } from "react";

// One clock for all that is shown, so that a page is drawn once a tick and no two times differ.
const TICK_MS = 1000;
const listeners = new Set<() => void>();
let now = Date.now();
let timer: ReturnType<typeof setInterval> | undefined;

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  if (timer === undefined) now = Date.now(); // nobody has looked for a while
  timer ??= setInterval(() => {
    if (document.visibilityState !== "visible") return;
    now = Date.now();
    for (const each of listeners) each();
  }, TICK_MS);
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) {
      clearInterval(timer);
      timer = undefined;
    }
  };
}

/** The time in ms, in steps of `stepMs`: a component is drawn again when the step changes. */
export function useNow(stepMs = 1000): number {
  return useSyncExternalStore(subscribe, () => Math.floor(now / stepMs) * stepMs);
}
