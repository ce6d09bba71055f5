// Requested pose of B: moved by hand, and animated on a path through A.
import { Quaternion, Vector3 } from "three";

const SECONDS_A_ROUND = 10;
/** Amplitude of the animation to either side, as a fraction of the reach. */
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
    // The path follows the line of centres in the files, with a small lateral motion.
    this.along = this.apart.length() > 0.05 * this.reach ? this.apart.clone().normalize() : new Vector3(1, 0, 0);
    this.across = new Vector3(0, 1, 0).cross(this.along);
    if (this.across.length() < 0.1) this.across.set(0, 0, 1).cross(this.along);
    this.across.normalize();
  }
  /** Moves B by a vector in units of the files. */
  move(by) {
    this.translation.add(by);
    this.keepWithinReach(this.translation);
  }
  /** Rotates B around its centre, after all earlier turns. */
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
  /** Advances the animation. */
  advance(seconds) {
    if (this.animated) this.seconds += seconds;
  }
  /** Returns the current pose. */
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
