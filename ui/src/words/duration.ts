/** Durations in words: at most two units, as a person would say them. */

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

const UNITS: readonly (readonly [ms: number, name: string])[] = [
  [DAY, "d"],
  [HOUR, "h"],
  [MINUTE, "min"],
  [SECOND, "s"],
];

/** `350 ms`, `1.2 s`, `12 s`, `5 min 3 s`, `12 min`, `2 h 5 min`, `3 d 4 h`. */
export function duration(ms: number): string {
  const length = Math.abs(ms);
  if (length < SECOND) return `${Math.floor(length)} ms`;
  if (length < 10 * SECOND) return `${trimmed(Math.floor(length / 100) / 10)} s`;
  const first = UNITS.findIndex(([unit]) => length >= unit);
  const [large, largeName] = UNITS[first]!;
  const whole = `${Math.floor(length / large)} ${largeName}`;
  const below = UNITS[first + 1];
  if (!below || (large === MINUTE && length >= 10 * MINUTE)) return whole;
  const rest = Math.floor((length % large) / below[0]);
  return rest ? `${whole} ${rest} ${below[1]}` : whole;
}

const floored = (ms: number, unit: number): number => Math.floor(ms / unit) * unit;
const trimmed = (value: number): string => value.toFixed(1).replace(/\.0$/, "");

/** How far a time is from now: `in 2 h 5 min`, `5 min ago`, `now` within a second. */
export function distance(atMs: number, nowMs: number): string {
  const ms = atMs - nowMs;
  if (Math.abs(ms) < SECOND) return "now";
  const length = Math.abs(ms);
  if (ms > 0) return `in ${duration(floored(length, SECOND))}`;
  // Of the past nobody needs the seconds, which would change again and again.
  return `${duration(floored(length, length < MINUTE ? SECOND : MINUTE))} ago`;
}
