import { Link } from "@chakra-ui/react";
import type { ReactElement, ReactNode } from "react";
import { Link as RouterLink } from "react-router-dom";

import { visible } from "../words/visible";

/** A link to a page of Airflow or of Interlock; without an address, its text alone. */
export function To({
  page,
  children,
  label,
}: {
  page: string | null;
  children: ReactNode;
  label?: string;
}): ReactElement {
  const shown = typeof children === "string" ? visible(children) : children;
  if (page === null) return <>{shown}</>;
  return (
    <Link
      asChild
      color="fg.info"
      textDecoration="underline"
      textDecorationColor="border.emphasized"
      overflowWrap="anywhere"
    >
      <RouterLink to={page} aria-label={label}>
        {shown}
      </RouterLink>
    </Link>
  );
}
