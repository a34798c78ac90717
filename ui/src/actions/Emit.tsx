import { Button, Field, Input, NativeSelect, Stack, Text, Textarea } from "@chakra-ui/react";
import { useRef, useState, type ReactElement } from "react";

import type { WantedEvent } from "../api/answers";
import { routeUrl } from "../api/client";
import { useSay } from "../parts/Live";
import { Problem } from "../parts/Problem";
import { Window } from "../parts/Window";
import { draftOf, EMPTY, emissionOf, type Draft, type Mistakes } from "./emission";
import { useAction } from "./useAction";

interface EmitProps {
  bus: string | undefined;
  wanted: readonly WantedEvent[];
  then: () => void;
}

const FIELDS: readonly { name: keyof Draft; label: string; help: string; long?: boolean }[] = [
  { name: "type", label: "Type", help: "as the condition names it" },
  { name: "source", label: "Source", help: "who sends it; empty: this page" },
  { name: "subject", label: "Subject", help: "what it is about; may be empty" },
  { name: "data", label: "Data", help: "JSON, with the member from which the key is read", long: true },
  { name: "extensions", label: "Extensions", help: "one name=value a line; may be empty", long: true },
];

/** A button that opens a form, which sends an event by hand: every condition on the bus sees it. */
export function Emit({ bus, wanted, then }: EmitProps): ReactElement {
  const [open, setOpen] = useState(false);
  const [draft, setDraft] = useState<Draft>(EMPTY);
  const [mistakes, setMistakes] = useState<Mistakes>({});
  const action = useAction<unknown>();
  const say = useSay();
  const form = useRef<HTMLDivElement>(null);
  const begin = (): void => {
    setDraft(wanted[0] ? draftOf(wanted[0]) : EMPTY);
    setMistakes({});
    action.forget();
    setOpen(true);
  };
  const run = async (): Promise<void> => {
    const found = emissionOf(draft, bus);
    if ("mistakes" in found) {
      setMistakes(found.mistakes);
      const [first] = Object.keys(found.mistakes);
      form.current?.querySelector<HTMLElement>(`[name=${first}]`)?.focus();
      return;
    }
    setMistakes({});
    if ((await action.send(routeUrl("emit"), found.emission)) === null) return;
    setOpen(false);
    say("Sent. Kafka has the event.");
    then();
  };
  return (
    <>
      <Button size="sm" variant="outline" onClick={begin}>
        Send an event…
      </Button>
      <Window
        title="Send an event by hand"
        open={open}
        close={() => setOpen(false)}
        action={{ title: "Send it", run: () => void run(), busy: action.busy }}
      >
        <Stack gap={3} ref={form}>
          <Text>Every wait and dispatcher on this bus sees the event, and it cannot be taken back.</Text>
          {wanted.length > 1 ? (
            <Field.Root>
              <Field.Label>For the part</Field.Label>
              <NativeSelect.Root>
                <NativeSelect.Field
                  onChange={(each) => setDraft(draftOf(wanted[Number(each.target.value)]!))}
                >
                  {wanted.map((each, number) => (
                    <option key={each.label} value={number}>
                      {each.label}
                    </option>
                  ))}
                </NativeSelect.Field>
                <NativeSelect.Indicator />
              </NativeSelect.Root>
            </Field.Root>
          ) : null}
          {FIELDS.map(({ name, label, help, long = false }) => {
            const value = draft[name];
            const onChange = (each: { target: { value: string } }): void =>
              setDraft((before) => ({ ...before, [name]: each.target.value }));
            return (
              <Field.Root key={name} invalid={mistakes[name] !== undefined} required={name === "type"}>
                <Field.Label>
                  {label}
                  <Field.RequiredIndicator />
                </Field.Label>
                <Field.ErrorText color="red.fg">{mistakes[name]}</Field.ErrorText>
                {long ? (
                  <Textarea
                    name={name}
                    rows={name === "data" ? 5 : 2}
                    fontFamily="mono"
                    value={value}
                    onChange={onChange}
                  />
                ) : (
                  <Input name={name} value={value} onChange={onChange} />
                )}
                <Field.HelperText>{help}</Field.HelperText>
              </Field.Root>
            );
          })}
          {action.problem ? <Problem of={action.problem} title="Not sent" /> : null}
        </Stack>
      </Window>
    </>
  );
}
