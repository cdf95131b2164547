// The way of real packets from one machine to another, as the page of a server shows it.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { openPage, shot, startBrowser } from "./browser.mjs";
import { lacking, startMachines } from "./machines.mjs";

const skip = lacking();
let machines;
let browser;
before(async () => {
  if (skip) return;
  machines = await startMachines();
  browser = await startBrowser();
});
after(async () => {
  await browser?.stop();
  await machines?.stop();
});

/** `6.23 ms` in µs. */
function us(text) {
  const [, value, unit] = /([\d.]+) (ns|µs|ms|s)/.exec(text);
  return Number(value) * { ns: 0.001, µs: 1, ms: 1000, s: 1e6 }[unit];
}

test("the way of packets from agent to agent shows where they waited", { skip }, async () => {
  const { page, faults } = await openPage(browser.context, `${machines.url}/packets`);
  await page.getByText("Packets of 2 agents").waitFor();
  const program =
    "filter: {protocol: tcp, port: 7050, netns: ./own}\naction: [latency, drops, count, loss]\nby: flow\nfor: 60s\n";
  await page.getByLabel("Program (YAML)").fill(program);
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.getByText("about eight seconds after it went").waitFor();

  const ways = page.getByRole("region", { name: "Way of the packets" });
  const there = ways.locator("div", { has: page.getByRole("heading", { name: "web → db" }) }).first();
  const back = ways.locator("div", { has: page.getByRole("heading", { name: "db → web" }) }).first();
  await there.waitFor({ timeout: 40_000 });
  await back.waitFor();
  // Some large messages, too.
  await page.waitForTimeout(5_000);
  const texts = await there.getByRole("listitem").allInnerTexts();
  const [send, queue, xmit, receive, tcp, ready, copied] = texts;
  assert.equal(texts.length, 7, texts.join("\n"));
  for (const [text, point, agent] of [
    [send, "send", "web"],
    [queue, "queue eth0", "web"],
    [xmit, "xmit eth0", "web"],
    [receive, "receive eth0", "db"],
    [tcp, "tcp eth0", "db"],
    [ready, "ready", "db"],
    [copied, "copied eth0", "db"],
  ]) {
    assert.match(text, new RegExp(`${point} in wsui-${agent}-\\d+ at ${agent}`));
  }
  // Between two clocks there is an error, or an upper bound; at one agent there is none.
  assert.match(receive, /^(at most [\d.]+ [µm]s|[\d.]+ [µm]s ± [\d.]+ [nµ]s)/);
  assert.doesNotMatch(queue, /±|at most/);
  // A tenth of the messages waits in the device of 20 Mbit/s.
  const tail = (text) => us(/p99 (?:at most )?(.*)/.exec(text)[1]);
  assert.ok(tail(xmit) > 1000, xmit);
  const others = [queue, tcp].map(tail);
  assert.ok(Math.max(...others) < tail(xmit), texts.join("\n"));
  assert.match((await back.getByRole("listitem").first().innerText()) ?? "", /^send in wsui-db/);
  // Nothing is lost, and what left one machine reached the other.
  const loss = page.getByRole("region", { name: "Loss" });
  const onWay = loss.getByRole("row", { name: /^web → db xmit eth0 .* receive eth0 / });
  const [, , , left, lost] = (await onWay.innerText()).split("\t");
  assert.ok(Number(left.replaceAll(",", "")) > 100, left);
  assert.equal(lost, "0", await onWay.innerText());
  const flow = page.getByRole("region", { name: "Flows" }).getByRole("row", { name: /→ 10\.215\.1\.2:7050/ });
  assert.match(await flow.innerText(), /(web, db|db, web)\t/);
  await shot(page, "fleet");

  // One that is gone is told, and what it saw stays.
  await machines.agents.db.stop("SIGKILL");
  await page.getByText("partial: db is gone").waitFor({ timeout: 20_000 });
  await there.getByText("copied eth0 in wsui-db").first().waitFor();
  await shot(page, "fleet-gone");
  await page.getByRole("button", { name: "End", exact: true }).click();
  await page.getByText("Has ended").waitFor({ timeout: 30_000 });
  assert.deepEqual(faults, []);
  await page.close();
});
