// A real view server and a real browser for the journeys.
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

export const root = fileURLToPath(new URL("../..", import.meta.url));

/** Starts the sample server (built if need be) on a free port; `visits` 0 gives an empty store. */
export async function startServer(visits) {
  const profile = existsSync(join(root, "target/debug")) ? [] : ["--release"];
  const given = ["0", String(visits)];
  const run = ["run", "--quiet", ...profile, "-p", "wirespan-view", "--example", "serve_sample", "--", ...given];
  const built = process.env.WIRESPAN_SAMPLE;
  const [command, args] = built ? [built, given] : ["cargo", run];
  const child = spawn(command, args, { cwd: root, stdio: ["ignore", "pipe", "inherit"], detached: true });
  const url = await new Promise((resolve, reject) => {
    let text = "";
    child.stdout.on("data", (chunk) => {
      text += chunk;
      const found = /http:\/\/\S+/.exec(text);
      if (found) resolve(found[0].replace(/\/$/, ""));
    });
    child.once("exit", (code) => reject(new Error(`the sample server ended with ${code}`)));
  });
  const stop = () =>
    new Promise((resolve) => {
      if (child.exitCode !== null) return resolve();
      child.once("exit", resolve);
      // The group: cargo and the server that it started.
      process.kill(-child.pid, "SIGINT");
    });
  return { url, stop };
}

/** Starts the system's Chromium with a profile of its own. */
export async function startBrowser() {
  const executablePath =
    process.env.CHROMIUM ??
    ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync);
  if (!executablePath) throw new Error("there is no Chromium: install it (apt-get install chromium) or set CHROMIUM");
  const profile = mkdtempSync(join(tmpdir(), "wirespan-ui-"));
  const context = await chromium.launchPersistentContext(profile, {
    executablePath,
    headless: true,
    viewport: { width: 1280, height: 800 },
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  });
  context.setDefaultTimeout(15_000);
  const stop = async () => {
    await context.close();
    rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
  };
  return { context, stop };
}

/** A page that fails the test when a script fails or the content policy refuses something. */
export async function openPage(context, path) {
  const page = await context.newPage();
  const faults = [];
  page.on("pageerror", (error) => faults.push(String(error)));
  page.on("console", (message) => {
    const text = message.text();
    // The browser itself logs each answer of 400 and more.
    if (message.type() === "error" && !text.startsWith("Failed to load resource")) faults.push(text);
  });
  await page.goto(path);
  return { page, faults };
}

/** Pictures of the whole page, light and dark, if SHOTS names a folder for them. */
export async function shot(page, name) {
  if (!process.env.SHOTS) return;
  const size = page.viewportSize();
  // The page scrolls within itself.
  const height = await page.evaluate(() => Math.max(...[...document.querySelectorAll("*")].map((e) => e.scrollHeight)));
  await page.setViewportSize({ ...size, height: Math.max(size.height, height + 60) });
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    await page.screenshot({ path: `${process.env.SHOTS}/${name}-${colorScheme}.png` });
  }
  await page.setViewportSize(size);
}
