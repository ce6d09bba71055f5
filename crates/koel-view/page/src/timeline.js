// The timeline of clouds that deform: which moment is wanted, played in a circle or selected.
const $ = (id) => document.getElementById(id);
const number = new Intl.NumberFormat("en");

export class Timeline {
  /** Calls `speak(text)` for screen readers. */
  constructor(speak) {
    this.speak = speak;
    this.moments = 1;
    this.playing = false;
    /** Place in moments; its whole part is the wanted moment. */
    this.place = 0;
    $("play").onclick = () => this.play(!this.playing);
    $("moment").oninput = () => {
      this.play(false);
      this.go(Number($("moment").value));
    };
  }
  /** Sets up the timeline of a scene; null hides it. Keeps the moment if there are as many. */
  begin(timeline) {
    const moments = timeline?.moments ?? 1;
    if (moments !== this.moments) {
      this.place = 0;
      this.play(false);
    }
    this.moments = moments;
    this.rate = timeline?.rate ?? 1;
    this.first = timeline?.first ?? 0;
    $("timeline").hidden = moments === 1;
    $("view").classList.toggle("plays", moments > 1);
    $("moment").max = String(moments - 1);
    $("moment").value = String(this.moment());
    this.write(this.moment());
  }
  /** Returns the wanted moment. */
  moment() {
    return Math.floor(this.place);
  }
  play(on) {
    if (this.moments === 1) return;
    if (on !== this.playing) this.speak(on ? "Playing" : "Paused");
    this.playing = on;
    $("play").setAttribute("aria-pressed", String(on));
    $("play").firstElementChild.textContent = on ? "Pause" : "Play";
  }
  /** Goes some moments forward or back, and stops. */
  step(by) {
    this.play(false);
    this.go((this.moment() + by + this.moments) % this.moments);
  }
  go(moment) {
    this.place = Math.min(Math.max(moment, 0), this.moments - 1);
    $("moment").value = String(this.moment());
  }
  /** Plays on. Moments that are shorter than a step, or than a frame of the server, are skipped. */
  advance(seconds) {
    if (!this.playing) return;
    this.place = (this.place + seconds * this.rate * Number($("speed").value)) % this.moments;
    $("moment").value = String(this.moment());
  }
  /** Shows which moment the picture shows. */
  write(moment) {
    const text = `${number.format(moment + 1)} of ${number.format(this.moments)}`;
    $("moment-text").textContent = text;
    $("moment").setAttribute("aria-valuetext", `frame ${this.first + moment}, ${text}`);
    $("moment-time").textContent = `frame ${this.first + moment}, ${(moment / this.rate).toFixed(2)} s`;
  }
}
