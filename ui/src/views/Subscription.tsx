import { Stack, Text } from "@chakra-ui/react";
import type { ReactElement } from "react";

import { viewPage } from "../address/pages";
import { useAddress } from "../address/useAddress";
import type { Wait } from "../api/answers";
import { routeUrl } from "../api/client";
import { usePolled } from "../api/usePolled";
import { Answered } from "../parts/Answered";
import { useBus } from "../parts/bus";
import { To } from "../parts/To";
import { everyMs, WaitView } from "./WaitView";

const SHAPE = { name: "", key: "" } as const;

/** One subscription by its name, and one of its keys if several are open. */
export function Subscription(): ReactElement {
  const { parameter: bus } = useBus();
  const [{ name, key }] = useAddress(SHAPE);
  const polled = usePolled<Wait>(name ? routeUrl("subscription", { bus, name, key }) : null, everyMs);
  if (!name) return <Text>This address names no subscription. Choose one in the list of waits.</Text>;
  return (
    <Stack gap={3}>
      {key ? <To page={viewPage("subscription", { bus, name })}>All open keys of {name}</To> : null}
      <Answered of={polled}>{(data) => <WaitView of={data} refresh={polled.refresh} />}</Answered>
    </Stack>
  );
}
