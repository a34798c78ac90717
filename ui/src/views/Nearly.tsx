import { Box, Stack, Text } from "@chakra-ui/react";
import type { ReactElement } from "react";

import type { Explanation, NearMisses } from "../api/answers";
import { EventName } from "../parts/EventName";
import { Section } from "../parts/Section";
import { Words } from "../parts/Words";
import { counted } from "../words/counted";
import { visible } from "../words/visible";
import { leftOut, missWords } from "../words/misses";

/** The events that nearly met each missing part, with the term that refused each. */
export function Nearly({ of, texts }: { of: Explanation; texts: boolean | undefined }): ReactElement | null {
  if (!of.missing.length) return null;
  const searched = of.looked_at
    ? `${counted(of.looked_at, "event")} searched${of.complete ? "" : ", and there are more"}${of.unreadable ? `, ${of.unreadable} unreadable` : ""}`
    : "";
  return (
    <Section
      title="What nearly matched"
      aside={
        <Text fontSize="sm" color="fg.muted">
          {searched}
        </Text>
      }
    >
      {of.near_misses.length ? (
        <Stack gap={4}>
          {of.near_misses.map((each) => (
            <OfPart key={each.label} of={each} texts={texts} />
          ))}
        </Stack>
      ) : (
        <Text color="fg.muted">
          {of.looked_at ? "None of the latest events comes near." : "No events were searched."}
        </Text>
      )}
    </Section>
  );
}

function OfPart({ of, texts }: { of: NearMisses; texts: boolean | undefined }): ReactElement {
  const rest = leftOut(of);
  return (
    <Box>
      <Text fontWeight="medium" mb={1} wordBreak="break-word">
        {visible(of.label)}
        {of.errors ? (
          <Text as="span" color="fg.muted" fontWeight="normal" fontSize="sm">
            {` (${of.errors} could not be evaluated)`}
          </Text>
        ) : null}
      </Text>
      {of.misses.length ? (
        <Stack as="ul" gap={2} listStyleType="none">
          {of.misses.map((miss, number) => (
            <Box as="li" key={number} borderStartWidth={3} borderColor="orange.emphasized" ps={3}>
              <EventName of={miss.event} />
              <Text fontSize="sm" wordBreak="break-word">
                <Words of={missWords(miss, texts)} />
              </Text>
            </Box>
          ))}
        </Stack>
      ) : rest ? null : (
        <Text color="fg.muted">None of the latest events comes near.</Text>
      )}
      {rest ? (
        <Text fontSize="sm" color="fg.muted" mt={1}>
          {rest}
        </Text>
      ) : null}
    </Box>
  );
}
