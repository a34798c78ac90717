import { Button, HStack, Text } from "@chakra-ui/react";
import type { ReactElement } from "react";

interface PagesProps {
  /** What is shown, in words. */
  shown: string;
  /** The cursor of this page; "" for the first one. */
  cursor: string;
  next: string | number | null | undefined;
  go: (cursor: string) => void;
}

/** From page to page by cursors: Back returns to the page before. */
export function Pages({ shown, cursor, next, go }: PagesProps): ReactElement {
  return (
    <HStack as="nav" aria-label="Pages" justify="space-between" flexWrap="wrap" gap={2} mt={2}>
      <Text fontSize="sm" color="fg.muted" role="status">
        {shown}
      </Text>
      <HStack>
        <Button size="xs" variant="outline" disabled={cursor === ""} onClick={() => go("")}>
          First page
        </Button>
        <Button
          size="xs"
          variant="outline"
          disabled={next === null || next === undefined || next === ""}
          onClick={() => go(String(next))}
        >
          Next page
        </Button>
      </HStack>
    </HStack>
  );
}
