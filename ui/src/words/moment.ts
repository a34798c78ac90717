/** Times in words: in the browser's zone as short as they are clear, and whole in UTC. */

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
// JavaScript's Date has no later or earlier time; whoever writes events chooses theirs.
const MOST_MS = 8_640_000_000_000_000;

export type Precision = "minutes" | "seconds" | "milliseconds";

interface Parts {
  year: number;
  month: number;
  day: number;
  clock: string;
}

/** `09:12` of the same day, else `20 Nov, 09:12`, with the year if it is another one. zone: the browser's. */
export function moment(atMs: number, nowMs: number, precision: Precision = "minutes", zone?: string): string {
  if (!isTime(atMs)) return `${atMs} ms`;
  const at = partsOf(atMs, precision, zone);
  const now = partsOf(isTime(nowMs) ? nowMs : atMs, precision, zone);
  if (at.year === now.year && at.month === now.month && at.day === now.day) return at.clock;
  const date = `${at.day} ${MONTHS[at.month - 1]}`;
  return `${date}${at.year === now.year ? "" : ` ${at.year}`}, ${at.clock}`;
}

/** `20 Nov`, with the year if it is another one than that of now. */
export function day(atMs: number, nowMs: number, zone?: string): string {
  const at = partsOf(atMs, "minutes", zone);
  const year = partsOf(nowMs, "minutes", zone).year;
  return `${at.day} ${MONTHS[at.month - 1]}${at.year === year ? "" : ` ${at.year}`}`;
}

/** `2026-11-20 09:12:03 UTC`, with milliseconds if it has any. */
export function utc(atMs: number): string {
  if (!isTime(atMs)) return `${atMs} ms since 1970`;
  const text = new Date(atMs).toISOString().replace("T", " ").replace("Z", "");
  return `${text.replace(/\.000$/, "")} UTC`;
}

/** RFC 3339 for `<time datetime>`; undefined for times that it cannot write. */
export function machine(atMs: number): string | undefined {
  return isTime(atMs) ? new Date(atMs).toISOString() : undefined;
}

function isTime(ms: number): boolean {
  return Number.isFinite(ms) && Math.abs(ms) <= MOST_MS;
}

const formats = new Map<string, Intl.DateTimeFormat>();

function partsOf(atMs: number, precision: Precision, zone?: string): Parts {
  const name = `${precision} ${zone ?? ""}`;
  let format = formats.get(name);
  if (!format) {
    format = new Intl.DateTimeFormat("en-GB", {
      year: "numeric",
      month: "numeric",
      day: "numeric",
      hour: "2-digit",
      minute: "2-digit",
      hourCycle: "h23",
      ...(precision === "minutes" ? {} : { second: "2-digit" }),
      ...(precision === "milliseconds" ? { fractionalSecondDigits: 3 as const } : {}),
      ...(zone === undefined ? {} : { timeZone: zone }),
    });
    formats.set(name, format);
  }
  const found: Record<string, string> = {};
  for (const part of format.formatToParts(atMs)) found[part.type] = part.value;
  const seconds = precision === "minutes" ? "" : `:${found["second"]}`;
  const fraction = precision === "milliseconds" ? `.${found["fractionalSecond"]}` : "";
  return {
    year: Number(found["year"]),
    month: Number(found["month"]),
    day: Number(found["day"]),
    clock: `${found["hour"]}:${found["minute"]}${seconds}${fraction}`,
  };
}
