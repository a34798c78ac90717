import { Box, Text } from "@chakra-ui/react";
import type { ReactElement } from "react";

import { adviceIn } from "../words/advice";
import { CopiedCommand } from "./Copied";
import { Words } from "./Words";

/** A sentence that may end with a command, which can then be copied. */
export function Advice({ of }: { of: string }): ReactElement {
  const advice = adviceIn(of);
  return (
    <Box minW={0}>
      <Text overflowWrap="anywhere">
        <Words of={advice?.words ?? of} />
      </Text>
      {advice ? <CopiedCommand command={advice.command} /> : null}
    </Box>
  );
}
