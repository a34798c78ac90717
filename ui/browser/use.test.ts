import { afterAll, beforeAll, expect, test } from "vitest";

import { Harness, seriousIn, type Opened } from "./browser";

const READY = `dags/daily_report/runs/${encodeURIComponent("scheduled__2026-11-20T00:00:00+00:00")}/tasks/ready/plugin/interlock-wait`;

let harness: Harness;
beforeAll(async () => {
  harness = await Harness.start();
});
afterAll(() => harness.stop());

test("each link stays below the prefix at which Airflow is served", async () => {
  const page = await harness.open("plugin/interlock/firings");
  await page.getByText("18 firings").waitFor();
  const links = await page
    .locator("[data-interlock] a")
    .evaluateAll((all) => all.map((each) => (each as HTMLAnchorElement).href));
  expect(links.length).toBeGreaterThan(50);
  expect(links.filter((link) => !link.startsWith(harness.base))).toEqual([]);
  await page.close();
});

test("filters, order and page are in the address, and Back returns to them", async () => {
  const page = await harness.open("plugin/interlock/waits");
  await page.getByLabel("Search", { exact: true }).fill("many");
  await page.waitForURL(/search=many/);
  await page.getByRole("button", { name: "Waits since" }).click();
  await page.waitForURL(/search=many.*order=oldest/);
  await page.locator("th[aria-sort=ascending]").waitFor();
  await page.getByRole("button", { name: "Next page" }).click();
  await page.waitForURL(/after=88120/);
  await page.goBack();
  await page.waitForURL((url) => !url.searchParams.has("after") && url.searchParams.get("search") === "many");
  await page.reload();
  await expect.poll(() => page.getByLabel("Search", { exact: true }).inputValue()).toBe("many");
  await page.getByRole("button", { name: "Clear filters" }).click();
  await page.waitForURL(
    (url) => !url.searchParams.has("search") && url.searchParams.get("order") === "oldest",
  );
  await page.close();
});

test("with the keyboard alone one gets to a view, a node of the graph, and a form and back", async () => {
  const page = await harness.open("plugin/interlock/waits");
  await tabTo(page, "Graph");
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/graph/);
  await page.locator("svg [role=button]").first().waitFor();
  await tabTo(page, "com.bank.rates");
  await page.keyboard.press("Enter");
  await page.waitForURL(/node=event/);
  await expect.poll(() => page.locator("svg [role=button]").count()).toBeLessThan(30);
  expect(await focused(page)).toContain("com.bank.rates");
  await page.close();

  const form = await harness.open(READY);
  await tabTo(form, "Send an event");
  await form.keyboard.press("Enter");
  await form.getByRole("dialog").waitFor();
  await expect
    .poll(() => form.evaluate(() => document.activeElement?.closest("[role=dialog]") !== null))
    .toBe(true);
  await form.keyboard.press("Escape");
  await form.getByRole("dialog").waitFor({ state: "detached" });
  await expect.poll(() => focused(form)).toContain("Send an event");
  await form.close();
});

test("the form knows the missing event, tells mistakes at their field, and sends what is right", async () => {
  const page = await harness.open(READY);
  const sent: unknown[] = [];
  page.on("request", (request) => {
    if (request.url().endsWith("/interlock-ui/emit")) sent.push(request.postDataJSON());
  });
  await page.getByRole("button", { name: "Send an event" }).click();
  const dialog = page.getByRole("dialog");
  await expect.poll(() => dialog.locator("[name=type]").inputValue()).toBe("com.bank.rates.published");
  await dialog.locator("[name=data]").fill("{");
  await dialog.getByRole("button", { name: "Send it" }).click();
  await dialog.getByText("This is not JSON").waitFor();
  expect(await page.evaluate(() => document.activeElement?.getAttribute("name"))).toBe("data");
  expect(await seriousIn(page, "[role=dialog]")).toEqual([]);
  await dialog.locator("[name=data]").fill('{"day": "20261120"}');
  await dialog.getByRole("button", { name: "Send it" }).click();
  await dialog.waitFor({ state: "detached" });
  expect(sent).toEqual([
    { bus: "kafka_default", type: "com.bank.rates.published", data: { day: "20261120" } },
  ]);
  await expect
    .poll(() => page.locator("[role=status][aria-live]").allTextContents())
    .toContain("Sent. Kafka has the event.");
  await page.close();
});

test("a refusal is shown where it was asked", async () => {
  const page = await harness.open(READY);
  await page.getByRole("button", { name: "Cancel the wait" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Cancel it" }).click();
  await page.getByRole("dialog").getByText("would register it again").waitFor();
  expect(await seriousIn(page, "[role=dialog]")).toEqual([]);
  await page.close();
});

test("who may not act sees no button for it", async () => {
  const page = await harness.open(READY.replace("/ready/", "/viewer/"));
  await page.getByText("The bus has no engine").waitFor();
  expect(await page.getByRole("button", { name: /Send an event|Cancel|Clear the task/ }).count()).toBe(0);
  await page.close();
});

test("dead letters are sent again after a look at where they would go", async () => {
  const page = await harness.open("plugin/interlock/dead-letters");
  await page.getByRole("button", { name: "Choose all shown" }).click();
  await page.getByRole("button", { name: "Send 9 records again" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("stays: only one subscription could not process it").waitFor();
  const sent = page.waitForRequest((request) => request.url().endsWith("/redrive"));
  await dialog.getByRole("button", { name: "Send 1 record" }).click();
  expect((await sent).postDataJSON()).toEqual({
    bus: "kafka_default",
    places: ["interlock-dead-letter[0]@117"],
    preview: false,
  });
  await dialog.waitFor({ state: "detached" });
  await page.close();
});

test("an answer is asked for again with its ETag, and no more when one leaves", async () => {
  const page = await harness.open(READY, undefined, { alone: true });
  const confirmed = await page.waitForResponse(
    (each) => each.url().includes("/interlock-ui/wait?") && each.status() === 304,
  );
  expect(confirmed.request().headers()["if-none-match"]).toBeTruthy();
  await page.clock.install();
  const asked: string[] = [];
  await page.getByRole("link", { name: "Airflow" }).click();
  await page.locator("[data-elsewhere]").waitFor();
  page.on("request", (request) => asked.push(request.url()));
  await page.clock.runFor(60_000);
  expect(asked.filter((url) => url.includes("/interlock-ui/"))).toEqual([]);
  await page.close();
});

test("times are of the browser's zone, with UTC as their title", async () => {
  const page = await harness.open(READY);
  const time = page.locator("[data-interlock] time").first();
  const shown = await time.textContent();
  const [title, machine] = [await time.getAttribute("title"), await time.getAttribute("datetime")];
  const berlin = new Intl.DateTimeFormat("en-GB", {
    timeZone: "Europe/Berlin",
    hour: "2-digit",
    minute: "2-digit",
  });
  expect(shown).toContain(berlin.format(new Date(machine!)));
  expect(title).toBe(
    `${new Date(machine!).toISOString().slice(0, 23).replace("T", " ").replace(".000", "")} UTC`,
  );
  await page.close();
});

const focused = (page: Opened): Promise<string> =>
  page.evaluate(() => document.activeElement?.textContent ?? "");

/** Presses Tab until a link or button with this text has the focus. */
async function tabTo(page: Opened, text: string): Promise<void> {
  for (let number = 0; number < 60; number += 1) {
    await page.keyboard.press("Tab");
    const pressable = await page.evaluate(() => document.activeElement?.matches("a, button, [role=button]"));
    if (pressable && (await focused(page)).includes(text)) return;
  }
  throw new Error(`Tab does not come to "${text}".`);
}
