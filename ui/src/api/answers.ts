/**
 * The JSON that the routes of plugin/page answer with: docs/understand/page.md is the contract.
 *
 * Times are milliseconds since the epoch. Members with `?` may be left out; the views do without them.
 * Texts in them are data of whoever writes events: they are shown as text alone.
 */

export interface Buses {
  buses: Bus[];
  may: { operate: boolean };
}

export interface Bus {
  conn_id: string;
  bus: string;
  cluster: string;
  deployment: string;
  may?: { operate: boolean };
  /** Why its connection cannot be used. */
  error?: string;
}

export type Kind = "one-shot" | "durable";

/** A subscription. `missing` and `parts` are null if it has fired, and if it has several open keys. */
export interface Row {
  name: string;
  kind: Kind;
  dag_id: string | null;
  run_id: string | null;
  task_id: string | null;
  map_index: number | null;
  key: string | null;
  since_ms: number | null;
  registered_ms: number | null;
  labels: string[];
  /** The state of its firing, if it is a wait that fired. acked: taken, and about to be removed. */
  firing: "open" | "acked" | null;
  missing: string[] | null;
  parts: [met: number, all: number] | null;
  held_by: string[];
  delivers_to: string | null;
  open_keys: number | null;
  open_firings: number | null;
  /** Of a dispatcher: firings whose run could not be created, and runs of its target under way. */
  held?: number | null;
  in_flight?: number | null;
  oldest_since_ms?: number | null;
  expires_ms?: number | null;
}

export interface Rows<T> {
  rows: T[];
  next?: string | number | null;
  total?: number | null;
}

export interface EventRef {
  id: string;
  source: string;
  type?: string | null;
  subject?: string | null;
  time_ms?: number | null;
  topic?: string | null;
  partition?: number | null;
  offset?: number | null;
  timestamp_ms?: number | null;
}

export interface BusEvent extends EventRef {
  datacontenttype?: string | null;
  extensions?: Record<string, string>;
  /** As it was sent. Withheld from whoever may not see it. */
  data?: string | null;
  data_bytes?: number;
}

export interface Events extends Rows<BusEvent> {
  unreadable?: number;
  /** How many of the latest events were looked at, and whether these are all since the time asked for. */
  looked_at?: number;
  complete?: boolean;
  may?: { read_texts: boolean };
}

/** What an event met and nearly met. */
export interface EventReport {
  event: BusEvent;
  met: (Pick<Row, "name"> & Partial<Row>)[];
  /** How many more it met. */
  left_out?: number;
  nearly: { subscription: string; label: string; because: string }[];
  subscriptions?: Compared;
}

/** How many subscriptions were looked at, of how many. */
export interface Compared {
  shown: number;
  all: number;
}

export interface Firing {
  id: string;
  name: string;
  kind: Kind;
  dag_id: string | null;
  run_id: string | null;
  task_id: string | null;
  map_index: number | null;
  key: string | null;
  outcome: string;
  fired_ms: number;
  state: "open" | "acked";
  events: Record<string, EventRef[]>;
  /** How many more events took part. */
  left_out?: number;
  missing?: string[] | null;
  target: { dag_id: string; run_id: string | null } | null;
  /** Whether the user may discard it. */
  may_skip?: boolean;
}

/** Of conditions/explanation: an Explanation.to_json(). */
export interface Explanation {
  v: number;
  now_ms: number;
  key?: string;
  due_ms?: number;
  met: boolean;
  missing: string[];
  dropped: number;
  waiting: { count: number; until_ms?: number; events: EventRef[] };
  tree: Explained;
  near_misses: NearMisses[];
  looked_at: number;
  complete: boolean;
  unreadable: number;
}

export interface Explained {
  kind: string;
  title: string;
  met: boolean;
  needed: boolean;
  have?: number;
  need?: number;
  held?: number;
  labels?: string[];
  events?: EventRef[];
  apart?: Apart[];
  notes?: Note[];
  of?: Explained[];
}

export interface Apart {
  event: EventRef;
  why: string;
  by_ms?: number;
}

export interface Note {
  what: string;
  at_ms?: number;
  from_ms?: number;
  by_ms?: number;
  label?: string;
  number?: number;
  text?: string;
}

export interface NearMisses {
  label: string;
  misses: NearMiss[];
  errors: number;
  other_keys: number;
  counted: number;
}

export interface NearMiss {
  event: EventRef;
  why: string;
  refused: number;
  terms: number;
  term?: string;
  attribute?: string;
  value?: string;
  error?: string;
  key?: string;
  raw?: string;
  wanted?: string;
  difference?: string;
  data?: string;
  held_for?: string;
  firing?: string;
  refuted_ms?: number;
  refuted_by?: string;
}

export interface OpenKey {
  key: string;
  events: number;
  missing: string[];
  last_ms: number | null;
}

export interface Next {
  what: string;
  at_ms: number;
  label?: string | null;
}

export interface Step {
  what: string;
  label?: string | null;
  at_ms: number;
  took_ms?: number | null;
}

export interface Command {
  what: string;
  command: string;
}

/** What an event must be to meet a part: fills in the form that sends it. */
export interface WantedEvent {
  label: string;
  type?: string | null;
  source?: string | null;
  subject?: string | null;
  data?: unknown;
  extensions?: Record<string, string>;
}

export interface Wait {
  state: "waiting" | "fired" | "delivered" | "none";
  words: string[];
  subscription: Row | null;
  condition: string | null;
  explanation: Explanation | null;
  keys: OpenKey[];
  key_count: number;
  notes: string[];
  next: Next[];
  firing: Firing | null;
  steps: Step[];
  commands: Command[];
  may: { cancel: boolean; emit: boolean; clear?: boolean; read_texts?: boolean };
  wanted?: WantedEvent[];
}

export interface DeadLetter {
  place: string;
  time_ms: number;
  stage: string;
  reason: string;
  origin?: string | null;
  attempts?: number | null;
  type?: string | null;
  id?: string | null;
  subscription?: string | null;
  sink?: string | null;
  redriven_ms?: number | null;
  /** Of `/dead-letter`, for who may see it. */
  content?: DeadLetterContent | null;
}

export interface DeadLetterContent {
  key?: string | null;
  value?: string | null;
  value_bytes?: number | null;
  headers?: Record<string, string>;
}

export interface Redrive {
  rows: { place: string; to: string | null; refused?: string | null }[];
}

export interface Graph {
  nodes: GraphNode[];
  edges: GraphEdge[];
  /** How many nodes are not among them, because there are too many. */
  left_out?: number;
  subscriptions?: Compared;
}

export interface GraphNode {
  id: string;
  kind: string;
  title: string;
  dag_id?: string | null;
  /** How many waits it stands for. */
  waits?: number;
  /** True, or what is late, as a sentence. */
  late: boolean | string;
}

export interface GraphEdge {
  from: string;
  to: string;
  title: string;
}

/** What `airflow interlock health --output json` prints. */
export interface Health {
  ok: boolean;
  /** Only how many problems there are: the rest is for who may edit the connection. */
  partial?: boolean;
  bus?: string;
  cluster?: string;
  problems: string[];
  engines?: { engine: string; host: string; partitions: number }[];
  partitions?: HealthPartition[];
  registrations?: {
    one_shot?: number;
    durable?: number;
    oldest?: string | null;
    oldest_since?: string | null;
  };
  deliveries?: { deployment: string; sinks: number; deliverers: number | null; behind: number | null }[];
  sinks?: HealthSink[];
  dead_letters?: { open: number; redriven: number; complete: boolean } | null;
  dead_letters_at_most?: number | null;
}

export interface HealthPartition {
  topic: string;
  partition: number;
  low: number;
  committed: number | null;
  end: number;
  lag: number | null;
  above_low: number | null;
  engine: string | null;
  tries: number;
  state: string;
}

export interface HealthSink {
  subscription: string;
  delivers_to: string;
  open_firings: number | null;
  oldest_firing: string | null;
  oldest_since: string | null;
  oldest_age_s: number | null;
}
