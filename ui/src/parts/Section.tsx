import { Box, Heading, HStack } from "@chakra-ui/react";
import type { ReactElement, ReactNode } from "react";

interface SectionProps {
  title: string;
  /** At the end of the title's line. */
  aside?: ReactNode;
  children: ReactNode;
}

/** A part of a view under a heading. */
export function Section({ title, aside, children }: SectionProps): ReactElement {
  return (
    <Box as="section" minW={0}>
      <HStack justify="space-between" mb={2} gap={3} flexWrap="wrap">
        <Heading as="h2" size="sm">
          {title}
        </Heading>
        {aside}
      </HStack>
      {children}
    </Box>
  );
}
