// Why are the requests of a service slow? A real service and a real agent: waits are ordered in the UI, and the panel
// tells what slow requests wait for.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { openPage, startBrowser } from "./browser.mjs";
import { lacking } from "./machines.mjs";
import { startService } from "./service.mjs";

const skip = lacking();
let service;
let browser;
before(async () => {
  if (skip) return;
  service = await startService();
  browser = await startBrowser();
});
after(async () => {
  await browser?.stop();
  await service?.stop();
});

test("waits are ordered in the UI, counted down, ended, and ranked", { skip }, async () => {
  await service.load(1);
  await service.told("endpoint=/lock/");
  const { page, faults } = await openPage(browser.context, `${service.url}/?q=endpoint%3D%2Flock%2F`);
  const traces = page.getByRole("list", { name: "Traces" }).getByRole("listitem");
  await traces.first().waitFor();
  await page.getByRole("combobox", { name: "Service" }).selectOption("service");
  await page.getByRole("button", { name: "Why slow" }).click();
  const panel = page.getByRole("region", { name: "Why slow" });
  await panel.getByText(/was not recorded/).waitFor();

  const form = panel.getByRole("form", { name: "Record waits" });
  await form.getByLabel("Slow from").fill("30ms");
  await form.getByLabel("For").selectOption("5m");
  await form.getByRole("button", { name: /Record what slow requests of service wait for/ }).click();
  await panel.getByText(/\d+ s left/).waitFor();
  // Another page, or this one again, knows of it, too.
  await page.reload();
  await panel.getByText(/\d+ s left/).waitFor();
  await service.load(1);
  await panel.getByRole("button", { name: "End it now" }).click();
  await panel.getByText(/wait .* longer for a lock held by thread keeper/).waitFor({ timeout: 30_000 });
  const first = panel.getByRole("table", { name: "Waits" }).getByRole("row").nth(1);
  assert.match(await first.innerText(), /\+[\d.]+ ms[\s\S]*waited for a lock held by thread keeper/);
  await page
    .getByRole("region", { name: "In which code" })
    .getByText(/slow beside/)
    .waitFor();
  if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/why.png` });

  await panel.getByRole("link", { name: "The slowest" }).click();
  await page.waitForURL("**/trace/*");
  const span = page.getByRole("complementary");
  await span
    .getByText(/held by thread keeper/)
    .first()
    .waitFor();
  await span.getByRole("link", { name: "Why requests like this are slow" }).click();
  await page.waitForURL(/why=1/);
  await panel.getByText(/longer for a lock held by thread keeper/).waitFor();
  assert.deepEqual(faults, []);
  await page.close();
});

test("a request without waits has those of requests like it recorded", { skip }, async () => {
  // The order of the test before has ended, and its last requests are told.
  await new Promise((resolve) => setTimeout(resolve, 3000));
  await service.ask("/sleep/40/7");
  await service.told("endpoint=/sleep/40");
  const { page, faults } = await openPage(browser.context, `${service.url}/?q=endpoint%3D%2Fsleep%2F40`);
  await page.getByRole("list", { name: "Traces" }).getByRole("listitem").first().click();
  await page.waitForURL("**/trace/*");
  await page.getByRole("row", { name: /sleep/ }).first().click();
  const span = page.getByRole("complementary");
  await span.getByText("What it waited for was not recorded.").waitFor();
  await span.getByRole("button", { name: "Record requests like this one" }).click();
  const form = span.getByRole("form", { name: "Record waits" });
  assert.equal(await form.getByLabel("Endpoint").inputValue(), "GET /sleep/*/*");
  await form.getByLabel("Slow from").fill("30ms");
  await form.getByLabel("For").selectOption("10s");
  await form.getByRole("button", { name: /Record what slow/ }).click();
  await span.getByText(/\d+ s left/).waitFor();
  await service.ask("/sleep/40/8");
  await span.getByText(/requests of the last hour have their waits/).waitFor({ timeout: 30_000 });
  assert.deepEqual(faults, []);
  await page.close();
});
