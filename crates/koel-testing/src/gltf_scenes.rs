//! glTF files made for tests, and the positions of their vertices in closed form.

use base64::Engine;
use serde_json::{Value, json};

/// Keys of an animation: node, path, interpolation, times and values.
pub type Keys<'a> = (usize, &'a str, &'a str, &'a [f32], &'a [f32]);

/// A document with one buffer.
pub struct Builder {
    /// The document, without its buffer.
    pub json: Value,
    /// Contents of the buffer.
    pub binary: Vec<u8>,
}
impl Default for Builder {
    fn default() -> Builder {
        Builder::new()
    }
}
impl Builder {
    /// Creates a document with an empty scene of one node.
    pub fn new() -> Builder {
        let json = json!({
            "asset": {"version": "2.0"}, "scene": 0, "scenes": [{"nodes": [0]}], "nodes": [],
            "meshes": [], "accessors": [], "bufferViews": []
        });
        Builder { json, binary: vec![] }
    }
    /// Appends an element to a list of the document and returns its index.
    pub fn push(&mut self, list: &str, element: Value) -> usize {
        if self.json[list].is_null() {
            self.json[list] = json!([]);
        }
        let all = self.json[list].as_array_mut().unwrap();
        all.push(element);
        all.len() - 1
    }
    /// Appends bytes and returns the index of their view.
    pub fn view(&mut self, bytes: &[u8]) -> usize {
        let padding = self.binary.len().next_multiple_of(4);
        self.binary.resize(padding, 0);
        let offset = self.binary.len();
        self.binary.extend(bytes);
        let view = json!({"buffer": 0, "byteOffset": offset, "byteLength": bytes.len()});
        self.push("bufferViews", view)
    }
    /// Appends an accessor of floats.
    pub fn floats(&mut self, kind: &str, values: &[f32]) -> usize {
        let view = self.view(bytemuck::cast_slice(values));
        let count = values.len() / width(kind);
        let mut accessor =
            json!({"bufferView": view, "componentType": 5126, "count": count, "type": kind});
        if kind == "VEC3" {
            let bound = |of: fn(f32, f32) -> f32| {
                let points = values.chunks(3).map(|p| [p[0], p[1], p[2]]);
                points.reduce(|a, b| [0, 1, 2].map(|i| of(a[i], b[i]))).unwrap()
            };
            (accessor["min"], accessor["max"]) = (json!(bound(f32::min)), json!(bound(f32::max)));
        }
        self.push("accessors", accessor)
    }
    /// Appends an accessor of unsigned integers of 8, 16 or 32 bits.
    pub fn integers(&mut self, kind: &str, bits: usize, values: &[u32]) -> usize {
        let bytes = values.iter().flat_map(|v| v.to_le_bytes()[..bits / 8].to_vec());
        let view = self.view(&bytes.collect::<Vec<u8>>());
        let (count, component) = (values.len() / width(kind), [5121, 5123, 0, 5125][bits / 8 - 1]);
        let accessor =
            json!({"bufferView": view, "componentType": component, "count": count, "type": kind});
        self.push("accessors", accessor)
    }
    /// Appends an animation.
    pub fn animation(&mut self, name: &str, channels: &[Keys<'_>]) {
        let (mut all, mut samplers) = (vec![], vec![]);
        for &(node, path, interpolation, times, values) in channels {
            let kind = match path {
                "rotation" => "VEC4",
                "weights" => "SCALAR",
                _ => "VEC3",
            };
            let (input, output) = (self.floats("SCALAR", times), self.floats(kind, values));
            all.push(json!({"sampler": samplers.len(), "target": {"node": node, "path": path}}));
            samplers
                .push(json!({"input": input, "output": output, "interpolation": interpolation}));
        }
        self.push("animations", json!({"name": name, "channels": all, "samplers": samplers}));
    }
    fn with_buffer(&self, uri: Option<&str>) -> Vec<u8> {
        let mut json = self.json.clone();
        json["buffers"] = json!([{"byteLength": self.binary.len()}]);
        if let Some(uri) = uri {
            json["buffers"][0]["uri"] = uri.into();
        }
        serde_json::to_vec(&json).unwrap()
    }
    /// Returns the binary form.
    pub fn glb(&self) -> Vec<u8> {
        let (mut json, mut binary) = (self.with_buffer(None), self.binary.clone());
        json.resize(json.len().next_multiple_of(4), b' ');
        binary.resize(binary.len().next_multiple_of(4), 0);
        let mut bytes = b"glTF\x02\0\0\0".to_vec();
        bytes.extend((28 + json.len() as u32 + binary.len() as u32).to_le_bytes());
        for (kind, chunk) in [(b"JSON", &json), (b"BIN\0", &binary)] {
            bytes.extend((chunk.len() as u32).to_le_bytes());
            bytes.extend(kind);
            bytes.extend(chunk);
        }
        bytes
    }
    /// Returns the text form with its buffer in a data URI.
    pub fn embedded(&self) -> Vec<u8> {
        let data = base64::engine::general_purpose::STANDARD.encode(&self.binary);
        self.with_buffer(Some(&format!("data:application/octet-stream;base64,{data}")))
    }
    /// Returns the text form with its buffer in another file.
    pub fn beside(&self, uri: &str) -> Vec<u8> {
        self.with_buffer(Some(uri))
    }
}
fn width(kind: &str) -> usize {
    match kind {
        "SCALAR" => 1,
        "VEC3" => 3,
        "VEC4" => 4,
        "MAT4" => 16,
        _ => panic!("{kind}"),
    }
}

/// Length, width and height of the bar, around the x axis from the origin.
pub const BAR: [f32; 3] = [4.0, 0.6, 0.4];
/// Seconds of the bar's animation.
pub const BEND: f64 = 2.0;
/// The joint is here on the x axis.
pub const JOINT: f64 = 2.0;

/// Returns the corners of a closed bar of rings along the x axis, and its triangles.
pub fn bar(rings: usize) -> (Vec<[f32; 3]>, Vec<[u32; 3]>) {
    let [length, width, height] = BAR;
    let mut positions = vec![];
    for ring in 0..rings {
        let x = length * ring as f32 / (rings - 1) as f32;
        for (y, z) in [(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)] {
            positions.push([x, 0.5 * width * y, 0.5 * height * z]);
        }
    }
    let mut triangles = vec![[0, 3, 2], [0, 2, 1]];
    for ring in 0..rings as u32 - 1 {
        for side in 0..4 {
            let (a, b) = (4 * ring + side, 4 * ring + (side + 1) % 4);
            triangles.extend([[a, b, b + 4], [a, b + 4, a + 4]]);
        }
    }
    let last = 4 * (rings as u32 - 1);
    triangles.extend([[last, last + 1, last + 2], [last, last + 2, last + 3]]);
    (positions, triangles)
}
/// Weight of the second joint: it grows around the middle of the bar.
pub fn weight(x: f64) -> f64 {
    ((x - JOINT) / 1.0 + 0.5).clamp(0.0, 1.0)
}
/// Displacement of the morph target: the bar swells towards its end.
pub fn swelling(p: [f64; 3]) -> [f64; 3] {
    [0.0, 0.5 * p[1] * p[0] / f64::from(BAR[0]), 0.25 * p[2]]
}

/// Returns a bar with two joints and a morph target. Its animation "bend" turns the second joint by
/// a right angle around z in two seconds, and raises the weight of the morph target from 0 to 1 on
/// a cubic spline with tangents 0. The node of the mesh is moved, which a skin ignores; the first
/// joint is moved by `at`.
pub fn bending_bar(rings: usize, at: [f64; 3]) -> Builder {
    let (positions, triangles) = bar(rings);
    let wide = |p: &[f32; 3]| p.map(f64::from);
    let mut b = Builder::new();
    let swells = positions.iter().flat_map(|p| swelling(wide(p)).map(|c| c as f32));
    let swells = b.floats("VEC3", &swells.collect::<Vec<f32>>());
    let weights = positions.iter().flat_map(|p| {
        let w = weight(p[0].into()) as f32;
        [1.0 - w, w, 0.0, 0.0]
    });
    let weights = b.floats("VEC4", &weights.collect::<Vec<f32>>());
    let joints = b.integers("VEC4", 8, &[0, 1, 0, 0].repeat(positions.len()));
    let corners = b.integers("SCALAR", 16, triangles.as_flattened());
    let place = b.floats("VEC3", positions.as_flattened());
    #[rustfmt::skip]
    let bind = [
        1.0, 0.0, 0.0, 0.0,  0.0, 1.0, 0.0, 0.0,  0.0, 0.0, 1.0, 0.0,  0.0, 0.0, 0.0, 1.0,
        1.0, 0.0, 0.0, 0.0,  0.0, 1.0, 0.0, 0.0,  0.0, 0.0, 1.0, 0.0,  -JOINT as f32, 0.0, 0.0, 1.0,
    ];
    let bind = b.floats("MAT4", &bind);
    b.push(
        "meshes",
        json!({"primitives": [{
            "attributes": {"POSITION": place, "JOINTS_0": joints, "WEIGHTS_0": weights},
            "indices": corners, "targets": [{"POSITION": swells}]
        }]}),
    );
    b.push("nodes", json!({"mesh": 0, "skin": 0, "translation": [7, 8, 9]}));
    b.push("nodes", json!({"children": [2], "translation": at}));
    b.push("nodes", json!({"translation": [JOINT, 0, 0]}));
    b.push("skins", json!({"joints": [1, 2], "inverseBindMatrices": bind}));
    b.json["scenes"] = json!([{"nodes": [0, 1]}]);
    let half = std::f32::consts::FRAC_1_SQRT_2;
    let turn = [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, half, half];
    b.animation(
        "bend",
        &[
            (2, "rotation", "LINEAR", &[0.0, BEND as f32], &turn),
            (0, "weights", "CUBICSPLINE", &[0.0, BEND as f32], &[0.0, 0.0, 0.0, 0.0, 1.0, 0.0]),
        ],
    );
    b
}
/// Returns where the animation of [`bending_bar`] puts a corner of [`bar`], in closed form.
pub fn bent(p: [f64; 3], at: [f64; 3], seconds: f64) -> [f64; 3] {
    let u = (seconds / BEND).clamp(0.0, 1.0);
    let (swell, angle) = (u * u * (3.0 - 2.0 * u), u * std::f64::consts::FRAC_PI_2);
    let by = swelling(p);
    let p: [f64; 3] = std::array::from_fn(|a| p[a] + swell * by[a]);
    let (sin, cos) = angle.sin_cos();
    let x = p[0] - JOINT;
    let turned = [cos * x - sin * p[1] + JOINT, sin * x + cos * p[1], p[2]];
    let w = weight(p[0]);
    std::array::from_fn(|a| at[a] + (1.0 - w) * p[a] + w * turned[a])
}
