/** Cells that several lists show of a subscription. */

import { Box, HStack, Text } from "@chakra-ui/react";
import type { ReactElement } from "react";

import { airflowPage, isMapped, runPage, viewPage, type TaskInstance } from "../address/pages";
import type { Row } from "../api/answers";
import { useBus } from "../parts/bus";
import { To } from "../parts/To";
import { listed } from "../words/counted";
import { visible } from "../words/visible";

/** The task instance or DAG that a row is of, linked to Airflow's page; without one, its name. */
export function TaskCell({ of, name }: { of: TaskInstance; name: string }): ReactElement {
  if (!of.dag_id) {
    return (
      <Text as="span" wordBreak="break-word">
        {visible(name)}
      </Text>
    );
  }
  const mapped = isMapped(of.map_index) ? ` [${of.map_index}]` : "";
  return (
    <Box minW="8rem">
      <To page={airflowPage(of)}>{of.task_id ? `${of.dag_id} / ${of.task_id}${mapped}` : of.dag_id}</To>
      {of.run_id ? (
        <Text fontSize="xs" wordBreak="break-word">
          <To page={runPage(of.dag_id, of.run_id)}>{of.run_id}</To>
        </Text>
      ) : null}
    </Box>
  );
}

function missingText({ firing, missing }: Row): string {
  if (firing === "open") return "fired; its task has not taken it yet";
  if (firing === "acked") return "fired; its task has taken it";
  if (missing === null) return "several keys";
  return missing.length ? listed(missing) : "nothing";
}

/** What is missing, linked to why. */
export function MissingCell({ of }: { of: Row }): ReactElement {
  const { parameter } = useBus();
  const why = viewPage("subscription", { bus: parameter, name: of.name });
  const text = missingText(of);
  return (
    <Box minW="7rem">
      <To page={why} label={of.firing ? `${of.name} ${text}` : `Why it waits: ${of.name}, missing ${text}`}>
        {text}
      </To>
      {of.parts ? <PartsBar met={of.parts[0]} all={of.parts[1]} /> : null}
    </Box>
  );
}

function PartsBar({ met, all }: { met: number; all: number }): ReactElement {
  return (
    <HStack gap={2} mt={1}>
      <Box width="2.5rem" height="5px" borderRadius="full" bg="bg.emphasized" overflow="hidden" aria-hidden>
        <Box height="100%" bg="green.solid" width={`${all ? (100 * met) / all : 0}%`} />
      </Box>
      <Text fontSize="xs" color="fg.muted" whiteSpace="nowrap">
        {met} of {all} met
      </Text>
    </HStack>
  );
}
