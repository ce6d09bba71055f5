// Builds the page: `node build.mjs FOLDER` writes its files; with --check it fails if the existing
// files differ.
import { build, transform } from "esbuild";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const read = (path) => readFile(join(here, path), "utf8");
const check = process.argv[2] === "--check";
const folder = process.argv[check ? 3 : 2];
if (!folder) throw new Error("usage: node build.mjs [--check] FOLDER");

const bundle = await build({
  entryPoints: [join(here, "src/main.js")],
  absWorkingDir: here,
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  legalComments: "none", // in licences.txt
  write: false,
});
const three = JSON.parse(await read("node_modules/three/package.json"));
const files = {
  "app.js": bundle.outputFiles[0].text,
  "index.html": await read("index.html"),
  "style.css": (await transform(await read("style.css"), { loader: "css", minify: true })).code,
  "licences.txt": `app.js holds parts of three.js ${three.version} (the npm registry's package three), under these terms:\n\n${await read("node_modules/three/LICENSE")}`,
};

await mkdir(folder, { recursive: true });
const differ = [];
for (const [name, text] of Object.entries(files)) {
  const path = join(folder, name);
  if (check && (await readFile(path, "utf8").catch(() => null)) !== text) differ.push(name);
  if (!check) await writeFile(path, text);
}
if (differ.length > 0) {
  console.error(`${folder}: ${differ.join(", ")} are not what page/ gives: npm ci && npm run build`);
  process.exit(1);
}
console.log(`${folder}: ${Object.entries(files).map(([name, text]) => `${name} ${Buffer.byteLength(text)}`).join(", ")} bytes`);
