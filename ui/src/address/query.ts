/**
 * A view's state in the query string, so that its address can be sent to a colleague.
 *
 * A shape names each member with its default. Defaults are left out of the address, and other members stay in
 * it: `bus`, or what Airflow itself keeps there.
 */

export type Shape = Readonly<Record<string, string>>;
export type State<S extends Shape> = { [Name in keyof S]: string };

export function readState<S extends Shape>(shape: S, parameters: URLSearchParams): State<S> {
  const found: Record<string, string> = {};
  for (const [name, otherwise] of Object.entries(shape)) found[name] = parameters.get(name) ?? otherwise;
  return found as State<S>;
}

/** The parameters after a change. Members of `reset` return to their defaults: a page of another list is none. */
export function writeState<S extends Shape>(
  shape: S,
  parameters: URLSearchParams,
  change: Partial<State<S>>,
  reset: readonly (keyof S & string)[] = [],
): URLSearchParams {
  const next = new URLSearchParams(parameters);
  for (const name of reset) next.delete(name);
  for (const [name, value] of Object.entries(change) as [string, string | undefined][]) {
    if (value === undefined || value === shape[name]) next.delete(name);
    else next.set(name, value);
  }
  return next;
}

/** How many members of the shape, without some, differ from their defaults. */
export function changed<S extends Shape>(shape: S, state: State<S>, without: readonly string[] = []): number {
  return Object.keys(shape).filter((name) => !without.includes(name) && state[name] !== shape[name]).length;
}
