// The dependency map: an edge by pointer and by keys, its spans, zoom, groups, light and dark.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { openPage, startBrowser, startServer } from "./browser.mjs";

let server;
let browser;
before(async () => {
  server = await startServer(120);
  browser = await startBrowser();
});
after(async () => {
  await browser?.stop();
  await server?.stop();
});

const edge = (page, ends) => page.getByRole("button", { name: ends });
const panel = (page) => page.getByRole("complementary", { name: "Edge" });
const box = (page) => page.getByRole("group", { name: /^Map of services/ }).getAttribute("viewBox");

test("an edge: both views, its history, its spans; the link and the back button keep it", async () => {
  const { page, faults } = await openPage(browser.context, `${server.url}/map`);
  const arrow = edge(page, /^web → payment, http/);
  await arrow.locator("text").first().click();
  await panel(page).waitFor();
  assert.equal(await arrow.getAttribute("aria-pressed"), "true");
  const rows = panel(page).getByRole("row", { name: /^calls/ });
  assert.match(await rows.textContent(), /^calls(\d+)\1$/, "both ends saw the same number");
  await panel(page)
    .getByRole("img", { name: /^calls over time, at most/ })
    .waitFor();
  await page.reload();
  await panel(page).waitFor();
  const calls = Number((await rows.textContent()).replace(/^calls(\d+)\1$/, "$1"));
  await panel(page).getByRole("link", { name: "Its spans" }).click();
  await page.waitForURL("**/?q=*&service=web&protocol=http*");
  await page.locator('[aria-busy="false"]').getByRole("listitem").first().waitFor();
  assert.ok(calls > 10);
  await page.goBack();
  await panel(page).waitFor();
  assert.deepEqual(faults, []);
  await page.close();
});

test("the keyboard alone: to an edge, open, zoom, pan, whole, close", async () => {
  const { page, faults } = await openPage(browser.context, `${server.url}/map`);
  const arrow = edge(page, /^cart → redis, redis/);
  await arrow.waitFor();
  for (let n = 0; n < 60; n += 1) {
    await page.keyboard.press("Tab");
    const name = await page.evaluate(() => document.activeElement?.getAttribute("aria-label") ?? "");
    if (/^cart → redis/.test(name)) break;
  }
  assert.ok(await arrow.evaluate((g) => g === document.activeElement), "Tab reaches the edge");
  await page.keyboard.press("Enter");
  await panel(page).waitFor();
  const whole = await box(page);
  await page.keyboard.press("+");
  await page.keyboard.press("+");
  const near = await box(page);
  assert.notEqual(near, whole);
  await page.keyboard.press("ArrowRight");
  assert.notEqual(await box(page), near);
  await page.keyboard.press("0");
  assert.equal(await box(page), whole);
  await page.keyboard.press("Escape");
  await panel(page).waitFor({ state: "detached" });
  assert.deepEqual(faults, []);
  await page.close();
});

test("groups, a drag, and a row of the table", async () => {
  const { page, faults } = await openPage(browser.context, `${server.url}/map`);
  await edge(page, /^web → payment/).waitFor();
  await page.getByRole("combobox", { name: "Show" }).selectOption("far");
  await page
    .locator("svg text")
    .filter({ hasText: /^unobserved \(\d\)/ })
    .waitFor();
  await page.getByRole("combobox", { name: "Show" }).selectOption("");
  await page.getByRole("button", { name: "Closer (+)" }).click();
  const before = await box(page);
  const svg = await page.getByRole("group", { name: /^Map of services/ }).boundingBox();
  await page.mouse.move(svg.x + svg.width * 0.5, svg.y + 8);
  await page.mouse.down();
  await page.mouse.move(svg.x + svg.width * 0.4, svg.y + 20, { steps: 5 });
  await page.mouse.up();
  assert.notEqual(await box(page), before);
  assert.equal(await panel(page).count(), 0, "a drag opens nothing");
  await page
    .getByRole("row", { name: /postgresql/ })
    .getByRole("button", { name: "Details" })
    .click();
  await panel(page).getByText("postgresql on tcp port 5432").waitFor();
  assert.deepEqual(faults, []);
  await page.close();
});

test("light and dark are both legible", async () => {
  const { page, faults } = await openPage(browser.context, `${server.url}/map`);
  await edge(page, /^web → payment/)
    .locator("text")
    .first()
    .click();
  await panel(page)
    .getByRole("img", { name: /^p95 over time/ })
    .waitFor();
  const inks = [];
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    inks.push(await page.evaluate(() => getComputedStyle(document.querySelector("svg text")).fill));
    if (process.env.SHOTS)
      await page.screenshot({ path: `${process.env.SHOTS}/map-${colorScheme}.png`, fullPage: true });
  }
  assert.notEqual(inks[0], inks[1]);
  assert.deepEqual(faults, []);
  await page.close();
});
