import { useCallback, useMemo } from "react";
import { useSearchParams } from "react-router-dom";

import { readState, writeState, type Shape, type State } from "./query";

type Change<S extends Shape> = (change: Partial<State<S>>, options?: { push?: boolean }) => void;

/**
 * A view's state, kept in the query string, and how to change it.
 *
 * A change replaces the address, so that typing leaves no trail; `push` adds one that Back returns from. Members
 * of `paging` return to their defaults at each change that does not name them.
 */
export function useAddress<S extends Shape>(
  shape: S,
  paging: readonly (keyof S & string)[] = [],
): [State<S>, Change<S>] {
  const [parameters, setParameters] = useSearchParams();
  const state = useMemo(() => readState(shape, parameters), [shape, parameters]);
  const change: Change<S> = useCallback(
    (what, { push = false } = {}) => {
      const reset = paging.filter((name) => !(name in what));
      // The router's own parameters are those of the last drawing: of two changes in short order it lost the first.
      const before = new URLSearchParams(globalThis.location.search);
      setParameters(writeState(shape, before, what, reset), { replace: !push });
    },
    [shape, paging, setParameters],
  );
  return [state, change];
}
