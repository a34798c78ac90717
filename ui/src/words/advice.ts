/** The command with which a sentence ends: `To resume it: airflow interlock topics resume ...`. */

const COMMAND = /^([^]*?[:,])\s+(airflow interlock [^\n]+?)\.?$/;

/** The sentence without the command, and the command; null if it ends with none. */
export function adviceIn(text: string): { words: string; command: string } | null {
  const found = COMMAND.exec(text);
  return found ? { words: found[1]!, command: found[2]! } : null;
}
