// What a person does: search → trace → span → deep link → keys → dark → a query that is wrong.
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

const rows = (page) => page.getByRole("list", { name: "Traces" }).getByRole("listitem");
/** The list, once it is the answer to what was asked last. */
const answered = (page) => page.locator('[aria-busy="false"]').getByRole("listitem").first().waitFor();
const path = (page) => {
  const url = new URL(page.url());
  return url.pathname + url.search;
};

test("search, open a trace, open a span, reload the deep link", async () => {
  const { page, faults } = await openPage(browser.context, server.url);
  await rows(page).first().waitFor();
  assert.ok((await rows(page).count()) > 20);

  await page.getByRole("combobox", { name: "Service" }).selectOption("payment");
  await page.getByRole("combobox", { name: "Status" }).selectOption("error");
  await page.waitForURL("**/?service=payment&status=error");
  await answered(page);
  const failed = rows(page).filter({ hasText: "POST /checkout" }).filter({ hasText: "errors" }).first();
  await failed.click();
  await page.waitForURL("**/trace/*");

  const grid = page.getByRole("treegrid");
  const charge = grid.getByRole("row", { name: /payment POST \/charge/ });
  await charge.waitFor();
  assert.equal(await charge.getAttribute("aria-level"), "3");
  await charge.click();
  const panel = page.getByRole("complementary");
  await panel.getByText("upstream card processor timed out").first().waitFor();
  await panel.getByText(/same bytes at two places/).waitFor();
  assert.match(path(page), /^\/trace\/[0-9a-f]{32}\?span=[0-9a-f]{16}$/);

  await page.reload();
  await panel.getByText("upstream card processor timed out").first().waitFor();
  assert.equal(await charge.getAttribute("aria-selected"), "true");

  // The trace opened at the span that matched, so that opening another one is no step of its own.
  await page.goBack();
  await rows(page).first().waitFor();
  assert.equal(path(page), "/?service=payment&status=error");
  assert.deepEqual(faults, []);
  await page.close();
});

test("the way of a request between two processes", async () => {
  const { page, faults } = await openPage(browser.context, `${server.url}/?service=catalog`);
  await answered(page);
  await rows(page).filter({ hasText: "GET /" }).first().click();
  await page.waitForURL("**/trace/*");
  const served = page.getByRole("treegrid").getByRole("row", { name: /catalog GET \/products/ });
  await served.last().click();
  const panel = page.getByRole("complementary");
  const way = panel.getByRole("list", { name: "Points of the way" }).getByRole("listitem");
  await way.nth(3).waitFor();
  assert.equal(await way.count(), 4);
  assert.match(await way.nth(1).innerText(), /↓ 9 µs[\s\S]*client-nic/);
  // The strip has a share for each hop, and they fill it.
  const strip = await panel.locator("ol").evaluate((list) => {
    const parts = [...list.previousElementSibling.children].map((part) => part.getBoundingClientRect().width);
    return { parts: parts.length, filled: parts.reduce((a, b) => a + b, 0), all: list.getBoundingClientRect().width };
  });
  assert.equal(strip.parts, 3);
  assert.ok(strip.filled > strip.all * 0.95, JSON.stringify(strip));
  assert.deepEqual(faults, []);
  await page.close();
});

test("a slow request says where its time went, and what it waited for", async () => {
  const { page, faults } = await openPage(browser.context, `${server.url}/?q=target%3D%2Fcharge`);
  await rows(page).first().waitFor();
  await rows(page).first().click();
  await page.waitForURL("**/trace/*");
  const charge = page.getByRole("treegrid").getByRole("row", { name: /payment POST \/charge/ });
  await charge.click();
  const bar = charge.locator("[data-part]");
  assert.deepEqual(await bar.evaluateAll((parts) => parts.map((part) => part.dataset.part)), [
    "on_cpu",
    "run_queue",
    "blocked",
    "children",
  ]);
  const panel = page.getByRole("complementary");
  await panel.getByText(/held by thread ledger-writer, which waited until the disk had/).waitFor();
  const line = panel.getByRole("img", { name: "Waits in the time of the span" });
  const places = await line.locator("[data-kind]").evaluateAll((marks) => marks.map((m) => m.getBoundingClientRect()));
  assert.equal(places.length, 3);
  assert.ok(places.every((place, n) => place.width >= 2 && (n === 0 || place.left >= places[n - 1].right)));
  if (process.env.SHOTS) {
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme });
      await line.scrollIntoViewIfNeeded();
      await page.screenshot({ path: `${process.env.SHOTS}/waits-${colorScheme}.png` });
    }
  }
  assert.deepEqual(faults, []);
  await page.close();
});

test("the keyboard alone", async () => {
  const { page, faults } = await openPage(browser.context, server.url);
  await rows(page).first().waitFor();
  await page.keyboard.press("/");
  await page.keyboard.type("service=catalog tap=client-process");
  await page.keyboard.press("Enter");
  await page.waitForURL(/q=service/);
  await answered(page);
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  await page.keyboard.press("k");
  await page.keyboard.press("Enter");
  const panel = page.getByRole("complementary");
  await panel.waitFor();
  assert.match(await panel.textContent(), /event loop/);
  const first = path(page);
  await page.keyboard.press("j");
  await page.waitForFunction((old) => !location.href.endsWith(old), first);
  await page.keyboard.press("Escape");
  await panel.waitFor({ state: "detached" });
  await page.keyboard.press("Home");
  const all = await page.getByRole("row").count();
  await page.keyboard.press("ArrowLeft");
  assert.equal(await page.getByRole("row").count(), 2, `of ${all} rows`);
  assert.deepEqual(faults, []);
  await page.close();
});

test("a trace of 1,201 spans: few rows exist, all can be reached", async () => {
  const { page, faults } = await openPage(browser.context, `${server.url}/?service=nightly-report`);
  await rows(page).first().click();
  const grid = page.getByRole("treegrid");
  await grid.getByRole("row", { name: /POST \/report/ }).waitFor();
  assert.equal(await grid.getAttribute("aria-rowcount"), "1202");
  assert.ok((await grid.getByRole("row").count()) < 100);
  await page.keyboard.press("End");
  await grid.getByRole("row", { name: /redis GET sales:599/ }).waitFor();

  // Drag over the middle of the overview: the axis shows that part only.
  const map = page.getByTitle(/^Drag to see/);
  const box = await map.boundingBox();
  await page.mouse.move(box.x + box.width * 0.5, box.y + 20);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.52, box.y + 20, { steps: 4 });
  await page.mouse.up();
  await page.waitForURL(/zoom=\d+-\d+/);
  await page.getByRole("button", { name: "All of the time" }).click();
  await page.waitForFunction(() => !location.search.includes("zoom"));
  assert.deepEqual(faults, []);
  await page.close();
});

test("dark is chosen, kept over a reload, and gives back to the system", async () => {
  const { page, faults } = await openPage(browser.context, server.url);
  await page.emulateMedia({ colorScheme: "light" });
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await ground();
  const button = page.getByRole("button", { name: /theme/ });
  await button.click();
  const dark = await ground();
  assert.notEqual(dark, light);
  await page.reload();
  await button.waitFor();
  assert.equal(await ground(), dark);
  await button.click();
  assert.equal(await ground(), light);
  await button.click();
  await page.emulateMedia({ colorScheme: "dark" });
  assert.equal(await ground(), dark);
  assert.deepEqual(faults, []);
  await page.close();
});

test("a query that is wrong shows which part", async () => {
  const { page, faults } = await openPage(browser.context, server.url);
  await page.getByRole("textbox", { name: "Query" }).fill("service=cart durration>10ms");
  await page.getByRole("button", { name: "Search" }).click();
  const alert = page.getByRole("alert");
  await alert.waitFor();
  assert.equal(await alert.locator("mark").textContent(), "durration");
  assert.match(await alert.textContent(), /did you mean `duration`\?/);
  assert.deepEqual(faults, []);
  await page.close();
});

test("map and status", async () => {
  const { page, faults } = await openPage(browser.context, `${server.url}/map`);
  await page.getByRole("link", { name: /^payment: / }).click();
  await page.waitForURL("**/?service=payment");
  await rows(page).first().waitFor();
  await page.getByRole("link", { name: "Status" }).click();
  await page.getByText("Details").click();
  await page.getByRole("table", { name: "join" }).getByText("late message").waitFor();
  assert.deepEqual(faults, []);
  await page.close();
});

test("an empty store says what to do; a server that is gone is said to be gone", async () => {
  const empty = await startServer(0);
  const { page } = await openPage(browser.context, empty.url);
  await page.getByText("No spans yet").waitFor();
  await empty.stop();
  await page.getByRole("button", { name: "Live" }).click();
  await page.getByText("The server does not answer").waitFor();
  await page.close();
});
