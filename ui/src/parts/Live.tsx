import { VisuallyHidden } from "@chakra-ui/react";
import { createContext, useCallback, useContext, useState, type ReactElement, type ReactNode } from "react";

const Say = createContext<(text: string) => void>(() => undefined);

/** Says a sentence to whoever listens instead of looking. */
export const useSay = (): ((text: string) => void) => useContext(Say);

/** The place where sentences are said. */
export function Live({ children }: { children: ReactNode }): ReactElement {
  const [said, setSaid] = useState({ text: "", times: 0 });
  const say = useCallback((text: string) => setSaid((before) => ({ text, times: before.times + 1 })), []);
  return (
    <Say value={say}>
      {children}
      <VisuallyHidden role="status" aria-live="polite">
        <span key={said.times}>{said.text}</span>
      </VisuallyHidden>
    </Say>
  );
}
