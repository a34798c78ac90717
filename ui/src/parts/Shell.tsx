import { Box } from "@chakra-ui/react";
import type { ReactElement, ReactNode } from "react";

import { Boundary } from "./Boundary";
import { Live } from "./Live";

/** What each app of the bundle has around its view. Airflow gives it the whole place, without padding. */
export function Shell({ children }: { children: ReactNode }): ReactElement {
  return (
    // Positioned: what is hidden from sight would else make the whole window scroll.
    <Box position="relative" p={{ base: 2, md: 4 }} pb={10} minW={0} data-interlock>
      <Live>
        <Boundary>{children}</Boundary>
      </Live>
    </Box>
  );
}
