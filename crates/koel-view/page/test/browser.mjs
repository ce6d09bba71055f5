// Tests koel view in a headless Chromium. `node test/browser.mjs [KOEL [FOLDER]]` runs the program
// KOEL (default target/debug/koel) and writes pictures to FOLDER (default target/view). Chromium is
// /usr/bin/chromium (Debian's package), or the program that CHROMIUM names.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const root = fileURLToPath(new URL("../../../../", import.meta.url));
const koel = resolve(process.argv[2] ?? join(process.env.CARGO_TARGET_DIR ?? join(root, "target"), "debug/koel"));
const pictures = resolve(process.argv[3] ?? join(root, "target/view"));
const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
for (const [file, what] of [[koel, "the program koel: cargo build"], [executablePath, "Chromium: apt-get install chromium"]]) {
  if (!existsSync(file)) {
    console.error(`${file} is not there, expected ${what}`);
    process.exit(1);
  }
}
mkdirSync(pictures, { recursive: true });
readdirSync(pictures).filter((name) => name.endsWith(".png")).forEach((name) => rmSync(join(pictures, name)));
const PATIENCE = 30_000;
const DESKTOP = { width: 1280, height: 800 };
const PHONE = { width: 375, height: 812 };

/** Makes a torus and a sphere that meet, with scanner-like noise: half a voxel of a 64^3 grid. */
function makeClouds(folder, n, suffix = "") {
  let state = 7;
  const random = () => ((state = (Math.imul(state, 1664525) + 1013904223) >>> 0) + 0.5) / 2 ** 32;
  const noise = () => 0.01 * Math.sqrt(-2 * Math.log(random())) * Math.cos(2 * Math.PI * random());
  const torus = [];
  while (torus.length < n) {
    const [u, v] = [2 * Math.PI * random(), 2 * Math.PI * random()];
    const ring = 1 + 0.4 * Math.cos(v);
    if (random() * 1.4 > ring) continue;
    const normal = [Math.cos(v) * Math.cos(u), Math.cos(v) * Math.sin(u), Math.sin(v)];
    torus.push([ring * Math.cos(u) + noise(), ring * Math.sin(u) + noise(), 0.4 * Math.sin(v) + noise(), ...normal]);
  }
  const sphere = Array.from({ length: n }, (_, i) => {
    const z = 1 - (2 * i + 1) / n;
    const [r, a] = [Math.sqrt(1 - z * z), i * 2.399963229728653];
    const normal = [r * Math.cos(a), r * Math.sin(a), z];
    return [0.8 * normal[0] + 0.9 + noise(), 0.8 * normal[1] + noise(), 0.8 * normal[2] + noise(), ...normal];
  });
  return Object.entries({ torus, sphere }).map(([name, points]) => {
    const fields = ["x", "y", "z", "nx", "ny", "nz"].map((f) => `property float ${f}\n`).join("");
    const head = `ply\nformat binary_little_endian 1.0\nelement vertex ${n}\n${fields}end_header\n`;
    const path = join(folder, `${name}${suffix}.ply`);
    writeFileSync(path, Buffer.concat([Buffer.from(head), Buffer.from(new Float32Array(points.flat()).buffer)]));
    return path;
  });
}

/** Makes a bar that a morph target stretches to twice its length and back in a second. */
function makeBar(folder) {
  const corners = Array.from({ length: 8 }, (_, i) => [i & 1 ? 1.2 : -1.2, i & 2 ? 0.3 : -0.3, i & 4 ? 0.3 : -0.3]);
  const sides = [[0, 2, 3, 1], [4, 5, 7, 6], [0, 1, 5, 4], [2, 6, 7, 3], [0, 4, 6, 2], [1, 3, 7, 5]];
  const parts = [
    [Float32Array, "VEC3", 5126, corners.flat()], [Float32Array, "VEC3", 5126, corners.flatMap(([x]) => [x, 0, 0])],
    [Float32Array, "SCALAR", 5126, [0, 0.5, 1]], [Float32Array, "SCALAR", 5126, [0, 1, 0]],
    [Uint16Array, "SCALAR", 5123, sides.flatMap(([a, b, c, d]) => [a, b, c, a, c, d])],
  ];
  const buffers = parts.map(([Kind, , , values]) => Buffer.from(new Kind(values).buffer));
  let at = 0;
  const bufferViews = buffers.map(({ length }) => ({ buffer: 0, byteOffset: (at += length) - length, byteLength: length }));
  const accessors = parts.map(([, type, componentType, { length }], bufferView) => ({ bufferView, type, componentType, count: type === "VEC3" ? length / 3 : length }));
  const path = join(folder, "bar.gltf");
  writeFileSync(path, JSON.stringify({
    asset: { version: "2.0" }, scene: 0, scenes: [{ nodes: [0] }], nodes: [{ mesh: 0 }],
    meshes: [{ primitives: [{ attributes: { POSITION: 0 }, indices: 4, targets: [{ POSITION: 1 }] }] }],
    animations: [{ name: "stretch", channels: [{ sampler: 0, target: { node: 0, path: "weights" } }], samplers: [{ input: 2, output: 3 }] }],
    buffers: [{ byteLength: at, uri: `data:application/octet-stream;base64,${Buffer.concat(buffers).toString("base64")}` }],
    bufferViews, accessors,
  }));
  return path;
}

const folder = mkdtempSync(join(tmpdir(), "koel-view-"));
const clouds = makeClouds(folder, 30_000);
const running = new Set();
/** Starts koel view and waits for its address. */
const serve = (...more) => serveFiles(clouds, ...more);
async function serveFiles(files, ...more) {
  const child = spawn(koel, ["view", ...files, "--grid", "64", "--device", "cpu", ...more], { stdio: ["ignore", "pipe", "inherit"] });
  running.add(child);
  const [line] = await once(child.stdout, "data");
  const url = String(line).trim();
  assert.match(url, /^http:\/\/127\.0\.0\.1:\d+\/$/);
  const stop = async () => {
    running.delete(child);
    child.kill("SIGINT");
    const [code] = await once(child, "exit");
    return code;
  };
  return { url, port: new URL(url).port, stop };
}
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"] });

/** Opens the page. Console errors and warnings are collected as failures. */
async function open(url, options = {}) {
  const context = await browser.newContext({ viewport: DESKTOP, ...options });
  const page = await context.newPage();
  page.complaints = [];
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && page.complaints.push(message.text()));
  page.on("pageerror", (error) => page.complaints.push(error.message));
  page.setDefaultTimeout(PATIENCE);
  await page.goto(url);
  await page.waitForFunction(() => /\d/.test(document.getElementById("count-0-inside")?.textContent));
  await page.waitForFunction(() => document.getElementById("notice").textContent === "");
  return page;
}
const close = (page) => page.context().close();
const figure = (page, id) => page.evaluate((id) => Number(document.getElementById(id).textContent.replaceAll(",", "")), id);
const LABELS = ["intersection", "inside", "outside", "unknown"];
const counts = (page) => Promise.all([0, 1].flatMap((cloud) => LABELS.map((label) => figure(page, `count-${cloud}-${label}`))));
/** Waits until a number changes. */
const changed = (page, id, from) => page.waitForFunction(([id, from]) => Number(document.getElementById(id).textContent.replaceAll(",", "")) !== from, [id, from]);
/** Waits until no more frames arrive. */
const rest = (page) => page.waitForFunction(() => document.getElementById("fps-unit").textContent.includes("at rest"));
/** Goes to a frame of a sequence by the slider, and waits until its figures are shown. Where that
 * frame is shown already, as it may be where playing was paused, the server sends no other. */
async function goTo(page, moment, text) {
  await rest(page);
  if ((await page.locator("#moment-text").textContent()) === text) return;
  const before = await figure(page, "frame");
  await page.locator("#moment").fill(moment);
  await changed(page, "frame", before);
  await page.waitForFunction((text) => document.getElementById("moment-text").textContent === text, text);
  await rest(page);
}
/** Waits until `is` returns true. */
async function until(page, is, what) {
  for (const begin = performance.now(); performance.now() - begin < PATIENCE; ) {
    if (await is()) return;
    await page.waitForTimeout(100);
  }
  assert.fail(what);
}
/** Returns the shares of the picture that are not background and that are yellow (intersection). */
async function seen(page) {
  const png = await page.locator("#canvas").screenshot();
  return page.evaluate(async (data) => {
    const image = new Image();
    image.src = `data:image/png;base64,${data}`;
    await image.decode();
    const canvas = Object.assign(document.createElement("canvas"), { width: image.width, height: image.height });
    const context = canvas.getContext("2d");
    context.drawImage(image, 0, 0);
    const { data: pixels } = context.getImageData(0, 0, image.width, image.height);
    let [lit, yellow] = [0, 0];
    for (let i = 0; i < pixels.length; i += 4) {
      const [r, g, b] = pixels.subarray(i, i + 3);
      if (r + g + b > 110) lit++;
      if (r > 90 && g > 0.85 * r && b < 0.5 * g) yellow++;
    }
    return { lit: (4 * lit) / pixels.length, yellow: (4 * yellow) / pixels.length };
  }, png.toString("base64"));
}

const tests = {
  async "the page loads, and draws what the server found"() {
    const page = await open(server.url);
    assert.equal(await page.title(), "torus.ply and sphere.ply – koel view");
    const all = await counts(page);
    assert.equal(all.slice(0, 4).reduce((a, b) => a + b), 30_000);
    assert.ok(all.slice(0, 3).every((n) => n > 300), String(all));
    await page.mouse.move(5, 400);
    const { lit, yellow } = await seen(page);
    assert.ok(lit > 0.1 && lit < 0.7, `${lit} of the picture`);
    assert.ok(yellow > 0.0005, `${yellow} yellow`);
    // A name in the table toggles its points.
    await page.getByRole("button", { name: "intersection" }).click();
    await until(page, async () => (await seen(page)).yellow < 0.2 * yellow, "what is switched off is still drawn");
    assert.match(await page.locator("#kept").textContent(), /^Shown: 2\d,\d{3} of A/);
    await page.getByRole("button", { name: "intersection" }).click();
    await page.screenshot({ path: join(pictures, "desktop.png") });
    return page;
  },
  async "moving B by keys and by drags changes the counts"() {
    const page = await open(server.url);
    for (const key of ["ArrowLeft", "d", "e", "Shift+ArrowUp"]) {
      await rest(page);
      const [frame, before] = [await figure(page, "frame"), await counts(page)];
      await page.keyboard.press(key);
      await changed(page, "frame", frame);
      await rest(page);
      assert.notDeepEqual(await counts(page), before, key);
    }
    await page.keyboard.press("0");
    await rest(page);
    // Drag B to the right until the clouds are apart.
    await page.getByRole("radio", { name: "Move B" }).check();
    await page.mouse.move(480, 400);
    await page.mouse.down();
    await page.mouse.move(900, 400, { steps: 12 });
    await page.mouse.up();
    await rest(page);
    const apart = await counts(page);
    assert.deepEqual([apart[0], apart[1], apart[4], apart[5]], [0, 0, 0, 0]);
    // With Shift, drags turn B: still apart, but a new frame.
    const frame = await figure(page, "frame");
    await page.keyboard.down("Shift");
    await page.mouse.move(480, 400);
    await page.mouse.down();
    await page.mouse.move(520, 420, { steps: 4 });
    await page.mouse.up();
    await page.keyboard.up("Shift");
    await changed(page, "frame", frame);
    // Dragging the camera requests no frame.
    await rest(page);
    await page.getByRole("radio", { name: "Look around" }).check();
    const [still, before] = [await figure(page, "frame"), (await page.locator("#canvas").screenshot()).toString("base64")];
    await page.mouse.move(480, 400);
    await page.mouse.down();
    await page.mouse.move(600, 450, { steps: 6 });
    await page.mouse.up();
    await until(page, async () => (await page.locator("#canvas").screenshot()).toString("base64") !== before, "the view does not turn");
    assert.equal(await figure(page, "frame"), still);
    return page;
  },
  async "the animation moves B until it is stopped"() {
    const page = await open(server.url);
    await page.keyboard.press("Space");
    await page.waitForFunction(() => Number(document.getElementById("frame").textContent) >= 20);
    await page.waitForFunction(() => Number(document.getElementById("fps").textContent) > 1);
    assert.equal(await page.locator("#animate").getAttribute("aria-pressed"), "true");
    await page.screenshot({ path: join(pictures, "animated.png") });
    await page.getByRole("button", { name: "Stop" }).click();
    await rest(page);
    const frame = await figure(page, "frame");
    await page.waitForTimeout(500);
    assert.equal(await figure(page, "frame"), frame);
    const widths = await page.locator(".bar").evaluateAll((bars) => bars.map((bar) => bar.getBoundingClientRect().width));
    assert.equal(widths.length, 6);
    // Widths compare the steps of a frame: they depend on how busy the machine is, but not this.
    assert.ok(widths.every((width) => width >= 2) && Math.max(...widths) > 2, String(widths));
    assert.match(await page.locator("#total").textContent(), /^[\d.]+ ms$/);
    assert.match(await page.locator("#spoken").textContent(), /B stands still|A: .* intersection/);
    return page;
  },
  async "Booleans keep the points that bound them"() {
    const page = await open(server.url);
    const [aBoth, aInside, aOutside, , bBoth, bInside, bOutside] = await counts(page);
    const number = new Intl.NumberFormat("en");
    for (const [key, name, a, b] of [
      ["1", "Union", aOutside, bOutside], ["2", "A minus B", aOutside, bInside],
      ["3", "B minus A", aInside, bOutside], ["4", "Intersection", aInside, bInside],
    ]) {
      await page.keyboard.press(key);
      const expected = `${name}: ${number.format(a + aBoth)} of A, ${number.format(b + bBoth)} of B.`;
      assert.equal(await page.locator("#kept").textContent(), expected);
      assert.ok(await page.getByRole("radio", { name }).isChecked());
      if (key === "2") {
        await page.waitForTimeout(200);
        await page.screenshot({ path: join(pictures, "difference.png") });
      }
    }
    let lit = 1;
    await until(page, async () => ({ lit } = await seen(page)).lit < 0.1, "the intersection alone is not drawn");
    await page.getByRole("radio", { name: "All points" }).check();
    await until(page, async () => (await seen(page)).lit > 1.5 * lit, "all points are not drawn again");
    const frame = await figure(page, "frame");
    await page.getByRole("radio", { name: "Paper" }).check();
    await changed(page, "frame", frame);
    return page;
  },
  async "help opens, is read by the keyboard alone, and goes"() {
    const page = await open(server.url);
    await page.keyboard.press("?");
    assert.ok(await page.getByRole("dialog", { name: "Keys and drags" }).isVisible());
    await page.screenshot({ path: join(pictures, "help.png") });
    const frame = await figure(page, "frame");
    await page.keyboard.press("ArrowLeft");
    await page.keyboard.press("Escape");
    assert.ok(!(await page.locator("#help").isVisible()));
    assert.equal(await figure(page, "frame"), frame, "keys do nothing behind it");
    // Tab reaches every control, with visible focus.
    const reached = new Set();
    for (let i = 0; i < 40; i++) {
      await page.keyboard.press("Tab");
      const [id, width] = await page.evaluate(() => {
        const e = document.activeElement;
        const marked = e.matches("input") ? e.nextElementSibling : e;
        return [e.id || e.name || e.textContent, e === document.body ? 3 : parseFloat(getComputedStyle(marked).outlineWidth)];
      });
      assert.ok(width >= 2, `${id} has the focus, but it is not seen`);
      reached.add(id);
    }
    for (const id of ["canvas", "help-open", "drag", "boolean", "method", "animate", "reset", "fit", "up", "inside", "A"]) {
      assert.ok(reached.has(id), `${id} is not reached: ${[...reached]}`);
    }
    return page;
  },
  async "text stands out, on a desktop and on a phone"() {
    const page = await open(server.url);
    await page.keyboard.press("?");
    for (const viewport of [DESKTOP, PHONE]) {
      await page.setViewportSize(viewport);
      const weak = await page.evaluate(() => {
        const channels = (colour) => colour.match(/[\d.]+/g).map(Number);
        const luminance = ([r, g, b]) => [r, g, b].map((c) => c / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)).reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
        const behind = (e) => {
          for (; e; e = e.parentElement) {
            const [r, g, b, a = 1] = channels(getComputedStyle(e).backgroundColor);
            if (a > 0.75) return [r, g, b];
          }
          return [18, 21, 26];
        };
        const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
        const weak = [];
        while (walker.nextNode()) {
          const e = walker.currentNode.parentElement;
          if (!walker.currentNode.data.trim() || e.getClientRects().length === 0) continue;
          const [a, b] = [luminance(channels(getComputedStyle(e).color)), luminance(behind(e))];
          const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
          if (contrast < 4.5) weak.push(`${walker.currentNode.data.trim()}: ${contrast.toFixed(2)}`);
        }
        return weak;
      });
      assert.deepEqual(weak, []);
    }
    return page;
  },
  async "a phone has room for all of it, and fingers move B"() {
    const page = await open(server.url, { viewport: PHONE, hasTouch: true, isMobile: true, deviceScaleFactor: 2 });
    const { wide, small } = await page.evaluate(() => ({
      wide: document.documentElement.scrollWidth,
      small: [...document.querySelectorAll("button, label span")].map((e) => [e.textContent, e.getBoundingClientRect()]).filter(([, { width, height, right }]) => width > 0 && (height < 32 || right > innerWidth)).map(([text]) => text),
    }));
    assert.equal(wide, PHONE.width);
    assert.deepEqual(small, []);
    await page.screenshot({ path: join(pictures, "phone.png") });
    await page.getByRole("radio", { name: "Move B" }).tap();
    const frame = await figure(page, "frame");
    const session = await page.context().newCDPSession(page);
    const touch = (type, x, y) => session.send("Input.dispatchTouchEvent", { type, touchPoints: x === undefined ? [] : [{ x, y }] });
    await touch("touchStart", 180, 200);
    for (let x = 185; x <= 260; x += 15) await touch("touchMove", x, 200);
    await touch("touchEnd");
    await changed(page, "frame", frame);
    await page.locator("#machine").scrollIntoViewIfNeeded();
    await page.screenshot({ path: join(pictures, "phone-figures.png") });
    return page;
  },
  async "where nothing can be drawn there are figures"() {
    const context = await browser.newContext({ viewport: PHONE });
    const page = await context.newPage();
    await page.addInitScript(() => {
      HTMLCanvasElement.prototype.getContext = () => null;
    });
    await page.goto(server.url);
    await page.waitForFunction(() => /\d/.test(document.getElementById("count-0-inside")?.textContent));
    assert.match(await page.locator("#notice").textContent(), /no WebGL/);
    const before = await figure(page, "count-1-inside");
    await page.keyboard.press("ArrowRight");
    await changed(page, "count-1-inside", before);
    await close(page);
  },
  async "two viewers see their own poses, and one that goes disturbs nobody"() {
    const [one, two] = [await open(server.url), await open(server.url)];
    const given = await counts(two);
    await two.keyboard.press("Space");
    await one.keyboard.press("ArrowLeft");
    await changed(two, "frame", 0);
    await close(two);
    await rest(one);
    const frame = await figure(one, "frame");
    await one.keyboard.press("0");
    await changed(one, "frame", frame);
    await rest(one);
    assert.deepEqual(await counts(one), given);
    return one;
  },
  async "a sequence plays, pauses and goes to any frame, while B is moved"() {
    const playing = await serveFiles([makeBar(folder), clouds[1]], "--port", "0", "--fps", "20");
    const page = await open(playing.url);
    const text = () => page.locator("#moment-text").textContent();
    assert.equal(await text(), "1 of 21");
    await rest(page);
    const first = await counts(page);
    const { lit } = await seen(page);
    // The middle, by the slider: the bar is twice as long.
    await goTo(page, "10", "11 of 21");
    const middle = await counts(page);
    assert.equal(middle.slice(0, 4).reduce((a, b) => a + b), first.slice(0, 4).reduce((a, b) => a + b), "as many points");
    assert.ok(middle[2] > first[2], `${middle} ${first}`);
    await until(page, async () => (await seen(page)).lit > 1.02 * lit, "the bar is not drawn longer");
    assert.equal(await page.locator("#moment-time").textContent(), "frame 10, 0.50 s");
    await page.screenshot({ path: join(pictures, "sequence.png") });
    // By keys, one back and forth; the same frame has the same labels.
    await page.locator("#canvas").focus();
    await page.keyboard.press(",");
    await page.waitForFunction(() => document.getElementById("moment-text").textContent === "10 of 21");
    await page.keyboard.press(".");
    await page.waitForFunction(() => document.getElementById("moment-text").textContent === "11 of 21");
    await rest(page);
    assert.deepEqual(await counts(page), middle);
    // It plays, round and round, while B moves.
    await page.locator("#speed").selectOption("2");
    await page.locator("#canvas").focus();
    await page.keyboard.press("p");
    assert.equal(await page.locator("#play").textContent(), "Pause P");
    const moments = new Set();
    await until(page, async () => moments.add(await text()).size >= 6, "it does not play");
    await page.keyboard.press("ArrowLeft");
    await page.keyboard.press("ArrowLeft");
    const frame = await figure(page, "frame");
    await changed(page, "frame", frame);
    await page.getByRole("button", { name: "Pause" }).click();
    await rest(page);
    const still = await figure(page, "frame");
    await page.waitForTimeout(300);
    assert.equal(await figure(page, "frame"), still, "nothing is requested at rest");
    // Back at the first frame and place, all is as at first.
    await goTo(page, "0", "1 of 21");
    await page.locator("#canvas").focus();
    const moved = await figure(page, "frame");
    await page.keyboard.press("0");
    await changed(page, "frame", moved);
    await rest(page);
    assert.deepEqual(await counts(page), first);
    await page.setViewportSize(PHONE);
    const { wide, right } = await page.evaluate(() => ({ wide: document.documentElement.scrollWidth, right: Math.max(...[...document.getElementById("timeline").children].map((e) => e.getBoundingClientRect().right)) }));
    assert.equal(wide, PHONE.width);
    assert.ok(right <= PHONE.width, String(right));
    await page.screenshot({ path: join(pictures, "phone-sequence.png") });
    assert.deepEqual(page.complaints, []);
    await close(page);
    assert.equal(await playing.stop(), 0);
  },
  async "a sequence of files may have other numbers of points"() {
    const walk = join(folder, "walk");
    mkdirSync(walk);
    for (const [i, n] of [20_000, 30_000, 9_000].entries()) writeFileSync(join(walk, `frame-${i + 5}.ply`), readFileSync(makeClouds(folder, n, `-${n}`)[0]));
    const playing = await serveFiles([clouds[1], join(walk, "frame-%d.ply")], "--port", "0");
    const page = await open(playing.url);
    for (const [moment, n] of [[1, 30_000], [2, 9_000], [0, 20_000], [1, 30_000]]) {
      await goTo(page, String(moment), `${moment + 1} of 3`);
      const all = await counts(page);
      assert.equal(all.slice(4).reduce((a, b) => a + b), n);
      assert.equal(all.slice(0, 4).reduce((a, b) => a + b), 30_000);
      assert.match(await page.locator("#moment-time").textContent(), new RegExp(`^frame ${moment + 5},`));
      assert.equal(await page.locator("#kept").textContent(), "All points are shown.");
    }
    // Frames are kept: a file that goes does not stop it.
    rmSync(join(walk, "frame-7.ply"));
    await goTo(page, "2", "3 of 3");
    assert.deepEqual(page.complaints, []);
    await close(page);
    assert.equal(await playing.stop(), 0);
  },
  async "a page of another origin cannot connect"() {
    const foreign = createServer((_, response) => response.end("<title>elsewhere</title>"));
    foreign.listen(0, "127.0.0.1");
    await once(foreign, "listening");
    const page = await browser.newPage();
    await page.goto(`http://127.0.0.1:${foreign.address().port}/`);
    const opened = await page.evaluate((port) => new Promise((done) => {
      const socket = new WebSocket(`ws://127.0.0.1:${port}/socket`);
      socket.onopen = () => done(true);
      socket.onerror = () => done(false);
    }), server.port);
    foreign.close();
    assert.equal(opened, false);
    await close(page);
  },
  async "who asks for reduced motion gets none that starts by itself"() {
    const moving = await serve("--port", "0", "--animate");
    const still = await open(moving.url, { reducedMotion: "reduce" });
    await still.waitForTimeout(500);
    assert.equal(await figure(still, "frame"), 0);
    const page = await open(moving.url);
    await page.waitForFunction(() => Number(document.getElementById("frame").textContent) >= 3);
    await close(still);
    assert.deepEqual(page.complaints, []);
    await close(page);
    assert.equal(await moving.stop(), 0);
  },
  async "a lost connection is told and found again"() {
    const first = await serve("--port", "0");
    const page = await open(first.url);
    await page.keyboard.press("ArrowLeft");
    await changed(page, "frame", 0);
    await rest(page);
    const before = await counts(page);
    assert.equal(await first.stop(), 0);
    await page.waitForFunction(() => document.getElementById("notice").textContent.startsWith("No connection: koel view has ended"));
    const second = await serve("--port", first.port);
    await page.waitForFunction(() => document.getElementById("notice").textContent === "");
    await page.waitForFunction(() => Number(document.getElementById("frame").textContent) >= 1);
    await rest(page);
    assert.deepEqual(await counts(page), before, "B stands where it stood");
    // While the server was down, the browser logged refused connections.
    page.complaints = page.complaints.filter((text) => !text.includes("ERR_CONNECTION_REFUSED"));
    assert.deepEqual(page.complaints, []);
    await close(page);
    assert.equal(await second.stop(), 0);
  },
};

const server = await serve("--port", "0");
let [passed, failed] = [0, 0];
for (const [name, test] of Object.entries(tests)) {
  const begin = performance.now();
  try {
    const page = await test();
    if (page) {
      assert.deepEqual(page.complaints, [], "the console is silent");
      await close(page);
    }
    passed++;
    console.log(`ok   ${name} (${((performance.now() - begin) / 1000).toFixed(1)} s)`);
  } catch (error) {
    failed++;
    console.error(`FAIL ${name}\n${error.stack}`);
    for (const [i, page] of browser.contexts().flatMap((context) => context.pages()).entries()) {
      await page.screenshot({ path: join(pictures, `failed-${failed}-${i}.png`) }).catch(() => {});
      await close(page);
    }
  }
}
if ((await server.stop()) !== 0) {
  failed++;
  console.error("FAIL koel view did not end well");
}
await browser.close();
running.forEach((child) => child.kill());
rmSync(folder, { recursive: true });
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed > 0 ? 1 : 0);
