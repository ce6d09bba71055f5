// Numbers and controls next to the picture.
import { COLOURS } from "./palette.js";

const $ = (id) => document.getElementById(id);
const number = new Intl.NumberFormat("en");
/** Label numbers in the order of the table. */
const ORDER = [1, 2, 3, 0];
const MEANING = {
  unknown: "not certain",
  intersection: "in voxels of both clouds",
  inside: "inside the other",
  outside: "outside the other",
};
const NAMES = { union: "Union", intersection: "Intersection", difference: "A minus B", "reverse-difference": "B minus A" };
const BOOLEANS = ["union", "difference", "reverse-difference", "intersection"];
const CLOUDS = ["A", "B"];

function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}
const milliseconds = (ms) => (ms < 9.95 ? ms.toFixed(1) : ms.toFixed(0));

export class Panel {
  /** Calls `changed` when the selection of visible points changes. */
  constructor(changed) {
    this.changed = changed;
    this.hidden = { label: new Set(), cloud: new Set() };
    this.boolean = null;
  }

  /** Sets up the names, tables and controls of a scene. */
  begin(scene) {
    this.scene = scene;
    scene.clouds.forEach(({ name, points }, i) => {
      const file = name.split(/[\\/]/).pop();
      $(`name-${i}`).replaceChildren(make("span", { className: "file", textContent: file, title: name }), ` ${number.format(points)} points`);
    });
    document.title = `${scene.clouds.map(({ name }) => name.split(/[\\/]/).pop()).join(" and ")} – koel view`;
    $("notes").hidden = scene.notes.length === 0;
    $("notes").replaceChildren(...scene.notes.map((note) => make("li", { textContent: note })));
    $("machine").textContent = `${scene.device}, grid ${scene.grid}³`;
    this.setMethod(scene.method);
    this.makeLabels();
    this.makeBooleans();
    $("stages").tBodies[0].replaceChildren(...scene.stages.map((stage) => {
      const bar = make("td", {}, make("i", { className: "bar" }));
      return make("tr", {}, make("th", { scope: "row", textContent: stage }), bar, make("td", { textContent: "–" }));
    }));
    $("frame").textContent = "–";
    $("total").textContent = "–";
    this.counts = null;
    this.longest = 0;
  }
  makeLabels() {
    const toggle = (kind, value, text, title) => {
      const button = make("button", { type: "button", className: "toggle", textContent: text, title });
      button.setAttribute("aria-pressed", String(!this.hidden[kind].has(value)));
      button.onclick = () => {
        const hidden = this.hidden[kind];
        if (!hidden.delete(value)) hidden.add(value);
        button.setAttribute("aria-pressed", String(!hidden.has(value)));
        this.update();
      };
      return button;
    };
    const head = CLOUDS.map((name, cloud) => make("th", { scope: "col" }, toggle("cloud", cloud, name, `Show ${name}`)));
    $("labels").tHead.replaceChildren(make("tr", {}, make("td", { textContent: "show" }), ...head));
    this.cells = [[], []];
    $("labels").tBodies[0].replaceChildren(...ORDER.map((label) => {
      const name = this.scene.labels[label];
      const cells = CLOUDS.map((_, cloud) => {
        const swatch = make("i", { className: cloud === 0 ? "swatch disc" : "swatch square" });
        swatch.style.backgroundColor = COLOURS[cloud][label];
        const count = make("span", { textContent: "–", id: `count-${cloud}-${name}` });
        const cell = make("td", {}, swatch, count);
        this.cells[cloud][label] = { cell, count };
        return cell;
      });
      return make("tr", {}, make("th", { scope: "row" }, toggle("label", label, name, `Show points ${MEANING[name]}`)), ...cells);
    }));
  }
  makeBooleans() {
    const choices = [...BOOLEANS.map((name) => [name, NAMES[name]]), ["all", "All points"]];
    $("booleans").querySelector(".choices").replaceChildren(...choices.map(([value, text], i) => {
      const input = make("input", { type: "radio", name: "boolean", value, checked: value === (this.boolean ?? "all") });
      input.onchange = () => this.choose(value);
      return make("label", {}, input, make("span", {}, `${text} `, make("kbd", { textContent: String(i + 1) })));
    }));
  }
  /** Selects a Boolean by name, or "all". */
  choose(value) {
    this.boolean = value === "all" ? null : value;
    $("booleans").querySelector(`input[value="${value}"]`).checked = true;
    this.update();
    this.speak($("kept").textContent);
  }
  /** Selects the nth choice in the order of the keys, from 1. */
  chooseByNumber(n) {
    this.choose(BOOLEANS[n - 1] ?? "all");
  }
  /** Returns whether points are drawn, by cloud and label. */
  shown() {
    const keeps = this.scene.booleans.find(({ name }) => name === this.boolean)?.keeps;
    return CLOUDS.map((_, cloud) => this.scene.labels.map((_, label) =>
      !this.hidden.cloud.has(cloud) && !this.hidden.label.has(label) && (keeps?.[cloud][label] ?? true)));
  }
  update() {
    const shown = this.shown();
    shown.forEach((of, cloud) => of.forEach((is, label) => this.cells[cloud][label].cell.classList.toggle("off", !is)));
    this.changed(shown);
    this.writeKept();
  }
  writeKept() {
    const shown = this.shown();
    // A cloud that deforms may have another number of points at each moment.
    const all = this.scene.clouds.map(({ points }, cloud) => this.counts?.[cloud].reduce((sum, n) => sum + n, 0) ?? points);
    const kept = this.counts?.map((counts, cloud) => counts.reduce((sum, n, label) => sum + (shown[cloud][label] ? n : 0), 0)) ?? all;
    const parts = CLOUDS.map((name, cloud) => `${number.format(kept[cloud])} of ${name}`).join(", ");
    const name = this.boolean ? NAMES[this.boolean] : "Shown";
    $("kept").textContent = kept.every((n, cloud) => n === all[cloud]) ? "All points are shown." : `${name}: ${parts}.`;
  }
  setMethod(name) {
    document.querySelector(`input[name="method"][value="${name}"]`).checked = true;
  }
  setAnimated(on) {
    $("animate").setAttribute("aria-pressed", String(on));
    $("animate").firstElementChild.textContent = on ? "Stop" : "Animate";
  }

  /** Shows the numbers of a frame. */
  write({ number: frame, counts, stages }, rate) {
    this.counts = counts;
    $("frame").textContent = number.format(frame);
    $("fps").textContent = rate > 0 && rate < 9.95 ? rate.toFixed(1) : rate.toFixed(0);
    counts.forEach((of, cloud) => of.forEach((n, label) => {
      this.cells[cloud][label].count.textContent = number.format(n);
    }));
    this.writeKept();
    // The bars share a scale, which shrinks slowly.
    this.longest = Math.max(0.95 * this.longest, ...stages, 0.1);
    [...$("stages").tBodies[0].rows].forEach(({ cells }, i) => {
      cells[1].firstElementChild.style.width = `${(100 * stages[i]) / this.longest}%`;
      cells[2].textContent = `${milliseconds(stages[i])} ms`;
    });
    $("total").textContent = `${milliseconds(stages.reduce((sum, ms) => sum + ms, 0))} ms`;
  }
  /** Shows a rate of 0: at rest, no frames are requested. */
  writeRest() {
    $("fps").textContent = "0";
  }
  setResting(resting) {
    $("fps-unit").textContent = resting ? "frames a second, at rest" : "frames a second";
  }
  /** Announces the counts to screen readers. */
  speakCounts() {
    if (!this.counts) return;
    const of = (cloud) => ORDER.map((label) => `${number.format(this.counts[cloud][label])} ${this.scene.labels[label]}`).join(", ");
    this.speak(`A: ${of(0)}. B: ${of(1)}.`);
  }
  speak(text) {
    $("spoken").textContent = text;
  }
  /** Sets the notice over the picture; an empty one is hidden. */
  notice(text) {
    $("notice").textContent = text;
  }
}
