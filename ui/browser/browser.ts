/** Chromium with the harness: opens a view, and says what is wrong with it. */

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

import { chromium, type Browser, type Page } from "playwright-core";
import { createServer, type ViteDevServer } from "vite";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const EXECUTABLE = process.env["CHROMIUM"] ?? "/usr/bin/chromium";

export interface Look {
  theme: "light" | "dark";
  width: number;
}

export const LOOKS: readonly Look[] = [
  { theme: "light", width: 1280 },
  { theme: "dark", width: 1280 },
  { theme: "light", width: 390 },
  { theme: "dark", width: 390 },
];

export class Harness {
  private constructor(
    private readonly server: ViteDevServer,
    private readonly browser: Browser,
    readonly base: string,
  ) {}

  static async start(): Promise<Harness> {
    const server = await createServer({
      configFile: join(import.meta.dirname, "../harness/vite.config.ts"),
      server: { port: 0, strictPort: false },
      logLevel: "error",
    });
    await server.listen();
    const browser = await chromium.launch({ executablePath: EXECUTABLE, args: ["--no-sandbox"] });
    const base = server.resolvedUrls!.local[0]!;
    const harness = new Harness(server, browser, base);
    // Vite bundles React and Chakra at the first request, and reloads the page when it has.
    const page = await harness.open("plugin/interlock/waits");
    await page.close();
    return harness;
  }

  async stop(): Promise<void> {
    await this.browser.close();
    await this.server.close();
  }

  /** A page with a view, when the view has its answer. `problems` of it collects what the console says. */
  async open(view: string, look: Look = LOOKS[0]!): Promise<Page & { problems: string[] }> {
    const context = await this.browser.newContext({
      viewport: { width: look.width, height: 900 },
      reducedMotion: "reduce",
      timezoneId: "Europe/Berlin",
    });
    const page = Object.assign(await context.newPage(), { problems: [] as string[] });
    page.on("console", (message) => {
      if (message.type() === "error" || message.type() === "warning") page.problems.push(message.text());
    });
    page.on("pageerror", (error) => page.problems.push(String(error)));
    page.on("close", () => void context.close().catch(() => undefined)); // the browser may be gone first
    await page.goto(`${this.base}${view}${view.includes("?") ? "&" : "?"}theme=${look.theme}`);
    await page.locator("[data-interlock]").waitFor();
    await page
      .locator('[data-interlock] [role="status"][aria-label="Reading"]')
      .waitFor({ state: "detached" });
    return page;
  }
}

/** What axe-core finds serious, in one line each. */
export async function seriousIn(page: Page, where = "[data-interlock]"): Promise<string[]> {
  await page.mouse.move(0, 0); // a button below it has another colour
  await page.evaluate(AXE);
  return page.evaluate(async (selector) => {
    const { axe } = globalThis as unknown as {
      axe: {
        run(
          where: Element | null,
        ): Promise<{ violations: { id: string; impact: string; nodes: { html: string }[] }[] }>;
      };
    };
    const { violations } = await axe.run(document.querySelector(selector));
    return violations
      .filter((each) => each.impact === "serious" || each.impact === "critical")
      .map((each) => `${each.id}: ${each.nodes.map((node) => node.html.slice(0, 160)).join(" ")}`);
  }, where);
}
