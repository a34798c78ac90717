import { HStack, Stack, Text } from "@chakra-ui/react";
import type { ReactElement } from "react";

import type { Next } from "../api/answers";
import { Ago, Moment } from "../parts/Moment";
import { visible } from "../words/visible";

const WORDS: Record<string, string> = {
  expires: "The wait expires",
  timeout: "The task times out",
  retry: "Airflow tries the task again",
  fires: "It fires, unless an event comes",
  settles: "It is met, unless a match comes",
  over: "The window ends",
};

interface NextStepsProps {
  of: readonly Next[];
  /** It is a wait, which usually ends some time; a durable subscription stays. */
  ends: boolean;
}

/** What comes by itself, the nearest first. */
export function NextSteps({ of, ends }: NextStepsProps): ReactElement {
  const sorted = [...of].sort((one, other) => one.at_ms - other.at_ms);
  if (!sorted.length) {
    return (
      <Text color="fg.muted" fontSize="sm">
        {ends ? "Nothing ends it by itself: it waits until its events come." : "Nothing comes by itself."}
      </Text>
    );
  }
  return (
    <Stack as="ul" gap={1} listStyleType="none" mt={1}>
      {sorted.map((each) => (
        <HStack as="li" key={`${each.what} ${each.at_ms}`} align="baseline" gap={2} flexWrap="wrap">
          <Text>{visible(WORDS[each.what] ?? each.what)}</Text>
          <Text fontWeight="medium">
            <Ago ms={each.at_ms} />
          </Text>
          <Text color="fg.muted" fontSize="sm">
            at <Moment ms={each.at_ms} />
          </Text>
        </HStack>
      ))}
    </Stack>
  );
}
