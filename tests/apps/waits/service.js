// A service of one thread, whose requests wait in known ways. It says how long each wait was: one JSON line for each
// request on standard output.
//
// usage: node --expose-gc service.js PORT LEAF_PORT DIR
//
// Paths are /WHAT/MS/ID, as of service.c. `event` waits for another thread as a lock does, so that the loop stands
// still; `message` waits for a message of that thread, `disk` and `synced` write by the pool of threads and by this
// one, and `gc` collects garbage. In `pool`, requests wait for the only connection to the leaf.
const dns = require("node:dns");
const fs = require("node:fs");
const http = require("node:http");
const { spawn } = require("node:child_process");
const { once } = require("node:events");
const { setTimeout: later } = require("node:timers/promises");
const { Worker } = require("node:worker_threads");

const [port, leaf, dir] = process.argv.slice(2);
const log = fs.openSync(`${dir}/app.log`, "w");
const bytes = Buffer.alloc(1 << 20);
const agents = { call: new http.Agent(), pool: new http.Agent({ keepAlive: true, maxSockets: 1 }) };
const flag = new Int32Array(new SharedArrayBuffer(4));
const helper = new Worker(
  `const { parentPort, workerData } = require("node:worker_threads");
  const until = new Int32Array(new SharedArrayBuffer(4));
  parentPort.on("message", ({ ms, silent }) => {
    Atomics.wait(until, 0, 0, ms);
    if (!silent) return parentPort.postMessage("done");
    Atomics.store(workerData, 0, 1);
    Atomics.notify(workerData, 0);
  });`,
  { eval: true, workerData: flag },
);

const now = () => performance.now() / 1e3;

/** How long the thread ran, up to a tick ago, and has been ready without a processor, s. */
function clocks() {
  const fields = fs.readFileSync(`/proc/self/task/${process.pid}/schedstat`, "utf8").split(" ");
  return [fields[0] / 1e9, fields[1] / 1e9];
}

function spin(ms) {
  const ran = () => process.cpuUsage().user + process.cpuUsage().system;
  for (const until = ran() + ms * 1e3; ran() < until; );
}

function ask(agent, ms) {
  return new Promise((done, fail) => {
    const path = `/sleep/${ms}/leaf`;
    const request = http.get({ host: "127.0.0.1", port: leaf, path, agent }, (answer) => {
      answer.resume();
      answer.on("end", done);
    });
    request.on("error", fail);
  });
}

function garbage() {
  const heap = [];
  for (let i = 0; i < 500_000; i++) heap.push({ i, next: heap[i - 1] });
  return heap;
}

const kinds = {
  sleep: ["sleep", "timer", (ms) => later(ms)],
  call: ["socket", "network", (ms) => ask(agents.call, ms)],
  pool: ["socket", "network", (ms) => ask(agents.pool, ms)],
  dns: ["dns", "network", (ms) => dns.promises.lookup(`w${ms}.test`)],
  child: ["process", "network", (ms) => once(spawn("sleep", [`${ms / 1e3}`]), "exit")],
  message: ["message", "thread", (ms) => (helper.postMessage({ ms }), once(helper, "message"))],
  event: [
    "lock",
    "thread",
    (ms) => {
      Atomics.store(flag, 0, 0);
      helper.postMessage({ ms, silent: true });
      Atomics.wait(flag, 0, 0);
    },
  ],
};

async function synced(ms, sync) {
  let all = 0;
  const end = now() + ms / 1e3;
  do {
    fs.writeSync(log, bytes, 0, bytes.length, 0);
    const began = now();
    await sync();
    all += now() - began;
  } while (now() < end);
  return all;
}

async function work(what, ms) {
  const began = now();
  if (what === "spin") {
    spin(ms);
  } else if (what === "gc") {
    const heap = garbage();
    const collects = now();
    gc();
    return heap.length && [{ kind: "gc", by: "", held: "", took: now() - collects }];
  } else if (what === "synced") {
    const took = await synced(ms, () => fs.fsyncSync(log));
    return [{ kind: "disk", by: "disk", held: "", took }];
  } else if (what === "disk") {
    const took = await synced(ms, () => new Promise((done) => fs.fsync(log, done)));
    return [{ kind: "disk", by: "thread", held: "disk fsync", took }];
  } else {
    const [kind, by, wait] = kinds[what];
    const waiting = wait(ms);
    // To begin a child or a call takes time, too; `event` has waited by now.
    const from = what === "event" ? began : now();
    await waiting;
    return [{ kind, by, held: "", took: now() - from }];
  }
  return [];
}

const server = http.createServer(async (request, response) => {
  const [, what, ms] = request.url.split("/");
  const [began, before] = [now(), clocks()];
  const waits = await work(what, Number(ms));
  const [ran, queued] = clocks();
  const times = { ran: ran - before[0], queued: queued - before[1], took: now() - began };
  console.log(JSON.stringify({ path: request.url, ...times, waits }));
  response.setHeader("Content-Length", 0);
  response.end();
});

once(helper, "online").then(() => server.listen(Number(port), "127.0.0.1"));
