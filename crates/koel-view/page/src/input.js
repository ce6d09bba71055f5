// Keys and drags.
import { MOUSE, TOUCH } from "three";

/** Directions in view space: right, up, towards the viewer. */
const DIRECTIONS = {
  ArrowLeft: [-1, 0, 0], ArrowRight: [1, 0, 0], ArrowUp: [0, 1, 0], ArrowDown: [0, -1, 0],
  KeyA: [-1, 0, 0], KeyD: [1, 0, 0], KeyW: [0, 1, 0], KeyS: [0, -1, 0], KeyQ: [0, 0, 1], KeyE: [0, 0, -1],
};
/** Camera motion: right, up, nearer. */
const ORBITS = {
  KeyJ: [-1, 0, 0], KeyL: [1, 0, 0], KeyI: [0, 1, 0], KeyK: [0, -1, 0],
  Equal: [0, 0, 1], NumpadAdd: [0, 0, 1], Minus: [0, 0, -1], NumpadSubtract: [0, 0, -1],
};
const RADIANS_A_PIXEL = 0.008;
/** Speeds with a key held, per second: moves in fractions of the reach, turns in radians. */
const SPEED = 0.3;
const TURN_SPEED = 0.9;
const ORBIT_SPEED = 1.4;
/** Effect of a single key press, in seconds of holding. */
const STROKE = 0.06;

export class Input {
  /**
   * `act` has `move(x, y, z)` in units of the files and `turn(x, y, z)` in radians, both in view
   * space; `orbit`; and the actions of keys.
   */
  constructor(canvas, act) {
    this.canvas = canvas;
    this.act = act;
    this.held = new Set();
    this.mode = "look";
    addEventListener("keydown", (event) => this.press(event));
    addEventListener("keyup", ({ code }) => this.held.delete(code));
    addEventListener("blur", () => this.held.clear());
    canvas.addEventListener("pointerdown", (event) => this.grab(event), { capture: true });
    canvas.addEventListener("pointermove", (event) => this.drag(event), { capture: true });
    for (const end of ["pointerup", "pointercancel"]) {
      canvas.addEventListener(end, (event) => this.release(event), { capture: true });
    }
    canvas.addEventListener("contextmenu", (event) => event.preventDefault());
  }
  /** Lets drags control the camera, or reserves them for B. */
  setMode(mode, controls) {
    this.mode = mode;
    controls.mouseButtons.LEFT = mode === "look" ? MOUSE.ROTATE : null;
    controls.touches.ONE = mode === "look" ? TOUCH.ROTATE : null;
  }

  press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const { code, key, target } = event;
    if (target.closest?.("select")) return;
    // Arrow keys select within a group of radio buttons; the space bar presses a button.
    const own = target.closest?.("input, a, summary") ? ["Arrow", "Space", "Enter"] : target.closest?.("button") ? ["Space", "Enter"] : [];
    if (own.some((start) => code.startsWith(start))) return;
    if (code in DIRECTIONS || code in ORBITS) {
      event.preventDefault();
      this.shift = event.shiftKey;
      if (!event.repeat) {
        this.held.add(code);
        this.go(code, STROKE);
      }
    } else if (key === "?") {
      this.act.help();
    } else if (code === "Space") {
      event.preventDefault();
      this.act.animate();
    } else if (!event.repeat && /^[0-5]$/.test(key)) {
      if (key === "0") this.act.reset();
      else this.act.boolean(Number(key));
    } else if (code === "KeyP") {
      if (!event.repeat) this.act.play();
    } else if (key === "," || key === ".") {
      this.act.step(key === "," ? -1 : 1);
    } else if (code === "KeyV") {
      this.act.fit();
    } else if (code === "KeyU") {
      this.act.up();
    }
  }
  /** Applies the held keys for a time step. */
  advance(seconds) {
    for (const code of this.held) this.go(code, seconds);
  }
  go(code, seconds) {
    if (code in ORBITS) {
      const [right, up, nearer] = ORBITS[code].map((c) => c * seconds * ORBIT_SPEED);
      this.act.orbit(right, up, Math.exp(nearer));
      return;
    }
    const [x, y, z] = DIRECTIONS[code];
    if (this.shift) {
      // A turn to the right is a rotation around the up axis.
      const angle = TURN_SPEED * seconds;
      this.act.turn(-y * angle, x * angle, -z * angle);
    } else {
      const way = SPEED * this.act.reach() * seconds;
      this.act.move(x * way, y * way, z * way);
    }
  }

  grab(event) {
    this.canvas.focus({ preventScroll: true });
    this.pointers = (this.pointers ?? 0) + 1;
    const left = event.button === 0 && (event.shiftKey || this.mode !== "look");
    if (!left || this.pointers > 1) {
      // A second finger controls the camera.
      this.grabbed = null;
      return;
    }
    if (event.pointerType !== "touch") event.stopImmediatePropagation();
    const turns = this.mode === "turn" || (this.mode === "move" && event.shiftKey);
    this.grabbed = { id: event.pointerId, x: event.clientX, y: event.clientY, turns };
    this.canvas.setPointerCapture(event.pointerId);
  }
  drag(event) {
    const grabbed = this.grabbed;
    if (!grabbed || grabbed.id !== event.pointerId) return;
    const [right, up] = [event.clientX - grabbed.x, grabbed.y - event.clientY];
    [grabbed.x, grabbed.y] = [event.clientX, event.clientY];
    if (grabbed.turns) {
      this.act.turn(-up * RADIANS_A_PIXEL, right * RADIANS_A_PIXEL, 0);
    } else {
      const units = this.act.unitsOfPixel();
      this.act.move(right * units, up * units, 0);
    }
  }
  release() {
    this.pointers = Math.max(0, (this.pointers ?? 0) - 1);
    this.grabbed = null;
  }
}
