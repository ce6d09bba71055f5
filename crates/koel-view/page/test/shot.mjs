import { chromium } from "playwright-core";
const [url, out, w, h, ...rest] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"] });
const page = await browser.newPage({ viewport: { width: +w, height: +h } });
page.on("console", (m) => console.log("console", m.type(), m.text()));
page.on("pageerror", (e) => console.log("error", e.message));
await page.goto(url);
await page.waitForFunction(() => document.getElementById("frame").textContent !== "–", null, { timeout: 60000 });
await page.waitForTimeout(1500);
for (const k of rest) { await page.keyboard.press(k); await page.waitForTimeout(800); }
await page.screenshot({ path: out });
console.log(await page.evaluate(() => document.getElementById("rate").innerText + " | " + document.getElementById("labels").innerText.replace(/\n/g, " ")));
await browser.close();
