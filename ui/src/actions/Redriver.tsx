import { Box, Button, Stack, Text } from "@chakra-ui/react";
import { useState, type ReactElement } from "react";

import type { Redrive } from "../api/answers";
import { routeUrl } from "../api/client";
import { connectionOf, useBus } from "../parts/bus";
import { useSay } from "../parts/Live";
import { Problem } from "../parts/Problem";
import { Window } from "../parts/Window";
import { Words } from "../parts/Words";
import { counted } from "../words/counted";
import { visible } from "../words/visible";
import { useAction } from "./useAction";

/** A button that shows what would be sent again and where, and then sends it. */
export function Redriver({ places, then }: { places: readonly string[]; then: () => void }): ReactElement {
  const bus = connectionOf(useBus());
  const [open, setOpen] = useState(false);
  const [preview, setPreview] = useState<Redrive | null>(null);
  const looking = useAction<Redrive>();
  const sending = useAction<Redrive>();
  const say = useSay();
  const begin = async (): Promise<void> => {
    setPreview(null);
    sending.forget();
    setOpen(true);
    setPreview(await looking.send(routeUrl("redrive"), { bus, places, preview: true }));
  };
  const sendable = preview?.rows.filter((row) => !row.refused) ?? [];
  const run = async (): Promise<void> => {
    const sent = await sending.send(routeUrl("redrive"), {
      bus,
      places: sendable.map((row) => row.place),
      preview: false,
    });
    if (sent === null) return;
    setOpen(false);
    say(`Sent again: ${sent.rows.filter((row) => !row.refused).length}.`);
    then();
  };
  return (
    <>
      <Button size="xs" variant="outline" disabled={!places.length} onClick={() => void begin()}>
        Send {places.length ? counted(places.length, "record") : "the chosen records"} again…
      </Button>
      <Window
        title="Send again?"
        open={open}
        close={() => setOpen(false)}
        action={{
          title: preview ? `Send ${counted(sendable.length, "record")}` : "Send",
          run: () => void run(),
          busy: sending.busy || looking.busy,
          disabled: !sendable.length,
        }}
      >
        <Stack gap={3}>
          <Text>
            Records go unchanged to their original partition: an event reaches all subscriptions again, a
            firing its own sink alone. Mend the reason first, or they come back.
          </Text>
          {looking.problem ? <Problem of={looking.problem} /> : null}
          {preview ? <Rows of={preview} /> : null}
          {sending.problem ? <Problem of={sending.problem} title="Not sent" /> : null}
        </Stack>
      </Window>
    </>
  );
}

function Rows({ of }: { of: Redrive }): ReactElement {
  return (
    <Stack
      as="ul"
      listStyleType="none"
      gap={2}
      maxH="16rem"
      overflowY="auto"
      tabIndex={0}
      aria-label="What would be sent"
    >
      {of.rows.map((row) => (
        <Box as="li" key={row.place} fontSize="sm" wordBreak="break-word">
          {visible(row.place)}
          {row.refused ? (
            <Text color="orange.fg">
              stays: <Words of={row.refused} />
            </Text>
          ) : (
            <Text color="fg.muted">to {row.to}</Text>
          )}
        </Box>
      ))}
    </Stack>
  );
}
