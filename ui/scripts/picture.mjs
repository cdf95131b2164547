// Takes the picture of a page of a running wirespan that the documents show.
// usage: node ui/scripts/picture.mjs URL FILE.png [light|dark] [WIDTHxHEIGHT] [BUTTON] [FROM]
// BUTTON: a button is pressed before, whose name has this text. FROM: the picture begins at this CSS selector.
import { startBrowser } from "../journeys/browser.mjs";

const [url, file, scheme = "light", size = "1280x800", button = "", from = ""] = process.argv.slice(2);
if (!url || !file) {
  console.error("usage: node ui/scripts/picture.mjs URL FILE.png [light|dark] [WIDTHxHEIGHT] [BUTTON] [FROM]");
  process.exit(2);
}
const { context, stop } = await startBrowser();
try {
  const [width, height] = size.split("x").map(Number);
  const page = await context.newPage();
  await page.setViewportSize({ width, height });
  await page.emulateMedia({ colorScheme: scheme, reducedMotion: "reduce" });
  // A page that is asked for anew each second is never idle for long.
  await page.goto(url, { waitUntil: "load" });
  await page.waitForTimeout(1500);
  if (button) await page.getByRole("button", { name: button }).first().click();
  if (from)
    await page
      .locator(from)
      .first()
      .evaluate((part) => part.scrollIntoView({ block: "start" }));
  await page.waitForTimeout(500);
  await page.screenshot({ path: file });
} finally {
  await stop();
}
