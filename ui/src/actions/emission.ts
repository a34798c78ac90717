/** The event that is written into the form, as the request that sends it. */

import type { WantedEvent } from "../api/answers";

/** What stands in the form. Extensions: one `name=value` a line. */
export interface Draft {
  type: string;
  source: string;
  subject: string;
  data: string;
  extensions: string;
}

export interface Emission {
  bus?: string;
  type: string;
  source?: string;
  subject?: string;
  data?: unknown;
  extensions?: Record<string, string>;
}

export type Mistakes = Partial<Record<keyof Draft, string>>;

export const EMPTY: Draft = { type: "", source: "", subject: "", data: "", extensions: "" };

export function draftOf(wanted: WantedEvent): Draft {
  return {
    type: wanted.type ?? "",
    source: wanted.source ?? "",
    subject: wanted.subject ?? "",
    data: wanted.data === undefined || wanted.data === null ? "" : JSON.stringify(wanted.data, null, 2),
    extensions: Object.entries(wanted.extensions ?? {})
      .map(([name, value]) => `${name}=${value}`)
      .join("\n"),
  };
}

/** The request, or what is wrong with each field. */
export function emissionOf(
  draft: Draft,
  bus: string | undefined,
): { emission: Emission } | { mistakes: Mistakes } {
  const mistakes: Mistakes = {};
  const emission: Emission = { type: draft.type.trim() };
  if (bus) emission.bus = bus;
  if (!emission.type) mistakes.type = "An event needs a type, such as com.example.rates.published.";
  if (draft.source.trim()) emission.source = draft.source.trim();
  if (draft.subject) emission.subject = draft.subject;
  if (draft.data.trim()) {
    try {
      emission.data = JSON.parse(draft.data);
    } catch (error) {
      mistakes.data = `This is not JSON: ${error instanceof Error ? error.message : String(error)}`;
    }
  }
  const extensions: Record<string, string> = {};
  for (const line of draft.extensions.split("\n").filter((each) => each.trim())) {
    const found = /^\s*([a-z0-9]{1,20})\s*=(.*)$/.exec(line);
    if (found) extensions[found[1]!] = found[2]!.trim();
    else
      mistakes.extensions = `Write "${line.trim()}" as name=value; a name has small letters and digits alone.`;
  }
  if (Object.keys(extensions).length) emission.extensions = extensions;
  return Object.keys(mistakes).length ? { mistakes } : { emission };
}
