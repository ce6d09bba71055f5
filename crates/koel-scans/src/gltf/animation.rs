//! Animations: values of translations, rotations, scales and weights over time.

use super::accessor::{Expected, Reader, SCALAR, VEC3, VEC4, any};
use super::document::{Animation, Sampler};
use super::fault::{Fault, fault, get};
use super::transform::{Local, unit};
use nalgebra::Vector3;

/// What a channel changes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Path {
    Translation,
    Rotation,
    Scale,
    Weights,
}
#[derive(Clone, Copy, PartialEq)]
enum Interpolation {
    Step,
    Linear,
    CubicSpline,
}

/// An animation of the nodes.
pub(super) struct Clip {
    pub name: Option<String>,
    pub channels: Vec<Channel>,
    /// Time of the last key, in seconds.
    pub end: f64,
}
/// Keys of one property of one node.
pub(super) struct Channel {
    pub node: usize,
    pub path: Path,
    interpolation: Interpolation,
    times: Vec<f32>,
    /// Values of each key; for a cubic spline the tangent before it, its value and the tangent
    /// after it.
    values: Vec<f32>,
    /// Numbers in a value.
    width: usize,
}

/// Number of channels that change nothing that is read.
#[derive(Default)]
pub(super) struct Ignored(pub u64);

/// Reads an animation. `targets` are the morph targets of each node, `locals` their transforms.
pub(super) fn read(
    reader: &mut Reader<'_, '_, '_>,
    animation: &Animation,
    index: usize,
    (targets, locals): (&[usize], &[Local]),
    ignored: &mut Ignored,
) -> Result<Clip, Fault> {
    let mut clip = Clip { name: animation.name.clone(), channels: vec![], end: 0.0 };
    let mut taken = vec![];
    for (i, channel) in animation.channels.iter().enumerate() {
        let at = format!("animations[{index}].channels[{i}]");
        let sampler = get(&animation.samplers, "samplers", channel.sampler, &at)?;
        let path = match channel.target.path.as_str() {
            "translation" => Path::Translation,
            "rotation" => Path::Rotation,
            "scale" => Path::Scale,
            "weights" => Path::Weights,
            // Of an extension, such as a colour.
            _ => {
                ignored.0 += 1;
                continue;
            }
        };
        let Some(node) = channel.target.node else {
            ignored.0 += 1;
            continue;
        };
        let local = get(locals, "nodes", node, &at)?;
        if taken.contains(&(node, path)) {
            return Err(fault(at, format!("nodes[{node}] has another channel of this path")));
        }
        taken.push((node, path));
        let width = match path {
            Path::Translation | Path::Scale => 3,
            Path::Rotation => 4,
            Path::Weights => targets[node],
        };
        if path == Path::Weights && width == 0 {
            ignored.0 += 1;
            continue;
        }
        if path != Path::Weights && matches!(local, Local::Matrix(_)) {
            let reason = format!("nodes[{node}] has a matrix, expected parts that can be animated");
            return Err(fault(at, reason));
        }
        let channel = keys(reader, sampler, (node, path, width), &at)?;
        clip.end = clip.end.max(channel.times.last().copied().unwrap_or(0.0).into());
        clip.channels.push(channel);
    }
    Ok(clip)
}

/// Reads the times and values of a channel.
fn keys(
    reader: &mut Reader<'_, '_, '_>,
    sampler: &Sampler,
    (node, path, width): (usize, Path, usize),
    at: &str,
) -> Result<Channel, Fault> {
    let (interpolation, parts) = match sampler.interpolation.as_deref() {
        None | Some("LINEAR") => (Interpolation::Linear, 1),
        Some("STEP") => (Interpolation::Step, 1),
        Some("CUBICSPLINE") => (Interpolation::CubicSpline, 3),
        Some(other) => {
            let expected = "LINEAR, STEP or CUBICSPLINE";
            return Err(fault(at.into(), format!("interpolation {other:?}, expected {expected}")));
        }
    };
    let field = format!("{at}, input");
    let times = reader.floats(sampler.input, &field, any(SCALAR))?;
    if times.is_empty() {
        return Err(fault(field, "no keys, expected at least one".into()));
    }
    if let Some(i) = times.windows(2).position(|pair| pair[1] < pair[0]) {
        let (before, time) = (times[i], times[i + 1]);
        let reason = format!("key {}: {time} s after {before} s, expected ascending", i + 1);
        return Err(fault(field, reason));
    }
    if times[0] < 0.0 {
        return Err(fault(field, format!("key 0: {} s, expected >= 0", times[0])));
    }
    let (shape, each) = match path {
        Path::Translation | Path::Scale => (VEC3, 1),
        Path::Rotation => (VEC4, 1),
        Path::Weights => (SCALAR, width),
    };
    let field = format!("{at}, output");
    let count = (times.len() as u64).saturating_mul((parts * each) as u64);
    let expected = Expected { shape, count: usize::try_from(count).ok() };
    // The number of keys is that of an accessor with data; that of values must be the same.
    let values = reader.floats(sampler.output, &field, expected)?;
    let channel = Channel { node, path, interpolation, times, values, width };
    if path == Path::Rotation {
        let keys = 0..channel.times.len();
        let zero = |&key: &usize| channel.value(key).iter().all(|&c| c == 0.0);
        if let Some(key) = keys.into_iter().find(zero) {
            let reason = format!("key {key}: a quaternion of length 0, expected 1");
            return Err(fault(field, reason));
        }
    }
    Ok(channel)
}

impl Channel {
    fn part(&self, key: usize, part: usize, parts: usize) -> &[f32] {
        &self.values[(key * parts + part) * self.width..][..self.width]
    }
    fn value(&self, key: usize) -> &[f32] {
        match self.interpolation {
            Interpolation::CubicSpline => self.part(key, 1, 3),
            _ => self.part(key, 0, 1),
        }
    }
    /// Returns the value at a time. Before the first and after the last key, their values hold.
    pub(super) fn at(&self, seconds: f64) -> Vec<f64> {
        let wide = |values: &[f32]| values.iter().map(|&v| v.into()).collect::<Vec<f64>>();
        let after = self.times.partition_point(|&t| f64::from(t) <= seconds);
        if after == 0 || after == self.times.len() {
            return wide(self.value(after.saturating_sub(1)));
        }
        let key = after - 1;
        let [from, to] = [key, after].map(|key| f64::from(self.times[key]));
        let (span, u) = (to - from, (seconds - from) / (to - from));
        let (a, b) = (wide(self.value(key)), wide(self.value(after)));
        match self.interpolation {
            Interpolation::Step => a,
            Interpolation::Linear if self.path == Path::Rotation => {
                let [a, b] = [&a, &b].map(|q| unit(q));
                let between = a.try_slerp(&b, u, 1e-12).unwrap_or(a);
                between.coords.iter().copied().collect()
            }
            Interpolation::Linear => a.iter().zip(&b).map(|(a, b)| a + u * (b - a)).collect(),
            Interpolation::CubicSpline => {
                let (leave, arrive) = (self.part(key, 2, 3), self.part(after, 0, 3));
                let (u2, u3) = (u * u, u * u * u);
                let value = |i: usize| {
                    (2.0 * u3 - 3.0 * u2 + 1.0) * a[i]
                        + span * (u3 - 2.0 * u2 + u) * f64::from(leave[i])
                        + (3.0 * u2 - 2.0 * u3) * b[i]
                        + span * (u3 - u2) * f64::from(arrive[i])
                };
                (0..self.width).map(value).collect()
            }
        }
    }
    /// Sets the property of a node's transform to its value at a time.
    pub(super) fn apply(&self, seconds: f64, local: &mut Local) {
        let Local::Parts { translation, rotation, scale } = local else { return };
        let value = self.at(seconds);
        match (self.path, &value[..]) {
            (Path::Translation, &[x, y, z]) => *translation = Vector3::new(x, y, z),
            (Path::Scale, &[x, y, z]) => *scale = Vector3::new(x, y, z),
            (Path::Rotation, q) => *rotation = unit(q),
            _ => {}
        }
    }
}
