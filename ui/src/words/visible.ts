/**
 * Texts from events, made safe for people, as events/visible.py does for logs and terminals.
 *
 * React shows a text as text. But whoever writes events can still show `gnp.exe` as `exe.png` with a direction
 * override, or hide characters that have no width.
 */

const UNSAFE = /(?! )[\p{C}\p{Z}]/gu;
const SHORT: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/** The text in one line: what does not print as itself is escaped, `\n`, `\x1b`, `\u202e`. */
export function visible(text: string): string {
  return text.replace(UNSAFE, (character) => SHORT[character] ?? escaped(character));
}

/** The same for a text of several lines, such as JSON: its line breaks and tabs stay. */
export function visibleLines(text: string): string {
  return text.replace(UNSAFE, (character) =>
    character === "\n" || character === "\t" ? character : escaped(character),
  );
}

function escaped(character: string): string {
  const code = character.codePointAt(0)!;
  const digits = code.toString(16);
  if (code < 0x100) return `\\x${digits.padStart(2, "0")}`;
  return code < 0x10000 ? `\\u${digits.padStart(4, "0")}` : `\\U${digits.padStart(8, "0")}`;
}
