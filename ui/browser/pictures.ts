/** The pictures of docs/use/page.md and README.md, of the fixtures' own moment: `make pictures-ui`. */

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { expect, test } from "vitest";

import { WRITTEN_MS } from "../harness/moment";
import { Harness, type Look } from "./browser";

const FOLDER = join(import.meta.dirname, "../../docs/images/page");
const RUN = encodeURIComponent("scheduled__2026-11-20T00:00:00+00:00");
const tab = (task: string): string => `dags/daily_report/runs/${RUN}/tasks/${task}/plugin/interlock-wait`;
const SCALE = 1.5; // sharp on a display of two pixels a point, and still small
const MOST_BYTES = 120_000; // each is in every clone, for ever

interface Picture {
  address: string;
  theme?: Look["theme"];
  width?: number;
  /** How much of the view is shown: the rest would be more of the same. */
  height: number;
}

const PICTURES: Readonly<Record<string, Picture>> = {
  "wait-missing": { address: tab("ready"), height: 850 },
  "wait-fired": { address: tab("fired"), height: 530 },
  waits: { address: "plugin/interlock/waits", height: 780, theme: "dark" },
  sinks: { address: "plugin/interlock/durable", height: 490 },
  graph: { address: "plugin/interlock/graph", height: 800, width: 1330 },
  health: { address: "plugin/interlock/health", height: 730 },
};

test.each(Object.entries(PICTURES))(
  "%s",
  async (name, { address, height, theme = "light", width = 1180 }) => {
    process.env["NOW_MS"] = String(WRITTEN_MS);
    const harness = await Harness.start();
    mkdirSync(FOLDER, { recursive: true });
    const page = await harness.open(address, { theme, width }, { atMs: WRITTEN_MS });
    await page.setViewportSize({ width, height: 1000 });
    await page.evaluate(() => document.fonts.ready);
    const edge = await page.locator("main").boundingBox();
    const clip = { x: edge!.x, y: 0, width: width - edge!.x, height, scale: SCALE };
    const devtools = await page.context().newCDPSession(page);
    // WebP, which Playwright itself does not offer: a third of a PNG.
    const { data } = await devtools.send("Page.captureScreenshot", { format: "webp", quality: 80, clip });
    const picture = Buffer.from(data, "base64");
    writeFileSync(join(FOLDER, `${name}.webp`), picture);
    if (process.env["PNG"]) await page.screenshot({ path: join(FOLDER, `${name}.png`), clip });
    await harness.stop();
    expect(picture.length).toBeLessThan(MOST_BYTES);
  },
);
