import { chakra, VisuallyHidden } from "@chakra-ui/react";
import type { ReactElement } from "react";

import type { Mark } from "./parts";

const WORDS: Record<Mark, string> = {
  met: "met",
  missing: "missing",
  open: "not met yet",
  unneeded: "not needed",
};

/** Met, missing or not needed: told by shape as well as by colour. */
export function MarkIcon({ of }: { of: Mark }): ReactElement {
  return (
    <>
      <chakra.svg viewBox="0 0 16 16" boxSize="1.125rem" flexShrink={0} aria-hidden mt="0.125rem">
        <title>{WORDS[of]}</title>
        {of === "met" ? (
          <>
            <circle cx="8" cy="8" r="7" fill={colour(of)} />
            <path
              d="M4.6 8.2l2.3 2.3 4.5-4.8"
              fill="none"
              stroke="var(--chakra-colors-bg)"
              strokeWidth="1.8"
            />
          </>
        ) : of === "missing" ? (
          <circle
            cx="8"
            cy="8"
            r="6.2"
            fill="none"
            stroke={colour(of)}
            strokeWidth="1.8"
            strokeDasharray="3 2.2"
          />
        ) : of === "open" ? (
          <circle cx="8" cy="8" r="6.2" fill="none" stroke={colour(of)} strokeWidth="1.5" />
        ) : (
          <path d="M3.5 8h9" stroke={colour(of)} strokeWidth="1.8" />
        )}
      </chakra.svg>
      <VisuallyHidden>{`${WORDS[of]}:`}</VisuallyHidden>
    </>
  );
}

/** The colour of a mark, as CSS. */
export function colour(of: Mark): string {
  const name = of === "met" ? "green-solid" : of === "missing" ? "orange-solid" : "fg-subtle";
  return `var(--chakra-colors-${name})`;
}
