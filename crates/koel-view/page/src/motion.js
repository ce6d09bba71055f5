// Where B is wanted: moved by hand, and along a path that passes through A.
import { Quaternion, Vector3 } from "three";

const SECONDS_A_ROUND = 10;
/** Of the reach, to either side. */
const SWING = 0.42;
const TURNED_AROUND = new Vector3(0.25, 1, 0.15).normalize();

export class Motion {
  constructor(scene) {
    this.apart = new Vector3(...scene.apart);
    this.reach = scene.reach;
    this.rotation = new Quaternion();
    this.translation = new Vector3();
    this.animated = false;
    this.seconds = 0;
    // Along the line of centres as the files have it, and a little across.
    this.along = this.apart.length() > 0.05 * this.reach ? this.apart.clone().normalize() : new Vector3(1, 0, 0);
    this.across = new Vector3(0, 1, 0).cross(this.along);
    if (this.across.length() < 0.1) this.across.set(0, 0, 1).cross(this.along);
    this.across.normalize();
  }
  /** By a vector in the units of the files. */
  move(by) {
    this.translation.add(by);
    this.keepWithinReach(this.translation);
  }
  /** Around the centre, after all turns so far. */
  turn(axis, angle) {
    this.rotation.premultiply(new Quaternion().setFromAxisAngle(axis, angle)).normalize();
  }
  reset() {
    this.rotation.identity();
    this.translation.set(0, 0, 0);
    this.seconds = 0;
  }
  animate(on) {
    if (!on) {
      const { rotation, translation } = this.wanted();
      this.rotation.copy(rotation);
      this.translation.copy(translation);
      this.seconds = 0;
    }
    this.animated = on;
  }
  /** Lets time pass. */
  advance(seconds) {
    if (this.animated) this.seconds += seconds;
  }
  /** The pose for now. */
  wanted() {
    const rotation = this.rotation.clone();
    const translation = this.translation.clone();
    if (this.seconds > 0) {
      const phase = (this.seconds / SECONDS_A_ROUND) * 2 * Math.PI;
      translation.addScaledVector(this.along, -SWING * this.reach * Math.sin(phase));
      translation.addScaledVector(this.across, 0.3 * SWING * this.reach * Math.sin(2 * phase));
      rotation.premultiply(new Quaternion().setFromAxisAngle(TURNED_AROUND, phase));
    }
    this.keepWithinReach(translation);
    return { rotation, translation };
  }
  keepWithinReach(translation) {
    const apart = translation.clone().add(this.apart);
    if (apart.length() > this.reach) translation.copy(apart.setLength(this.reach).sub(this.apart));
  }
}
