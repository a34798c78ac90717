/** Requests to Airflow's API server, below whatever prefix it is served. */

/** A request that was not answered as asked. `status` is 0 if there was no answer at all. */
export class Refused extends Error {
  constructor(
    readonly status: number,
    readonly detail: string,
  ) {
    super(detail);
  }
}

export type Parameters = Record<string, string | number | boolean | null | undefined>;

export const ROOM = "interlock-ui";

/** The whole URL of an address relative to Airflow's own; parameters that are empty are left out. */
export function urlOf(address: string, parameters: Parameters = {}, base = document.baseURI): string {
  const url = new URL(address, base);
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== null && value !== undefined && value !== "") url.searchParams.set(name, String(value));
  }
  return url.href;
}

/** The URL of one of Interlock's routes, such as `waits`. */
export function routeUrl(route: string, parameters: Parameters = {}, base?: string): string {
  return urlOf(`${ROOM}/${route}`, parameters, base);
}

/** POST of JSON; returns the JSON that is answered. Throws Refused. */
export async function post<T>(url: string, body: unknown): Promise<T> {
  let response: Response;
  try {
    response = await fetch(url, {
      method: "POST",
      credentials: "same-origin",
      headers: { accept: "application/json", "content-type": "application/json" },
      body: JSON.stringify(body),
    });
  } catch {
    throw new Refused(
      0,
      "Airflow does not answer. Whether it did what you asked is not known: look before you repeat it.",
    );
  }
  if (!response.ok) throw await refusalOf(response);
  return (await response.json()) as T;
}

/** The refusal that a response carries, with words for whoever reads it. */
export async function refusalOf(response: Response): Promise<Refused> {
  let detail = "";
  try {
    detail = textOf(((await response.json()) as { detail?: unknown }).detail);
  } catch {
    // no JSON: a proxy's page, or nothing
  }
  return new Refused(response.status, detail || withoutWords(response.status));
}

/** The text of a `detail`: a sentence, or the list of mistakes with which FastAPI refuses a request. */
function textOf(detail: unknown): string {
  if (typeof detail === "string") return detail;
  if (Array.isArray(detail)) {
    return detail
      .map((each: { loc?: unknown[]; msg?: unknown }) => {
        const where = (each.loc ?? []).filter((part) => part !== "body" && part !== "query").join(".");
        return [where, String(each.msg ?? "")].filter(Boolean).join(": ");
      })
      .join("; ");
  }
  if (detail !== null && typeof detail === "object") return Object.values(detail).filter(isText).join(" ");
  return "";
}

const isText = (value: unknown): value is string => typeof value === "string";

function withoutWords(status: number): string {
  if (status === 401) return "You are signed out. Reload this page to sign in.";
  if (status === 403)
    return "You may not see this. Ask an administrator of Airflow for the right to read it.";
  if (status === 404)
    return "Airflow does not know this address. It may run a version of Interlock without it.";
  if (status === 502 || status === 503 || status === 504) {
    return "Airflow's API server does not answer the proxy before it. It may be starting.";
  }
  return `Airflow's API server answered with status ${status}. Its log says why.`;
}
