import { Link } from "@chakra-ui/react";
import type { ReactElement, ReactNode } from "react";
import { Link as RouterLink } from "react-router-dom";

/** A link to a page of Airflow or of Interlock; without an address, its text alone. */
export function To({ page, children, label }: { page: string | null; children: ReactNode; label?: string }): ReactElement {
  if (page === null) return <>{children}</>;
  return (
    <Link asChild color="fg.info" textDecoration="underline" textDecorationColor="border.emphasized" wordBreak="break-word">
      <RouterLink to={page} aria-label={label}>
        {children}
      </RouterLink>
    </Link>
  );
}
