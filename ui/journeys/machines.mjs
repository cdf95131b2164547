// Two machines for the journeys: network namespaces with an agent each, and a server. All of it is real but the wire.
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { root } from "./browser.mjs";

/** Answers what it reads, in short. */
const SERVER = `
import socket
s = socket.create_server(("10.215.1.2", 7050))
print("listening", flush=True)
while True:
    c, _ = s.accept()
    while data := c.recv(1000000):
        c.sendall(b"had %d" % len(data))
    c.close()
`;

/** Each tenth message is 20 kB, which a device of 20 Mbit/s sends in some milliseconds. */
const CLIENT = `
import socket, time
s = socket.create_connection(("10.215.1.2", 7050))
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
print("connected", flush=True)
n = 0
while True:
    s.sendall(b"x" * (20000 if n % 10 == 9 else 20))
    s.recv(1000)
    n += 1
    time.sleep(0.01)
`;

/** Why this machine cannot have them, or false. */
export function lacking() {
  if (process.getuid() !== 0) return "network namespaces and BPF need root";
  const missing = ["ip", "tc", "unshare", "python3"].find((name) => spawnSync(name, ["--help"]).error);
  return missing ? `${missing} is not installed` : false;
}

function run(command, ...args) {
  const done = spawnSync(command, args, { encoding: "utf8" });
  if (done.status !== 0) throw new Error(`${command} ${args.join(" ")}: ${done.stderr}`);
}

export const freePort = () =>
  new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });

/** Starts a program; it is ready when it has said these words; without words, at once. */
export async function start(words, command, args, options = {}) {
  const child = spawn(command, args, { stdio: ["ignore", "pipe", "pipe"], ...options });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  await new Promise((resolve, reject) => {
    let said = "";
    if (!words) resolve();
    const hear = (chunk) => {
      said += chunk;
      if (said.includes(words)) resolve();
    };
    child.stdout.on("data", hear);
    child.stderr.on("data", hear);
    child.once("error", reject);
    child.once("exit", (code) => reject(new Error(`${command} ended with ${code}: ${said}`)));
  });
  const stop = async (signal = "SIGINT") => {
    if (child.exitCode === null && child.signalCode === null) child.kill(signal);
    await ended;
  };
  return { pid: child.pid, stop };
}

/** The program: that of WIRESPAN, else one that is built if need be. */
export function program() {
  if (process.env.WIRESPAN) return process.env.WIRESPAN;
  const profile = existsSync(join(root, "target/debug")) ? "debug" : "release";
  const args = ["build", "--quiet", "--bin", "wirespan", ...(profile === "release" ? ["--release"] : [])];
  const { status } = spawnSync("cargo", args, { cwd: root, stdio: ["ignore", "inherit", "inherit"] });
  if (status !== 0) throw new Error("wirespan was not built");
  return join(root, "target", profile, "wirespan");
}

/** Starts `web`, which sends to `db` through a device of 20 Mbit/s, their agents, and a server. */
export async function startMachines() {
  const wirespan = program();
  const folder = mkdtempSync(join(tmpdir(), "wirespan-machines-"));
  const spaces = { web: `wsui-web-${process.pid}`, db: `wsui-db-${process.pid}` };
  const running = [];
  const stop = async () => {
    for (const each of running.reverse()) await each.stop();
    for (const space of Object.values(spaces)) spawnSync("ip", ["netns", "del", space]);
    rmSync(folder, { recursive: true, force: true });
  };
  const started = async (...what) => {
    const child = await start(...what);
    running.push(child);
    return child;
  };
  try {
    for (const space of Object.values(spaces)) run("ip", "netns", "add", space);
    run("ip", "-n", spaces.web, "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", spaces.db);
    for (const [n, space] of Object.values(spaces).entries()) {
      run("ip", "-n", space, "addr", "add", `10.215.1.${n + 1}/24`, "dev", "eth0");
      run("ip", "-n", space, "link", "set", "eth0", "up");
    }
    const tbf = ["tbf", "rate", "20mbit", "burst", "4kb", "limit", "200kb"];
    run("tc", "-n", spaces.web, "qdisc", "add", "dev", "eth0", "root", ...tbf);
    const inside = (space, code) => ["ip", ["netns", "exec", space, "python3", "-c", code]];
    const processes = {
      db: await started("listening", ...inside(spaces.db, SERVER)),
      web: await started("connected", ...inside(spaces.web, CLIENT)),
    };
    const [ui, link] = [`127.0.0.1:${await freePort()}`, `127.0.0.1:${await freePort()}`];
    writeFileSync(join(folder, "wirespan.toml"), '[serve]\notlp_grpc = ""\notlp_http = ""\n');
    const config = ["--config", join(folder, "wirespan.toml")];
    const listens = ["--token", "machines", "--listen", link, "--ui", ui];
    await started("agents on", wirespan, ["server", ...config, ...listens]);
    const agents = {};
    for (const name of ["web", "db"]) {
      // Each agent has a host name of its own, and calls its machine's network namespace `./own`.
      const cwd = join(folder, name);
      mkdirSync(cwd);
      symlinkSync(join("/run/netns", spaces[name]), join(cwd, "own"));
      const agent = `hostname ${name}; exec "$0" agent "$@"`;
      const args = ["--token", "machines", "--server", link, "--pid", String(processes[name].pid)];
      const command = ["--uts", "sh", "-c", agent, wirespan, ...args, "--packet-programs"];
      agents[name] = await started("is connected", "unshare", command, { cwd });
    }
    return { url: `http://${ui}`, agents, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}
