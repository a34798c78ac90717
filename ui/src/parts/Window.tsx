import { Button, CloseButton, Dialog, Portal } from "@chakra-ui/react";
import type { ReactElement, ReactNode } from "react";

interface WindowProps {
  title: string;
  open: boolean;
  close: () => void;
  children: ReactNode;
  /** What its main button says and does; without it there is only one that closes. */
  action?:
    { title: string; run: () => void; busy: boolean; danger?: boolean; disabled?: boolean } | undefined;
  closeTitle?: string;
}

/** A dialog: what will happen, a button that does it, and one that does nothing. */
export function Window({
  title,
  open,
  close,
  children,
  action,
  closeTitle = "Leave it",
}: WindowProps): ReactElement {
  return (
    <Dialog.Root
      open={open}
      onOpenChange={(each) => {
        if (!each.open) close();
      }}
      size="md"
      scrollBehavior="inside"
      lazyMount
      unmountOnExit
    >
      <Portal>
        <Dialog.Backdrop _motionReduce={{ animation: "none" }} />
        <Dialog.Positioner px={2}>
          <Dialog.Content _motionReduce={{ animation: "none" }}>
            <Dialog.Header>
              <Dialog.Title>{title}</Dialog.Title>
            </Dialog.Header>
            <Dialog.Body>{children}</Dialog.Body>
            <Dialog.Footer flexWrap="wrap">
              <Button variant="outline" onClick={close}>
                {closeTitle}
              </Button>
              {action ? (
                <Button
                  colorPalette={action.danger ? "red" : undefined}
                  loading={action.busy}
                  disabled={action.disabled ?? false}
                  onClick={action.run}
                >
                  {action.title}
                </Button>
              ) : null}
            </Dialog.Footer>
            <Dialog.CloseTrigger asChild>
              <CloseButton size="sm" aria-label="Close" />
            </Dialog.CloseTrigger>
          </Dialog.Content>
        </Dialog.Positioner>
      </Portal>
    </Dialog.Root>
  );
}
