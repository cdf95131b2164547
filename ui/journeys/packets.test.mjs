// Packet programs: run, look at a part of the way, change, a wrong one, end; and the way of an edge of the map.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { openPage, shot, startBrowser, startServer } from "./browser.mjs";

let server;
let browser;
before(async () => {
  server = await startServer(60);
  browser = await startBrowser();
});
after(async () => {
  await browser?.stop();
  await server?.stop();
});

test("a program runs, is changed and ends, while its tables change", async () => {
  const { page, faults } = await openPage(browser.context, `${server.url}/packets`);
  const program = page.getByLabel("Program (YAML)");
  await program.fill("filter: {port: 8080}");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.getByText("Runs", { exact: true }).waitFor();
  const legs = page.getByRole("region", { name: "Time from place to place" });
  const packets = async () => {
    const text = await legs.getByRole("row", { name: /the whole way/ }).innerText();
    return Number(text.split("\t")[1].replaceAll(",", ""));
  };
  const first = await packets();
  await page.waitForFunction(
    (text) => !document.querySelector("tbody tr:last-child")?.innerText.includes(text),
    first.toLocaleString("en"),
  );
  assert.ok((await packets()) > first, "the tables change by themselves");
  await legs.getByRole("button", { name: "queue portb → xmit portb" }).click();
  const map = legs.getByRole("img", { name: /^queue portb → xmit portb by second/ });
  await map.waitFor();
  assert.ok((await map.locator("rect").count()) > 10);
  const lost = page.getByRole("region", { name: "Loss" }).getByRole("row", { name: /queue portb xmit portb/ });
  const [, , seen, gone] = (await lost.innerText()).split("\t").map((text) => Number(text.replaceAll(",", "")));
  assert.ok(gone > 0 && gone < seen, await lost.innerText());
  const flows = page.getByRole("region", { name: "Flows" });
  assert.match(await flows.getByRole("row").nth(1).innerText(), /tcp 10\.0\.0\.1:40001 → 10\.0\.0\.2:8080/);
  assert.equal(await flows.getByRole("row").count(), 4);
  await shot(page, "packets");

  await program.fill("filter: {port: 8081}");
  await page.getByRole("button", { name: "Change", exact: true }).click();
  await page.getByText("changed once without a gap").waitFor();
  assert.equal(await page.getByRole("button", { name: "Change", exact: true }).isDisabled(), true);
  await page.getByRole("button", { name: "End", exact: true }).click();
  await page.getByText("Has ended").waitFor();
  await page.getByRole("button", { name: "Run", exact: true }).waitFor();
  assert.deepEqual(faults, []);
  await page.close();
});

test("a service and an endpoint make the program", async () => {
  const { page, faults } = await openPage(browser.context, `${server.url}/packets?service=web`);
  await page.getByLabel("Endpoint").fill("/checkout");
  await page.waitForURL("**/packets?service=web&endpoint=%2Fcheckout");
  const program = await page.getByLabel("Program (YAML)").inputValue();
  assert.match(program, /^filter: \{service: "web", endpoint: "\/checkout"\}\n/);
  await shot(page, "packets-subject");
  assert.deepEqual(faults, []);
  await page.close();
});

test("a wrong program says which key is meant", async () => {
  const { page } = await openPage(browser.context, `${server.url}/packets`);
  await page.getByLabel("Program (YAML)").fill("filter: {prot: 8080}");
  await page.keyboard.press("Control+Enter");
  await page.getByRole("alert").getByText("did you mean `port`?").waitFor();
  await page.close();
});

test("an edge of the map shows the way of its requests, and leads to the slowest", async () => {
  const { page, faults } = await openPage(browser.context, `${server.url}/map`);
  await page
    .getByRole("button", { name: /^web → catalog, http/ })
    .locator("text")
    .first()
    .click();
  const way = page.getByRole("region", { name: "Way of its requests" });
  await way.waitFor();
  const points = way.getByRole("list", { name: "Points of the way" }).getByRole("listitem");
  assert.equal(await points.count(), 4);
  assert.match(await points.nth(1).innerText(), /↓ 9 µs[\s\S]*client-nic/);
  await way.scrollIntoViewIfNeeded();
  await shot(page, "edge-way");
  await way.getByRole("link", { name: "the slowest one" }).click();
  await page.waitForURL("**/trace/*?span=*");
  await page.getByRole("complementary").getByRole("list", { name: "Points of the way" }).waitFor();
  assert.deepEqual(faults, []);
  await page.close();
});
