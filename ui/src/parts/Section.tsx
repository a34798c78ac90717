import { Box, Heading, HStack } from "@chakra-ui/react";
import { useId, type ReactElement, type ReactNode } from "react";

interface SectionProps {
  title: string;
  /** At the end of the title's line. */
  aside?: ReactNode;
  children: ReactNode;
}

/** A part of a view under a heading. */
export function Section({ title, aside, children }: SectionProps): ReactElement {
  const id = useId();
  return (
    <Box as="section" aria-labelledby={id} minW={0}>
      <HStack justify="space-between" mb={2} gap={3} flexWrap="wrap">
        <Heading as="h3" size="sm" id={id}>
          {title}
        </Heading>
        {aside}
      </HStack>
      {children}
    </Box>
  );
}
