/** JSON with a member a line, for reading. Its texts and numbers stay as they were sent, digit by digit. */

const STEP = "  ";

/** The text indented; as it is if it is no JSON object or list. */
export function indented(text: string): string {
  try {
    const value: unknown = JSON.parse(text);
    if (value === null || typeof value !== "object") return text;
  } catch {
    return text;
  }
  // A number that JavaScript cannot hold would change if the value was written again.
  let depth = 0;
  const line = (): string => `\n${STEP.repeat(depth)}`;
  return text.replace(/"(?:[^"\\]|\\.)*"|[{[]\s*[}\]]|[{}[\],:]|\s+/g, (token) => {
    if (token[0] === '"') return token;
    if (/^\s/.test(token)) return "";
    if (token.length > 1) return token[0]! + token.at(-1)!;
    if (token === ":") return ": ";
    if (token === ",") return `,${line()}`;
    if (token === "{" || token === "[") {
      depth += 1;
      return token + line();
    }
    depth -= 1;
    return line() + token;
  });
}
