// Binary messages of the server, described in crates/koel-view/src/lib.rs.
const POINTS = 1;
const FRAME = 2;
const FRAME_BYTES = 4 * 26;

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
  const counts = [words.slice(10, 14), words.slice(14, 18)];
  const sizes = counts.map((of) => of.reduce((sum, n) => sum + n, 0));
  // Points of clouds that move follow the labels.
  let at = 4 * Math.ceil((FRAME_BYTES + sizes[0] + sizes[1]) / 4);
  const points = sizes.map((count, cloud) => {
    if (((words[25] >> cloud) & 1) === 0) return null;
    const begin = at;
    at += 16 * count;
    return { positions: new Float32Array(buffer, begin, 3 * count), normals: new Int8Array(buffer, begin + 12 * count, 4 * count) };
  });
  return {
    frame: {
      number: words[1],
      method: words[2] === 0 ? "robust" : "paper",
      rotation: floats.slice(3, 7),
      translation: floats.slice(7, 10),
      counts,
      sizes,
      stages: floats.slice(18, 24),
      moment: words[24],
      labels: new Uint8Array(buffer, FRAME_BYTES, sizes[0] + sizes[1]),
      points,
    },
  };
}
