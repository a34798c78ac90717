import { mkdirSync } from "node:fs";
import { join } from "node:path";

import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { Harness, LOOKS, seriousIn } from "./browser";

const RUN = encodeURIComponent("scheduled__2026-11-20T00:00:00+00:00");
const SHOTS = join(import.meta.dirname, "../.shots");
const tab = (task: string, mapped?: number): string =>
  `dags/daily_report/runs/${RUN}/tasks/${task}${mapped === undefined ? "" : `/mapped/${mapped}`}/plugin/interlock-wait`;

/** Each view, and a text that it has when it is whole. */
const VIEWS: Readonly<Record<string, readonly [address: string, text: string]>> = {
  "tab-waiting": [tab("ready"), "rates is missing"],
  "tab-viewer": [tab("viewer"), "The bus has no engine"],
  "tab-mixed": [tab("mixed"), "the beginning of the bus"],
  "tab-many": [tab("many", 3), "Show 23 more parts"],
  "tab-fired": [tab("fired"), "task resumed"],
  "tab-none": [tab("none"), "This task waits for no event"],
  "tab-hostile": [tab("hostile"), "\\u202egnp.exe"],
  "tab-reading": [tab("reading"), "Reading"],
  waits: ["plugin/interlock/waits", "11 waits"],
  "waits-many": ["plugin/interlock/waits?search=many", "50 of 99,841 waits"],
  durable: ["plugin/interlock/durable", "Not delivered for"],
  subscription: [
    "plugin/interlock/subscription?name=analytics/dispatch/customer_report",
    "the 20 nearest to firing of 1,204",
  ],
  firings: ["plugin/interlock/firings", "18 firings"],
  events: ["plugin/interlock/events", "New ones appear by themselves"],
  event: ["plugin/interlock/event?topic=interlock-event&partition=3&offset=41182", "12345678901234567890"],
  "dead-letters": ["plugin/interlock/dead-letters", "9 dead letters"],
  "dead-letter": ["plugin/interlock/dead-letter?place=interlock-dead-letter[0]@117", "Value (213 bytes)"],
  graph: ["plugin/interlock/graph", "The same as a table"],
  health: ["plugin/interlock/health", "2 problems"],
  "health-partial": ["plugin/interlock/health?bus=partial", "for who may edit the connection"],
  "health-well": ["plugin/interlock/health?bus=well", "All is well"],
};

let harness: Harness;
beforeAll(async () => {
  mkdirSync(SHOTS, { recursive: true });
  harness = await Harness.start();
});
afterAll(() => harness.stop());

describe.each(LOOKS)("$theme, $width px", (look) => {
  test.each(Object.entries(VIEWS))(
    "%s is whole, fits, can be used by everybody, and leaves no error in the console",
    async (name, [address, text]) => {
      const page = await harness.visit(address, look);
      await page.locator("[data-interlock]").getByText(text, { exact: false }).first().waitFor();
      const main = await page.locator("main").evaluate((each) => [each.scrollWidth, each.clientWidth]);
      expect(main[0]).toBeLessThanOrEqual(main[1]!);
      // Airflow's page scrolls in itself: what is hidden from sight must not make the window scroll too.
      expect(
        await page.evaluate(() => document.documentElement.scrollHeight - innerHeight),
      ).toBeLessThanOrEqual(0);
      expect(await seriousIn(page)).toEqual([]);
      expect(page.problems).toEqual([]);
      // The texts of the fixtures would set the title if one of them was taken for HTML.
      expect(await page.title()).not.toBe("owned");
      await page.screenshot({ path: join(SHOTS, `${name}-${look.theme}-${look.width}.png`) });
    },
  );
});

describe("when there is no answer", () => {
  test.each([
    ["failing", "Its log says why"],
    ["forbidden", "You may not see this"],
    ["away", "check the connection kafka_default"],
  ])("%s: it says what to do", async (task, text) => {
    const page = await harness.open(tab(task));
    await page.getByRole("alert").getByText(text).waitFor();
    expect(await seriousIn(page)).toEqual([]);
    await page.close();
  });

  test("an address without a view says so", async () => {
    const page = await harness.open("plugin/interlock/constructor");
    await page.getByText("Interlock has no view at this address").waitFor();
    await page.close();
  });
});
