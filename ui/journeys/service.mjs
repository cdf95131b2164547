// A service with known waits (tests/apps/waits), and an agent with a UI that traces it.
import { mkdtempSync, rmSync } from "node:fs";
import { get } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { root } from "./browser.mjs";
import { freePort, program, start } from "./machines.mjs";

const USUAL = 90;
const SLOW = 6;

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Asks until an answer comes. */
async function asked(port, path, tries = 1) {
  for (let n = 1; ; n++) {
    try {
      return await new Promise((resolve, reject) => {
        const request = get({ port, path, host: "127.0.0.1", agent: false }, (answer) => {
          answer.resume();
          answer.once("end", () => resolve(answer.statusCode));
        });
        request.once("error", reject);
      });
    } catch (error) {
      if (n >= tries) throw error;
      await pause(100);
    }
  }
}

/** Starts both. */
export async function startService() {
  const folder = mkdtempSync(join(tmpdir(), "wirespan-service-"));
  const running = [];
  const stop = async () => {
    for (const each of running.reverse()) await each.stop();
    rmSync(folder, { recursive: true, force: true });
  };
  try {
    const [port, ui] = [await freePort(), `127.0.0.1:${await freePort()}`];
    const env = { ...process.env, WAITS_DIR: folder };
    const args = [join(root, "tests/apps/waits/service.py"), "threads", String(port)];
    const service = await start("", "python3", args, { env });
    running.push(service);
    const listens = ["up", "--ui", ui, "--pid", String(service.pid)];
    running.push(await start("Ctrl-C ends", program(), listens));
    const ask = (path) => asked(port, path);
    await asked(port, "/sleep/1/first", 100);
    /** Requests that find a lock free, and some that wait for it while its holder waits for the disk. */
    const load = async (round) => {
      for (let n = 0; n < USUAL; n++) await ask(`/lock/0/${round}${n}`);
      for (let n = 0; n < SLOW; n++) {
        const keeper = ask(`/keep/90/${n}`);
        await pause(20);
        await ask(`/lock/0/${round}${n}`);
        await keeper;
      }
    };
    const url = `http://${ui}`;
    /** Waits until the agent tells traces of these conditions: a page asks once. */
    const told = async (query) => {
      for (let n = 0; n < 150; n++) {
        const found = await (await fetch(`${url}/api/v1/traces?q=${encodeURIComponent(query)}`)).json();
        if (found.traces?.length) return;
        await pause(100);
      }
      throw new Error(`no trace of ${query}`);
    };
    return { url, ask, load, told, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}
