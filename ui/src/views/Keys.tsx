import { Text } from "@chakra-ui/react";
import type { ReactElement } from "react";

import { viewPage } from "../address/pages";
import type { OpenKey, Wait } from "../api/answers";
import { useBus } from "../parts/bus";
import { Listing, type Column } from "../parts/Listing";
import { Moment } from "../parts/Moment";
import { Section } from "../parts/Section";
import { To } from "../parts/To";
import { grouped, listed } from "../words/counted";

/** The open keys of a durable subscription, those with the least missing first. */
export function Keys({ of }: { of: Wait }): ReactElement {
  const { parameter } = useBus();
  const name = of.subscription?.name ?? "";
  const columns: Column<OpenKey>[] = [
    {
      head: "Key",
      cell: (row) => (
        <To page={viewPage("subscription", { bus: parameter, name, key: row.key })}>
          {row.key || "(empty)"}
        </To>
      ),
    },
    { head: "Missing", cell: (row) => (row.missing.length ? listed(row.missing) : "nothing") },
    { head: "Events", numeric: true, cell: (row) => grouped(row.events) },
    {
      head: "Latest event",
      wide: true,
      cell: (row) => (row.last_ms === null ? "" : <Moment ms={row.last_ms} precision="seconds" />),
    },
  ];
  return (
    <Section
      title="Open keys"
      aside={
        of.key_count > of.keys.length ? (
          <Text fontSize="sm" color="fg.muted">
            the {of.keys.length} nearest to firing of {grouped(of.key_count)}
          </Text>
        ) : null
      }
    >
      <Listing
        label="Open keys"
        rows={of.keys}
        columns={columns}
        idOf={(row) => row.key}
        empty="No key is open."
      />
    </Section>
  );
}
