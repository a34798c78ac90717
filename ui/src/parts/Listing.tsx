import { Box, Table, Text } from "@chakra-ui/react";
import type { ReactElement, ReactNode } from "react";

import { visible } from "../words/visible";

export interface Column<T> {
  head: string;
  cell: (row: T) => ReactNode;
  /** Left out where there is little room; the first column should then say the same. */
  wide?: boolean;
  numeric?: boolean;
  /** So that long words are not broken in a column that is narrower than it has to be. */
  minW?: string;
  /** The direction in which the rows are sorted by it. */
  sorted?: "ascending" | "descending";
  /** Sorts by it, or turns the direction round. */
  sort?: () => void;
}

interface ListingProps<T> {
  label: string;
  rows: readonly T[];
  columns: readonly Column<T>[];
  idOf: (row: T) => string;
  empty: ReactNode;
}

const NARROW = "@container listing (max-width: 44rem)";

/** A table that scrolls by itself where it has no room. */
export function Listing<T>({ label, rows, columns, idOf, empty }: ListingProps<T>): ReactElement {
  if (rows.length === 0) return <Text color="fg.muted">{empty}</Text>;
  return (
    <Box containerType="inline-size" containerName="listing">
      <Box overflowX="auto" role="region" aria-label={label} tabIndex={0} borderWidth={1} borderRadius="md">
        <Table.Root size="sm" aria-label={label}>
          <Table.Header>
            <Table.Row bg="bg.subtle">
              {columns.map((column) => (
                <Table.ColumnHeader
                  key={column.head}
                  scope="col"
                  textAlign={column.numeric ? "end" : "start"}
                  aria-sort={column.sorted}
                  css={column.wide ? { [NARROW]: { display: "none" } } : {}}
                >
                  {column.sort ? <SortButton column={column} /> : column.head}
                </Table.ColumnHeader>
              ))}
            </Table.Row>
          </Table.Header>
          <Table.Body>
            {rows.map((row) => (
              <Table.Row key={idOf(row)}>
                {columns.map((column) => (
                  <Table.Cell
                    key={column.head}
                    textAlign={column.numeric ? "end" : "start"}
                    verticalAlign="top"
                    overflowWrap={column.numeric ? "normal" : "anywhere"}
                    minW={column.minW ?? "auto"}
                    css={column.wide ? { [NARROW]: { display: "none" } } : {}}
                  >
                    {shown(column.cell(row))}
                  </Table.Cell>
                ))}
              </Table.Row>
            ))}
          </Table.Body>
        </Table.Root>
      </Box>
    </Box>
  );
}

const shown = (cell: ReactNode): ReactNode => (typeof cell === "string" ? visible(cell) : cell);

function SortButton<T>({ column }: { column: Column<T> }): ReactElement {
  const arrow = column.sorted === "ascending" ? "▲" : column.sorted === "descending" ? "▼" : "↕";
  return (
    <Box as="button" onClick={column.sort} fontWeight="inherit" cursor="pointer" whiteSpace="nowrap">
      {column.head} <span aria-hidden>{arrow}</span>
    </Box>
  );
}
