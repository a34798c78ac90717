import { DataList } from "@chakra-ui/react";
import { isValidElement, type ReactElement, type ReactNode } from "react";

import { visible } from "../words/visible";

export type Fact = readonly [name: string, value: ReactNode];

interface FactsProps {
  of: readonly Fact[];
  /** Names above their values, where there is little room. */
  narrow?: boolean;
}

/** Names and values; those without a value are left out. */
export function Facts({ of, narrow = false }: FactsProps): ReactElement {
  const given = of.filter(
    ([, value]) => isValidElement(value) || typeof value === "number" || Boolean(value),
  );
  return (
    <DataList.Root
      orientation={narrow ? "vertical" : { base: "vertical", sm: "horizontal" }}
      size="sm"
      gap={2}
    >
      {given.map(([name, value]) => (
        <DataList.Item key={name}>
          <DataList.ItemLabel>{visible(name)}</DataList.ItemLabel>
          <DataList.ItemValue display="block" minW={0} overflowWrap="anywhere">
            {typeof value === "string" ? visible(value) : value}
          </DataList.ItemValue>
        </DataList.Item>
      ))}
    </DataList.Root>
  );
}
