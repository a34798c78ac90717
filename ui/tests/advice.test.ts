import { expect, test } from "vitest";

import { adviceIn } from "../src/words/advice";

test("a sentence that ends with a command is told apart from it", () => {
  expect(
    adviceIn(
      "It is stopped: retention. To resume it: airflow interlock topics resume 'a[3]' --from start|end",
    ),
  ).toEqual({
    words: "It is stopped: retention. To resume it:",
    command: "airflow interlock topics resume 'a[3]' --from start|end",
  });
  expect(
    adviceIn("The bus has no engine. Start a triggerer, or run: airflow interlock engine.")?.command,
  ).toBe("airflow interlock engine");
});

test("a sentence without a command has none", () => {
  expect(adviceIn("airflow interlock is running")).toBeNull();
  expect(adviceIn("All is well")).toBeNull();
});
