/** Chromium with the harness: opens a view, and says what is wrong with it. */

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

import { chromium, type Browser, type BrowserContext, type Page } from "playwright-core";
import { createServer, type ViteDevServer } from "vite";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const EXECUTABLE = process.env["CHROMIUM"] || "/usr/bin/chromium";

export interface Look {
  theme: "light" | "dark";
  width: number;
}

const ALL_LOOKS: readonly Look[] = [
  { theme: "light", width: 1280 },
  { theme: "dark", width: 1280 },
  { theme: "light", width: 390 },
  { theme: "dark", width: 390 },
];

const named = (process.env["LOOKS"] ?? "").split(" ").filter(Boolean);

/** All looks, or those that LOOKS names, such as `light-1280 dark-390`. */
export const LOOKS = named.length
  ? named.map((name) => {
      const found = ALL_LOOKS.find((each) => `${each.theme}-${each.width}` === name);
      if (found === undefined) throw new Error(`There is no look ${name}.`);
      return found;
    })
  : ALL_LOOKS;

/** `problems` collects what the console says. */
export type Opened = Page & { problems: string[] };

export class Harness {
  private readonly profiles = new Map<string, Promise<BrowserContext>>();
  private readonly visited = new Map<Look, Opened>();

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

  /**
   * A page of its own with a view, when the view has its answer.
   *
   * alone: in a profile of its own, for a test that stops the clock. atMs: in one whose clock stands still there.
   */
  async open(view: string, look: Look = ALL_LOOKS[0]!, { alone = false, atMs = 0 } = {}): Promise<Opened> {
    const context = await this.profile(look, alone || atMs > 0, atMs ? "UTC" : "Europe/Berlin");
    if (atMs) await context.clock.setFixedTime(atMs);
    const page = Object.assign(await context.newPage(), { problems: [] as string[] });
    page.on("console", (message) => {
      if (message.type() === "error" || message.type() === "warning") page.problems.push(message.text());
    });
    page.on("pageerror", (error) => page.problems.push(String(error)));
    await page.goto(`${this.base}${view}${view.includes("?") ? "&" : "?"}theme=${look.theme}`);
    await shown(page);
    return page;
  }

  /**
   * The same in the one page of this look, which goes there as by a link: loading Airflow's libraries for each
   * view would take three quarters of the time.
   */
  async visit(view: string, look: Look): Promise<Opened> {
    const page = this.visited.get(look) ?? (await this.open("plugin/interlock/waits", look));
    this.visited.set(look, page);
    await goTo(page, "/");
    await page.locator("[data-elsewhere]").waitFor();
    page.problems.length = 0;
    await goTo(page, `/${view}`);
    await shown(page);
    return page;
  }

  private profile(look: Look, alone: boolean, timezoneId: string): Promise<BrowserContext> {
    const name = alone ? "" : `${look.theme} ${look.width}`;
    const known = this.profiles.get(name);
    if (known !== undefined && !alone) return known;
    const made = this.browser.newContext({
      viewport: { width: look.width, height: 900 },
      reducedMotion: "reduce",
      timezoneId,
    });
    if (!alone) this.profiles.set(name, made);
    return made;
  }
}

const goTo = (page: Page, to: string): Promise<void> =>
  page.evaluate((path) => (globalThis as unknown as { goTo(to: string): Promise<void> }).goTo(path), to);

async function shown(page: Page): Promise<void> {
  await page.locator("[data-interlock]").waitFor();
  await page.locator('[data-interlock] [role="status"][aria-label="Reading"]').waitFor({ state: "detached" });
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
          options: { resultTypes: string[] },
        ): Promise<{ violations: { id: string; impact: string; nodes: { html: string }[] }[] }>;
      };
    };
    const { violations } = await axe.run(document.querySelector(selector), {
      resultTypes: ["violations"],
    });
    return violations
      .filter((each) => each.impact === "serious" || each.impact === "critical")
      .map((each) => `${each.id}: ${each.nodes.map((node) => node.html.slice(0, 160)).join(" ")}`);
  }, where);
}
