/** What the graph's nodes are, in words and colours; a kind that is not known is shown by its own name. */

export interface KindLook {
  title: string;
  /** Of Chakra's palettes. */
  palette: string;
}

const KINDS: Readonly<Record<string, KindLook>> = {
  sender: { title: "sender", palette: "blue" },
  source: { title: "sender", palette: "blue" },
  job: { title: "job", palette: "blue" },
  type: { title: "event type", palette: "cyan" },
  event: { title: "event type", palette: "cyan" },
  wait: { title: "wait", palette: "purple" },
  dispatcher: { title: "dispatcher", palette: "purple" },
  subscription: { title: "subscription", palette: "purple" },
  dag: { title: "DAG", palette: "green" },
  run: { title: "run", palette: "green" },
  task: { title: "task", palette: "green" },
  asset: { title: "asset", palette: "pink" },
  sink: { title: "sink", palette: "pink" },
};

export const lookOf = (kind: string): KindLook => KINDS[kind] ?? { title: kind, palette: "gray" };
