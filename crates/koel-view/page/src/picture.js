// The picture: two clouds of points, coloured by label and shaded by normal.
import {
  BufferAttribute, BufferGeometry, Color, DynamicDrawUsage, GLSL3, Group, PerspectiveCamera, Points, Quaternion, Scene,
  ShaderMaterial, Vector3, WebGLRenderer,
} from "three";
import { OrbitControls } from "three/examples/jsm/controls/OrbitControls.js";
import { BACKGROUND, COLOURS } from "./palette.js";

const FIELD_OF_VIEW = 38;
const FIRST_DIRECTION = new Vector3(0.45, 0.4, 1).normalize();
const Z_UP = new Quaternion().setFromAxisAngle(new Vector3(1, 0, 0), -Math.PI / 2);

const VERTEX = `
uniform vec3 colours[4];
uniform bool shown[4];
uniform float diameter;
uniform float pixels;
uniform float least;
in float label;
in vec4 facing;
out vec3 colour;
out float size;
void main() {
  int kind = int(label + 0.5);
  vec4 place = modelViewMatrix * vec4(position, 1.0);
  gl_Position = shown[kind] ? projectionMatrix * place : vec4(0.0, 0.0, 2.0, 1.0);
  size = clamp(diameter * pixels / -place.z, least, 40.0);
  gl_PointSize = size;
  // Lit from beside the camera; the surface's other side, seen through gaps and Booleans, is a little darker.
  float towards = dot(normalize(normalMatrix * facing.xyz + vec3(0.0, 0.0, 1e-6)), normalize(vec3(0.35, 0.45, 1.0)));
  colour = colours[kind] * (towards > 0.0 ? 0.42 + 0.58 * towards : 0.42 - 0.36 * towards);
}`;
const FRAGMENT = `
uniform bool round;
in vec3 colour;
in float size;
out vec4 result;
void main() {
  vec2 from = 2.0 * gl_PointCoord - 1.0;
  if (round && size > 3.0 && dot(from, from) > 1.0) discard;
  result = vec4(colour, 1.0);
}`;

/** Allocates a geometry for a number of points, none of which is drawn yet. */
function roomFor(points) {
  const geometry = new BufferGeometry();
  const room = (array, width, normalized) => new BufferAttribute(array, width, normalized).setUsage(DynamicDrawUsage);
  geometry.setAttribute("position", room(new Float32Array(3 * points), 3));
  geometry.setAttribute("facing", room(new Int8Array(4 * points), 4, true));
  geometry.setAttribute("label", room(new Uint8Array(points), 1));
  geometry.setDrawRange(0, 0);
  return geometry;
}

export class Picture {
  /** Throws if WebGL is unavailable. */
  constructor(canvas, changed) {
    this.canvas = canvas;
    this.changed = changed;
    this.renderer = new WebGLRenderer({ canvas, antialias: false, powerPreference: "high-performance" });
    this.renderer.setClearColor(new Color(BACKGROUND));
    this.camera = new PerspectiveCamera(FIELD_OF_VIEW, 1, 0.01, 100);
    this.controls = new OrbitControls(this.camera, canvas);
    this.controls.enableDamping = false;
    this.controls.addEventListener("change", changed);
    this.world = new Scene();
    // Coordinates of the files, scaled so that the larger ball has radius 1.
    this.root = new Group();
    this.world.add(this.root);
    this.clouds = [];
    new ResizeObserver(() => this.resize()).observe(canvas);
    this.resize();
  }
  resize() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (width === 0 || height === 0) return;
    this.renderer.setPixelRatio(Math.min(devicePixelRatio, 2));
    this.renderer.setSize(width, height, false);
    this.camera.aspect = width / height;
    this.camera.updateProjectionMatrix();
    this.changed();
  }

  /** Allocates buffers for a scene's points. */
  begin(scene) {
    this.clouds.forEach((cloud) => {
      this.root.remove(cloud);
      cloud.geometry.dispose();
      cloud.material.dispose();
    });
    const first = this.scene === undefined;
    this.scene = scene;
    this.unit = Math.max(...scene.clouds.map(({ radius }) => radius)) || 1;
    this.root.scale.setScalar(1 / this.unit);
    this.apart = new Vector3(...scene.apart);
    this.clouds = scene.clouds.map(({ points, radius }, cloud) => {
      const geometry = roomFor(points);
      const material = new ShaderMaterial({
        glslVersion: GLSL3,
        vertexShader: VERTEX,
        fragmentShader: FRAGMENT,
        uniforms: {
          colours: { value: COLOURS[cloud].map((hex) => new Color().setStyle(hex, "srgb-linear")) },
          shown: { value: [true, true, true, true] },
          diameter: { value: this.diameter(cloud, points, radius) },
          pixels: { value: 1 },
          least: { value: 1.5 },
          round: { value: cloud === 0 },
        },
      });
      const object = new Points(geometry, material);
      object.frustumCulled = false;
      this.root.add(object);
      return object;
    });
    this.clouds[1].position.copy(this.apart);
    if (first) this.fit();
  }
  /** Returns the diameter of points: twice the spacing of even points on the ball. */
  diameter(cloud, points, radius) {
    // Points of scans are less even, and must hide what is behind them. Discs have the same area as
    // squares.
    return ((cloud === 0 ? 2.26 : 2) * Math.sqrt((4 * Math.PI) / points) * radius) / this.unit;
  }
  addPoints({ cloud, first, positions, normals }) {
    const { attributes } = this.clouds[cloud].geometry;
    attributes.position.array.set(positions, 3 * first);
    attributes.facing.array.set(normals, 4 * first);
    attributes.position.needsUpdate = true;
    attributes.facing.needsUpdate = true;
  }
  /** Shows a frame: B in the pose that was computed, with the computed labels. */
  show({ rotation, translation, sizes, labels, points }) {
    let first = 0;
    this.clouds.forEach((cloud, i) => {
      const count = sizes[i];
      if (count > cloud.geometry.attributes.label.count) {
        // More points than ever: some room for those of other moments.
        cloud.geometry.dispose();
        cloud.geometry = roomFor(Math.ceil(1.25 * count));
      }
      if (points[i]) {
        this.addPoints({ cloud: i, first: 0, ...points[i] });
        cloud.material.uniforms.diameter.value = this.diameter(i, count, this.scene.clouds[i].radius);
      }
      const { label } = cloud.geometry.attributes;
      label.array.set(labels.subarray(first, first + count));
      label.needsUpdate = true;
      first += count;
      cloud.geometry.setDrawRange(0, count);
    });
    const b = this.clouds[1];
    b.quaternion.fromArray(rotation);
    b.position.fromArray(translation).add(this.apart);
    this.changed();
  }
  /** Sets which labels of which cloud are drawn. */
  setShown(shown) {
    this.clouds.forEach((cloud, i) => {
      cloud.material.uniforms.shown.value = shown[i];
    });
    this.changed();
  }
  setUp(zIsUp) {
    this.root.quaternion.copy(zIsUp ? Z_UP : new Quaternion());
    this.fit();
  }
  /** Fits the whole scene into the picture. */
  fit() {
    const middle = this.toWorld(this.apart.clone().multiplyScalar(0.5));
    const half = (0.5 * this.apart.length() + this.unit) / this.unit;
    const narrow = Math.min(1, this.camera.aspect);
    const away = (1.04 * half) / Math.sin((FIELD_OF_VIEW * Math.PI) / 360) / narrow;
    this.controls.target.copy(middle);
    this.camera.position.copy(middle).addScaledVector(FIRST_DIRECTION, away);
    this.camera.near = away / 200;
    this.camera.far = away * 20;
    this.camera.updateProjectionMatrix();
    this.controls.minDistance = 0.05 * half;
    this.controls.maxDistance = 8 * away;
    this.controls.update();
    this.changed();
  }
  /** Orbits the camera around its target, in radians, and brings it nearer by a factor. */
  orbit(right, up, nearer) {
    const { camera, controls } = this;
    const from = camera.position.clone().sub(controls.target);
    const polar = from.angleTo(camera.up);
    const rise = Math.min(Math.max(up, polar - Math.PI + 0.01), polar - 0.01);
    from.applyAxisAngle(this.axes().right, -rise).applyAxisAngle(camera.up, right);
    from.setLength(Math.min(Math.max(from.length() / nearer, controls.minDistance), controls.maxDistance));
    camera.position.copy(controls.target).add(from);
    controls.update();
    this.changed();
  }
  toWorld(v) {
    return v.applyQuaternion(this.root.quaternion).divideScalar(this.unit);
  }
  /** Returns the camera's axes in world space. */
  axes() {
    const axis = (x, y, z) => new Vector3(x, y, z).applyQuaternion(this.camera.quaternion);
    return { right: axis(1, 0, 0), up: axis(0, 1, 0), back: axis(0, 0, 1) };
  }
  /** Converts a direction from view space (right, up, towards) to the axes of the files. */
  fromView(x, y, z) {
    const { right, up, back } = this.axes();
    const v = right.multiplyScalar(x).addScaledVector(up, y).addScaledVector(back, z);
    return v.applyQuaternion(this.root.quaternion.clone().invert());
  }
  /** Returns the size of a pixel at B, in units of the files. */
  unitsOfPixel() {
    const b = this.toWorld(this.clouds[1].position.clone());
    const depth = Math.max(this.camera.position.distanceTo(b), this.camera.near);
    const height = 2 * depth * Math.tan((FIELD_OF_VIEW * Math.PI) / 360);
    return (height / this.canvas.clientHeight) * this.unit;
  }
  /** Returns the position of a cloud's name, in canvas pixels; null if not in view. */
  tagOf(cloud) {
    const { radius } = this.scene.clouds[cloud];
    const top = this.toWorld(this.clouds[cloud].position.clone());
    top.addScaledVector(this.axes().up, (1.04 * radius) / this.unit).project(this.camera);
    if (Math.abs(top.z) > 1) return null;
    return { x: (0.5 + 0.5 * top.x) * this.canvas.clientWidth, y: (0.5 - 0.5 * top.y) * this.canvas.clientHeight };
  }
  draw() {
    const ratio = this.renderer.getPixelRatio();
    const pixels = (this.canvas.clientHeight * ratio) / (2 * Math.tan((FIELD_OF_VIEW * Math.PI) / 360));
    for (const { material } of this.clouds) {
      material.uniforms.pixels.value = pixels;
      material.uniforms.least.value = 1.5 * ratio;
    }
    this.renderer.render(this.world, this.camera);
  }
}
