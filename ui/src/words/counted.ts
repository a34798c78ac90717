/** `1 wait`, `12,345 waits`. */
export function counted(number: number, one: string, many = `${one}s`): string {
  return `${grouped(number)} ${number === 1 ? one : many}`;
}

export function grouped(number: number): string {
  return number.toLocaleString("en-US");
}

/** `a`, `a and b`, `a, b and c`, `a, b and 5 more`. */
export function listed(things: readonly string[], most = 3): string {
  if (things.length > most) return `${things.slice(0, most).join(", ")} and ${things.length - most} more`;
  if (things.length < 2) return things.join("");
  return `${things.slice(0, -1).join(", ")} and ${things.at(-1)}`;
}
