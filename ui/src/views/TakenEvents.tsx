import { Box, Stack, Text } from "@chakra-ui/react";
import type { ReactElement } from "react";

import type { Firing } from "../api/answers";
import { EventName } from "../parts/EventName";
import { Section } from "../parts/Section";
import { counted, listed } from "../words/counted";
import { visible } from "../words/visible";

const MOST = 20;

/** Which events took part in a firing, by the part that each met. */
export function TakenEvents({ of }: { of: Firing }): ReactElement {
  return (
    <Section title="Events that took part">
      <Stack gap={3}>
        {Object.entries(of.events).map(([label, events]) => (
          <Box key={label}>
            <Text fontWeight="medium" wordBreak="break-word">
              {visible(label)}
            </Text>
            <Box as="ul" listStyleType="none">
              {events.slice(0, MOST).map((event, number) => (
                <Box as="li" key={number} fontSize="sm">
                  <EventName of={event} />
                  {event.type ? (
                    <Text as="span" color="fg.muted">
                      {visible(` ${event.type}`)}
                    </Text>
                  ) : null}
                </Box>
              ))}
            </Box>
            {events.length > MOST ? (
              <Text fontSize="sm" color="fg.muted">
                and {counted(events.length - MOST, "more event")}
              </Text>
            ) : null}
          </Box>
        ))}
        {of.missing?.length ? <Text color="fg.muted">Without {visible(listed(of.missing))}.</Text> : null}
      </Stack>
    </Section>
  );
}
