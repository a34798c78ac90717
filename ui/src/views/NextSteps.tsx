import { HStack, Stack, Text } from "@chakra-ui/react";
import type { ReactElement } from "react";

import type { Next } from "../api/answers";
import { Ago, Moment } from "../parts/Moment";
import { Section } from "../parts/Section";

const WORDS: Record<string, string> = {
  expires: "The wait expires",
  timeout: "The task times out",
  retry: "Airflow tries the task again",
  fires: "It fires, unless an event comes",
  settles: "It is met, unless a match comes",
  over: "The window ends",
};

/** What comes by itself, the nearest first. */
export function NextSteps({ of }: { of: readonly Next[] }): ReactElement {
  const sorted = [...of].sort((one, other) => one.at_ms - other.at_ms);
  return (
    <Section title="What comes next">
      {sorted.length ? (
        <Stack gap={2} as="ul" listStyleType="none">
          {sorted.map((each) => (
            <HStack as="li" key={`${each.what} ${each.at_ms}`} justify="space-between" align="baseline" gap={3}>
              <Text>{WORDS[each.what] ?? each.what}</Text>
              <Text textAlign="end">
                <Ago ms={each.at_ms} />
                <Text as="span" display="block" color="fg.muted" fontSize="sm">
                  <Moment ms={each.at_ms} />
                </Text>
              </Text>
            </HStack>
          ))}
        </Stack>
      ) : (
        <Text color="fg.muted">Nothing ends it by itself: it waits until its events come.</Text>
      )}
    </Section>
  );
}
