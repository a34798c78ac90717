import { Box, Button, chakra, HStack, Text } from "@chakra-ui/react";
import { useState, type ReactElement, type ReactNode } from "react";

import type { Explained } from "../api/answers";
import { EventName } from "../parts/EventName";
import { useNow } from "../parts/now";
import { Words } from "../parts/Words";
import { counted } from "../words/counted";
import { apartWords, noteWords } from "../words/notes";
import { visible } from "../words/visible";
import { MarkIcon } from "./MarkIcon";
import { drawn, partsOf, type Part } from "./parts";

const MOST_EVENTS = 5;

// The rails: each part hangs on a line from the node above, which ends at the last one.
const RAILS = {
  listStyleType: "none",
  "& ul": { listStyleType: "none", paddingInlineStart: "1.625rem" },
  "& li": { position: "relative", paddingBlock: "0.1875rem" },
  "& ul > li::before": {
    content: '""',
    position: "absolute",
    insetInlineStart: "-1.0625rem",
    top: 0,
    bottom: 0,
    borderInlineStart: "1.5px solid var(--chakra-colors-border-emphasized)",
  },
  "& ul > li:last-of-type::before": { bottom: "auto", height: "0.9375rem" },
  "& ul > li::after": {
    content: '""',
    position: "absolute",
    insetInlineStart: "-1.0625rem",
    top: "0.9375rem",
    width: "0.75rem",
    borderTop: "1.5px solid var(--chakra-colors-border-emphasized)",
  },
};

/** A condition as a tree: which parts are met and by which events, which are missing, which are not needed. */
export function Tree({ of }: { of: Explained }): ReactElement {
  return (
    <chakra.ul css={RAILS} aria-label="Parts of the condition">
      <Node of={partsOf(of)} />
    </chakra.ul>
  );
}

function Node({ of }: { of: Part }): ReactElement {
  const [whole, setWhole] = useState(false);
  const { parts, more } = whole ? { parts: of.parts, more: 0 } : drawn(of.parts);
  return (
    <li>
      <HStack align="start" gap={2}>
        <MarkIcon of={of.mark} />
        <Box minW={0} flex={1}>
          <HStack gap={2} flexWrap="wrap" rowGap={0}>
            <Text
              as="span"
              fontWeight="medium"
              wordBreak="break-word"
              color={of.mark === "unneeded" ? "fg.muted" : "fg"}
            >
              {of.step === null ? "" : `${of.step}. `}
              {visible(of.title)}
            </Text>
            {of.count ? (
              <Text as="span" color="fg.muted" fontSize="sm">
                {of.count}
              </Text>
            ) : null}
            {of.dots ? <Dots have={of.dots.have} need={of.dots.need} /> : null}
          </HStack>
          <Details of={of} />
        </Box>
      </HStack>
      {parts.length ? (
        <ul>
          {parts.map((part) => (
            <Node key={part.id} of={part} />
          ))}
          {more ? (
            <li>
              <Button size="xs" variant="outline" onClick={() => setWhole(true)}>
                Show {counted(more, "more part")}
              </Button>
            </li>
          ) : null}
        </ul>
      ) : null}
    </li>
  );
}

function Details({ of }: { of: Part }): ReactElement {
  const now = useNow(10_000);
  const { node } = of;
  const events = node.events ?? [];
  const lines: ReactNode[] = events
    .slice(0, MOST_EVENTS)
    .map((event, number) => <EventName key={`event ${number}`} of={event} />);
  const hidden = Math.max(node.have ?? 0, events.length) - MOST_EVENTS;
  if (events.length > MOST_EVENTS && hidden > 0) lines.push(`and ${counted(hidden, "more event")}`);
  if (!of.parts.length && !events.length && of.mark === "missing" && !node.apart?.length && isMatcher(node)) {
    lines.push("nothing yet");
  }
  for (const [number, apart] of (node.apart ?? []).entries()) {
    lines.push(
      <span key={`apart ${number}`}>
        <EventName of={apart.event} /> {apartWords(apart)}
      </span>,
    );
  }
  for (const [number, note] of (node.notes ?? []).entries()) {
    lines.push(<Words key={`note ${number}`} of={noteWords(note, now)} />);
  }
  return (
    <>
      {lines.map((line, number) => (
        <Text key={number} fontSize="sm" color="fg.muted" wordBreak="break-word">
          {line}
        </Text>
      ))}
    </>
  );
}

const isMatcher = (node: Explained): boolean => node.kind === "event" || node.kind === "count";

/** How many of how many, as a row of dots; the words beside it say the same. */
function Dots({ have, need }: { have: number; need: number }): ReactElement {
  return (
    <HStack gap="3px" aria-hidden>
      {Array.from({ length: need }, (_, number) => (
        <Box
          key={number}
          boxSize="8px"
          borderRadius="full"
          borderWidth="1.5px"
          borderColor={number < have ? "green.solid" : "border.emphasized"}
          bg={number < have ? "green.solid" : "transparent"}
        />
      ))}
    </HStack>
  );
}
