import { Button, Code, HStack, Stack, Text } from "@chakra-ui/react";
import { useEffect, useState, type ReactElement } from "react";

import { visible, visibleLines } from "../words/visible";
import { useSay } from "./Live";

const DONE_MS = 2000;

/** What a command does, the command, and a button that copies it. */
export function Copied({ what, command }: { what: string; command: string }): ReactElement {
  return (
    <Stack gap={1}>
      <Text fontSize="sm" color="fg.muted">
        {visible(what)}
      </Text>
      <CopiedCommand command={command} />
    </Stack>
  );
}

/** A command, and a button that copies it. */
export function CopiedCommand({ command }: { command: string }): ReactElement {
  const [done, setDone] = useState(false);
  const say = useSay();
  useEffect(() => {
    if (!done) return undefined;
    const timer = setTimeout(() => setDone(false), DONE_MS);
    return () => clearTimeout(timer);
  }, [done]);
  const copy = async (): Promise<void> => {
    const taken = await copied(command);
    setDone(taken);
    say(taken ? "Copied." : "This browser does not let the page copy. Mark the command, and copy it.");
  };
  return (
    <HStack align="start" gap={2}>
      <Code
        flex={1}
        minW={0}
        p={2}
        whiteSpace="pre-wrap"
        overflowWrap="anywhere"
        userSelect="all"
        variant="surface"
        colorPalette="gray"
      >
        {visibleLines(command)}
      </Code>
      <Button
        size="xs"
        variant="outline"
        bg="bg"
        onClick={() => void copy()}
        aria-label={`${done ? "Copied" : "Copy"}: ${visible(command)}`}
        minW="4.5rem"
      >
        {done ? "Copied" : "Copy"}
      </Button>
    </HStack>
  );
}

/** Copies a text; where a page without TLS has no clipboard, through a field. */
async function copied(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = document.createElement("textarea");
    field.value = text;
    field.style.position = "fixed";
    field.style.opacity = "0";
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    return done;
  }
}
