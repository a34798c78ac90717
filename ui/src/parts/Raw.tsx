import { Code } from "@chakra-ui/react";
import type { ReactElement } from "react";

import { visibleLines } from "../words/visible";

/** A text as it was written, in a box that scrolls by itself if it is long. */
export function Raw({
  label,
  text,
  maxH = "22rem",
}: {
  label: string;
  text: string;
  maxH?: string;
}): ReactElement {
  return (
    <Code
      display="block"
      width="100%"
      p={3}
      whiteSpace="pre-wrap"
      overflowWrap="anywhere"
      maxH={maxH}
      overflowY="auto"
      tabIndex={0}
      role="region"
      aria-label={label}
    >
      {visibleLines(text)}
    </Code>
  );
}
