// koel view: moves B by keys, drags and animation, plays clouds that deform, requests a frame of each
// pose and moment from the server, and shows the frames.
import { Vector3 } from "three";
import { Connection } from "./connection.js";
import { Input } from "./input.js";
import { Motion } from "./motion.js";
import { Panel } from "./panel.js";
import { Picture } from "./picture.js";
import { Timeline } from "./timeline.js";

const $ = (id) => document.getElementById(id);
/** Milliseconds between updates of the numbers; faster ones would be unreadable. */
const WRITE_EVERY = 100;
/** Milliseconds without a new pose or a frame after which B is at rest. */
const REST = 600;
const RATE_SPAN = 2000;

let stale = true;
const redraw = () => {
  stale = true;
};
const panel = new Panel((shown) => {
  picture?.setShown(shown);
});
let picture = null;
try {
  picture = new Picture($("canvas"), redraw);
} catch {
  panel.notice("This browser draws no WebGL: figures only.");
}

const timeline = new Timeline((text) => panel.speak(text));
let motion = null;
let frame = null;
let written = { at: 0, number: -1 };
let arrivals = [];
let sent = "";
let sentMoment = 0;
/** Whether the notice tells an error; the next frame ends it. */
let failed = false;
let activeAt = 0;
let spokenAt = Infinity;

const connection = new Connection({
  scene(scene) {
    // The same scene after a reconnection: B keeps its pose.
    const key = JSON.stringify([scene.clouds, scene.apart]);
    if (motion?.key !== key) {
      motion = Object.assign(new Motion(scene), { key });
      const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
      motion.animate(scene.animate && !still);
    }
    sent = "";
    sentMoment = 0;
    frame = null;
    written = { at: 0, number: -1 };
    panel.begin(scene);
    timeline.begin(scene.timeline);
    panel.setAnimated(motion.animated);
    picture?.begin(scene);
    panel.update();
    panel.notice("Points are on their way");
  },
  points(points) {
    picture?.addPoints(points);
  },
  frame(next) {
    if (frame === null || failed) panel.notice(picture ? "" : "This browser draws no WebGL: figures only.");
    failed = false;
    frame = next;
    activeAt = performance.now();
    arrivals.push(activeAt);
    spokenAt = activeAt + 1000;
    picture?.show(next);
    timeline.write(next.moment);
  },
  error(message) {
    failed = true;
    panel.notice(message);
  },
  lost(reason, delay) {
    arrivals = [];
    panel.notice(`No connection${reason ? `: ${reason}` : ""}. Trying again in ${(delay / 1000).toFixed(1)} s`);
  },
});

/** Converts a vector from view space to the axes of the files. */
const asSeen = (x, y, z) => picture?.fromView(x, y, z) ?? new Vector3(x, y, z);
const act = {
  move: (x, y, z) => motion?.move(asSeen(x, y, z)),
  turn(x, y, z) {
    const axis = asSeen(x, y, z);
    const angle = axis.length();
    if (angle > 0) motion?.turn(axis.divideScalar(angle), angle);
  },
  orbit: (right, up, nearer) => picture?.orbit(right, up, nearer),
  unitsOfPixel: () => picture?.unitsOfPixel() ?? 0,
  reach: () => motion?.reach ?? 0,
  animate() {
    if (!motion) return;
    motion.animate(!motion.animated);
    panel.setAnimated(motion.animated);
    panel.speak(motion.animated ? "B moves by itself" : "B stands still");
  },
  reset() {
    motion?.reset();
    panel.speak("B is where its file puts it");
  },
  play: () => timeline.play(!timeline.playing),
  step: (by) => timeline.step(by),
  fit: () => picture?.fit(),
  up() {
    const zIsUp = $("up").getAttribute("aria-pressed") !== "true";
    $("up").setAttribute("aria-pressed", String(zIsUp));
    picture?.setUp(zIsUp);
  },
  boolean: (n) => motion && panel.chooseByNumber(n),
  help: () => $("help").showModal(),
};
const input = new Input($("canvas"), act);
for (const name of ["animate", "reset", "fit", "up"]) $(name).onclick = act[name];
$("help-open").onclick = act.help;
$("help").onclick = ({ target }) => target === $("help") && $("help").close();
for (const radio of document.querySelectorAll('input[name="drag"]')) {
  radio.onchange = () => picture && input.setMode(radio.value, picture.controls);
}
for (const radio of document.querySelectorAll('input[name="method"]')) {
  radio.onchange = () => connection.send({ type: "method", name: radio.value });
}

/** Sends the pose and the moment if they have changed. */
function ask() {
  if (frame === null) return;
  const moment = timeline.moment();
  if (moment !== sentMoment) {
    sentMoment = moment;
    activeAt = performance.now();
    connection.send({ type: "moment", number: moment });
  }
  const { rotation, translation } = motion.wanted();
  const message = { type: "pose", rotation: rotation.toArray(), translation: translation.toArray() };
  const text = JSON.stringify(message);
  if (text === sent) return;
  sent = text;
  activeAt = performance.now();
  connection.send(message);
}
function writeFigures(now) {
  arrivals = arrivals.filter((at) => now - at < RATE_SPAN);
  const resting = now - activeAt > REST;
  if (now - written.at < WRITE_EVERY) return;
  panel.setResting(resting);
  if (frame && (frame.number !== written.number || !resting)) {
    const span = arrivals.at(-1) - arrivals[0];
    panel.write(frame, span > 0 && !resting ? ((arrivals.length - 1) * 1000) / span : 0);
    written.number = frame.number;
  } else if (resting) {
    panel.writeRest();
  }
  written.at = now;
  if (now > spokenAt && !motion?.animated && !timeline.playing) {
    spokenAt = Infinity;
    panel.speakCounts();
  }
}
function placeTags() {
  for (const cloud of [0, 1]) {
    const tag = $(`tag-${cloud}`);
    const place = picture.tagOf(cloud);
    tag.hidden = place === null;
    if (place) tag.style.transform = `translate(${place.x.toFixed(1)}px, ${place.y.toFixed(1)}px) translate(-50%, -100%)`;
  }
}

let last = performance.now();
function step(now) {
  const seconds = Math.min((now - last) / 1000, 0.1);
  last = now;
  if (motion) {
    input.advance(seconds);
    motion.advance(seconds);
    timeline.advance(seconds);
    ask();
    if (picture && stale) {
      stale = false;
      picture.draw();
      placeTags();
    }
  }
  writeFigures(now);
  requestAnimationFrame(step);
}
requestAnimationFrame(step);
