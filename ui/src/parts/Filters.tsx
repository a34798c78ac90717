import { Button, Field, Flex, Input, NativeSelect } from "@chakra-ui/react";
import { useEffect, useRef, useState, type ReactElement, type ReactNode } from "react";

const HALF = "calc(50% - 0.375rem)"; // two in a line where there is little room
const PAUSE_MS = 300; // after the last key, before a search starts

/** The filters of a list, in one line where there is room. */
export function Filters({
  children,
  clear,
}: {
  children: ReactNode;
  clear?: (() => void) | null | undefined;
}): ReactElement {
  return (
    <Flex as="form" role="search" gap={3} wrap="wrap" align="end" onSubmit={(each) => each.preventDefault()}>
      {children}
      {clear ? (
        <Button size="sm" variant="ghost" onClick={clear}>
          Clear filters
        </Button>
      ) : null}
    </Flex>
  );
}

interface TextFilterProps {
  label: string;
  value: string;
  onChange: (value: string) => void;
  placeholder?: string;
  width?: string;
}

/** A text that is searched when nobody has typed for a moment, or at Enter. */
export function TextFilter({
  label,
  value,
  onChange,
  placeholder,
  width = "12rem",
}: TextFilterProps): ReactElement {
  const [text, setText] = useState(value);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => setText(value), [value]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const settle = (next: string): void => {
    clearTimeout(timer.current);
    if (next !== value) onChange(next);
  };
  return (
    <Field.Root width={{ base: HALF, sm: width }}>
      <Field.Label fontSize="xs" color="fg.muted">
        {label}
      </Field.Label>
      <Input
        size="sm"
        type="search"
        value={text}
        placeholder={placeholder ?? ""}
        onChange={(each) => {
          const next = each.target.value;
          setText(next);
          clearTimeout(timer.current);
          timer.current = setTimeout(() => settle(next), PAUSE_MS);
        }}
        onKeyDown={(each) => {
          if (each.key === "Enter") settle(text);
        }}
      />
    </Field.Root>
  );
}

interface ChoiceProps {
  label: string;
  value: string;
  choices: Readonly<Record<string, string>>;
  onChange: (value: string) => void;
  width?: string;
}

/** One of several values. */
export function Choice({ label, value, choices, onChange, width = "11rem" }: ChoiceProps): ReactElement {
  return (
    <Field.Root width={{ base: HALF, sm: width }}>
      <Field.Label fontSize="xs" color="fg.muted">
        {label}
      </Field.Label>
      <NativeSelect.Root size="sm">
        <NativeSelect.Field value={value} onChange={(each) => onChange(each.target.value)}>
          {Object.entries(choices).map(([name, title]) => (
            <option key={name} value={name}>
              {title}
            </option>
          ))}
        </NativeSelect.Field>
        <NativeSelect.Indicator />
      </NativeSelect.Root>
    </Field.Root>
  );
}
