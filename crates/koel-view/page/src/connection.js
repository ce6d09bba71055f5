// The WebSocket, reopened when the connection is lost.
import { parse } from "./protocol.js";

const FIRST_DELAY = 500;
const LONGEST_DELAY = 5000;

/**
 * Calls `on.scene`, `on.points`, `on.frame`, `on.error` and
 * `on.lost(reason, milliseconds until the next attempt)`.
 */
export class Connection {
  constructor(on) {
    this.on = on;
    this.delay = FIRST_DELAY;
    this.open();
  }
  open() {
    this.refusal = "";
    const socket = new WebSocket(`ws://${location.host}/socket`);
    this.socket = socket;
    socket.binaryType = "arraybuffer";
    socket.onmessage = ({ data }) => this.hear(data);
    socket.onclose = ({ reason }) => {
      this.on.lost(this.refusal || reason, this.delay);
      setTimeout(() => this.open(), this.delay);
      this.delay = Math.min(2 * this.delay, LONGEST_DELAY);
    };
  }
  hear(data) {
    if (typeof data === "string") {
      const message = JSON.parse(data);
      if (message.type === "scene") {
        this.delay = FIRST_DELAY;
        this.on.scene(message);
      } else {
        this.refusal = message.message;
        this.on.error(message.message);
      }
      return;
    }
    const { points, frame } = parse(data);
    if (points) this.on.points(points);
    if (frame) {
      this.send({ type: "shown", frame: frame.number });
      this.on.frame(frame);
    }
  }
  send(message) {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }
}
