// Takes the picture of a page of a running wirespan that the documents show.
// usage: node ui/scripts/picture.mjs URL FILE.png [light|dark] [WIDTHxHEIGHT]
import { startBrowser } from "../journeys/browser.mjs";

const [url, file, scheme = "light", size = "1280x800"] = process.argv.slice(2);
if (!url || !file) {
  console.error("usage: node ui/scripts/picture.mjs URL FILE.png [light|dark] [WIDTHxHEIGHT]");
  process.exit(2);
}
const { context, stop } = await startBrowser();
try {
  const [width, height] = size.split("x").map(Number);
  const page = await context.newPage();
  await page.setViewportSize({ width, height });
  await page.emulateMedia({ colorScheme: scheme, reducedMotion: "reduce" });
  await page.goto(url, { waitUntil: "networkidle" });
  await page.screenshot({ path: file });
} finally {
  await stop();
}
