import { Button, Code, HStack, Stack, Text } from "@chakra-ui/react";
import { useEffect, useState, type ReactElement } from "react";

import { visibleLines } from "../words/visible";
import { useSay } from "./Live";

/** A command, and a button that copies it. */
export function Copied({ what, command }: { what: string; command: string }): ReactElement {
  const [done, setDone] = useState(false);
  const say = useSay();
  useEffect(() => {
    if (!done) return undefined;
    const timer = setTimeout(() => setDone(false), 2000);
    return () => clearTimeout(timer);
  }, [done]);
  const copy = async (): Promise<void> => {
    setDone(await copied(command));
    say("Copied.");
  };
  return (
    <Stack gap={1}>
      <Text fontSize="sm" color="fg.muted">
        {what}
      </Text>
      <HStack align="start" gap={2}>
        <Code
          flex={1}
          minW={0}
          p={2}
          whiteSpace="pre-wrap"
          wordBreak="break-word"
          userSelect="all"
          variant="surface"
        >
          {visibleLines(command)}
        </Code>
        <Button
          size="xs"
          variant="outline"
          onClick={() => void copy()}
          aria-label={`Copy the command: ${what}`}
          minW="4.5rem"
        >
          {done ? "Copied" : "Copy"}
        </Button>
      </HStack>
    </Stack>
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
