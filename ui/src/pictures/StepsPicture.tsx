import { Box, chakra, HStack, Text } from "@chakra-ui/react";
import type { ReactElement } from "react";

import type { Step } from "../api/answers";
import { Moment } from "../parts/Moment";
import { duration } from "../words/duration";
import { stepsOf } from "./steps";

/** What happened at a firing: append, firing, resume, and how long each took. */
export function StepsPicture({ of }: { of: readonly Step[] }): ReactElement {
  const steps = stepsOf(of);
  return (
    <chakra.ol listStyleType="none">
      {steps.map((step, number) => (
        <chakra.li key={number} position="relative" ps={6} pb={number + 1 < steps.length ? 4 : 0}>
          {number + 1 < steps.length ? (
            <Box
              position="absolute"
              insetStart="5px"
              top="1rem"
              bottom="-0.25rem"
              borderStartWidth={2}
              borderColor="border.emphasized"
            />
          ) : null}
          <Box
            position="absolute"
            insetStart={0}
            top="0.375rem"
            boxSize="12px"
            borderRadius="full"
            bg={number + 1 < steps.length ? "bg" : "green.solid"}
            borderWidth={2}
            borderColor="green.solid"
          />
          <HStack gap={3} flexWrap="wrap" rowGap={0}>
            <Text wordBreak="break-word">{step.title}</Text>
            <Text color="fg.muted" fontSize="sm">
              <Moment ms={step.atMs} precision="milliseconds" />
            </Text>
          </HStack>
          {step.afterMs === null ? null : (
            <Text fontSize="sm" color="fg.muted">
              {duration(step.afterMs)} after
            </Text>
          )}
          {step.tookMs === null ? null : (
            <HStack gap={2}>
              <Text fontSize="sm" color="fg.muted" minW="5.5rem">
                took {duration(step.tookMs)}
              </Text>
              <Box flex={1} maxW="16rem" aria-hidden>
                <Box
                  height="6px"
                  borderRadius="full"
                  bg="green.solid"
                  width={`${Math.max(1, 100 * step.share)}%`}
                />
              </Box>
            </HStack>
          )}
        </chakra.li>
      ))}
    </chakra.ol>
  );
}
