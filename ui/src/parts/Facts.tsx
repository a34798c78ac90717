import { chakra } from "@chakra-ui/react";
import { Fragment, isValidElement, type ReactElement, type ReactNode } from "react";

import { visible } from "../words/visible";

export type Fact = readonly [name: string, value: ReactNode];

interface FactsProps {
  of: readonly Fact[];
  /** Names above their values, where there is little room. */
  narrow?: boolean;
}

const BESIDE = {
  display: "grid",
  gridTemplateColumns: "auto minmax(0, 1fr)",
  columnGap: 6,
  rowGap: 1.5,
} as const;

/** Names and values; those without a value are left out. */
export function Facts({ of, narrow = false }: FactsProps): ReactElement {
  const given = of.filter(
    ([, value]) => isValidElement(value) || typeof value === "number" || Boolean(value),
  );
  return (
    <chakra.dl fontSize="sm" {...(narrow ? {} : BESIDE)}>
      {given.map(([name, value]) => (
        <Fragment key={name}>
          <chakra.dt color="fg.muted" maxW="11rem" overflowWrap="anywhere">
            {visible(name)}
          </chakra.dt>
          <chakra.dd minW={0} overflowWrap="anywhere" mb={narrow ? 1.5 : 0}>
            {typeof value === "string" ? visible(value) : value}
          </chakra.dd>
        </Fragment>
      ))}
    </chakra.dl>
  );
}
