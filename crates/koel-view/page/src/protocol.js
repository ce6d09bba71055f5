// Binary messages of the server, described in crates/koel-view/src/lib.rs.
const POINTS = 1;
const FRAME = 2;
const FRAME_BYTES = 4 * 24;

/** Decodes a binary message to `{ points }` or `{ frame }`. */
export function parse(buffer) {
  const words = new Uint32Array(buffer, 0, Math.floor(buffer.byteLength / 4));
  if (words[0] === POINTS) {
    const [, cloud, first, count] = words;
    const normals = 16 + 12 * count;
    return {
      points: {
        cloud,
        first,
        positions: new Float32Array(buffer, 16, 3 * count),
        normals: new Int8Array(buffer, normals, 4 * count),
      },
    };
  }
  if (words[0] !== FRAME) throw new Error(`a message of kind ${words[0]}`);
  const floats = new Float32Array(buffer, 0, FRAME_BYTES / 4);
  return {
    frame: {
      number: words[1],
      method: words[2] === 0 ? "robust" : "paper",
      rotation: floats.slice(3, 7),
      translation: floats.slice(7, 10),
      counts: [words.slice(10, 14), words.slice(14, 18)],
      stages: floats.slice(18, 24),
      labels: new Uint8Array(buffer, FRAME_BYTES),
    },
  };
}
