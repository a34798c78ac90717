import { Button, Stack } from "@chakra-ui/react";
import { useState, type ReactElement, type ReactNode } from "react";

import { useSay } from "../parts/Live";
import { Problem } from "../parts/Problem";
import { Window } from "../parts/Window";
import { useAction } from "./useAction";

interface AskProps {
  /** The button's text, with three dots: it asks before it does anything. */
  button: string;
  size?: "xs" | "sm";
  title: string;
  /** What will happen. */
  children: ReactNode;
  confirm: string;
  danger?: boolean;
  url: string;
  body: unknown;
  done: string;
  then: () => void;
}

/** A button that asks in a dialog, and then sends one request. */
export function Ask(props: AskProps): ReactElement {
  const { button, size = "sm", title, children, confirm, danger = false, url, body, done, then } = props;
  const [open, setOpen] = useState(false);
  const action = useAction<unknown>();
  const say = useSay();
  const run = async (): Promise<void> => {
    if ((await action.send(url, body)) === null) return;
    setOpen(false);
    say(done);
    then();
  };
  return (
    <>
      <Button size={size} variant="outline" onClick={() => setOpen(true)}>
        {button}
      </Button>
      <Window
        title={title}
        open={open}
        close={() => {
          setOpen(false);
          action.forget();
        }}
        action={{ title: confirm, run: () => void run(), busy: action.busy, danger }}
      >
        <Stack gap={3}>
          {children}
          {action.problem ? <Problem of={action.problem} title="Not done" /> : null}
        </Stack>
      </Window>
    </>
  );
}
