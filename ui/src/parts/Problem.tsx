import { Alert, Button } from "@chakra-ui/react";
import type { ReactElement } from "react";

import type { Refused } from "../api/client";
import { Words } from "./Words";

const TITLES: Record<number, string> = {
  0: "Airflow does not answer",
  401: "You are signed out",
  403: "You may not see this",
  404: "Not found",
};

interface ProblemProps {
  of: Refused;
  /** What was not done; without it something could not be read. */
  title?: string;
  /** An older answer is shown below it. */
  older?: boolean;
  again?: () => void;
}

/** A request that failed: what happened, and what to do. */
export function Problem({ of, title, older = false, again }: ProblemProps): ReactElement {
  return (
    <Alert.Root status={of.status === 403 || of.status === 404 ? "warning" : "error"} role="alert">
      <Alert.Indicator aria-hidden />
      <Alert.Content minW={0}>
        <Alert.Title>{title ?? TITLES[of.status] ?? "This could not be read"}</Alert.Title>
        <Alert.Description wordBreak="break-word">
          <Words of={of.detail} />
          {older ? " What you see below is what was known before." : ""}
        </Alert.Description>
      </Alert.Content>
      {of.status === 401 ? (
        <Button size="sm" variant="outline" onClick={() => globalThis.location.reload()}>
          Reload
        </Button>
      ) : again ? (
        <Button size="sm" variant="outline" onClick={again}>
          Ask again
        </Button>
      ) : null}
    </Alert.Root>
  );
}
