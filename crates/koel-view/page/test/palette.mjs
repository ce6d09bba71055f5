// Checks that everyone can tell apart the colours of a cloud, and tell them from the background:
// distances in Oklab (B. Ottosson 2020), for normal vision and without one kind of cones (matrices
// of G. M. Machado, M. M. Oliveira and L. A. F. Fernandes 2009).
import { BACKGROUND, COLOURS } from "../src/palette.js";

const LEAST_DISTANCE = 0.1;
const LEAST_CONTRAST = 3;
const VISION = {
  "three kinds of cones": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
  protanopia: [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
  deuteranopia: [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
  tritanopia: [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
};
const LABELS = ["unknown", "intersection", "inside", "outside"];

const apply = (matrix, v) => matrix.map((row) => row.reduce((sum, m, i) => sum + m * v[i], 0));
const linear = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16) / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
const luminance = (hex) => apply([[0.2126, 0.7152, 0.0722]], linear(hex))[0];
const contrast = (a, b) => (Math.max(luminance(a), luminance(b)) + 0.05) / (Math.min(luminance(a), luminance(b)) + 0.05);
const oklab = (rgb) => apply(
  [[0.2104542553, 0.793617785, -0.0040720468], [1.9779984951, -2.428592205, 0.4505937099], [0.0259040371, 0.7827717662, -0.808675766]],
  apply(
    [[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566], [0.0883024619, 0.2817188376, 0.6299787005]],
    rgb.map((c) => Math.max(c, 0)),
  ).map(Math.cbrt),
);

let failed = 0;
let passed = 0;
const check = (good, text) => {
  good ? passed++ : failed++;
  if (!good) console.error(text);
};
for (const [cloud, colours] of COLOURS.entries()) {
  colours.forEach((colour, label) => {
    const c = contrast(colour, BACKGROUND);
    check(c >= LEAST_CONTRAST, `${"AB"[cloud]}, ${LABELS[label]}: contrast ${c.toFixed(2)} to the background, expected ${LEAST_CONTRAST}`);
  });
  for (const [name, matrix] of Object.entries(VISION)) {
    const seen = colours.map((hex) => oklab(apply(matrix, linear(hex))));
    for (let a = 0; a < 4; a++) {
      for (let b = 0; b < a; b++) {
        const d = Math.hypot(...seen[a].map((c, i) => c - seen[b][i]));
        const pair = `${"AB"[cloud]}, ${LABELS[a]} and ${LABELS[b]}, ${name}`;
        check(d >= LEAST_DISTANCE, `${pair}: ${d.toFixed(3)} apart, expected ${LEAST_DISTANCE}`);
      }
    }
  }
}
console.log(`palette: ${passed} passed, ${failed} failed`);
process.exit(failed > 0 ? 1 : 0);
