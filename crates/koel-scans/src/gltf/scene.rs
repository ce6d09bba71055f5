//! Nodes of the scene, and the vertices of its meshes at a moment.

use super::accessor::{Expected, MAT4, Reader};
use super::animation::{self, Clip, Ignored, Path};
use super::document::{self, Document};
use super::fault::{Fault, fault, get};
use super::surface::{self, MeshSurfaces, Room, Skipped, Surface};
use super::transform::{Local, affine};
use nalgebra::{Matrix4, Point3};
use rayon::prelude::*;

/// A primitive of a mesh that a node shows.
struct Instance {
    node: usize,
    mesh: usize,
    surface: usize,
    skin: Option<usize>,
    /// Whether the node's transform mirrors the surface.
    is_mirrored: bool,
}
struct Skin {
    joints: Vec<usize>,
    /// One per joint.
    inverse_bind: Vec<Matrix4<f64>>,
}

/// The meshes of a scene and all that moves them.
pub(super) struct Model {
    locals: Vec<Local>,
    parents: Vec<Option<usize>>,
    /// All nodes, parents before their children.
    order: Vec<usize>,
    /// Weights that nodes set for the morph targets of their meshes.
    weights: Vec<Option<Vec<f32>>>,
    /// By mesh; only those that the scene shows.
    shapes: Vec<Option<MeshSurfaces>>,
    skins: Vec<Skin>,
    instances: Vec<Instance>,
    pub clips: Vec<Clip>,
}

/// A moment of a model.
struct Moment {
    /// Transforms of all nodes to the scene.
    worlds: Vec<Matrix4<f64>>,
    /// Weights of morph targets that are animated, by node.
    weights: Vec<Option<Vec<f64>>>,
}

/// What a scene holds that is not read.
#[derive(Default)]
pub(super) struct Account {
    pub skipped: Skipped,
    pub ignored: Ignored,
    /// Nodes with a mesh that are not in the scene.
    pub elsewhere: u64,
    /// Whether the document names its default scene.
    pub is_default: bool,
}

impl Model {
    pub(super) fn read(
        reader: &mut Reader<'_, '_, '_>,
        account: &mut Account,
    ) -> Result<Model, Fault> {
        let document = reader.document;
        let (parents, order) = tree(document)?;
        let name = |i: usize| format!("nodes[{i}]");
        let nodes = || document.nodes.iter().enumerate();
        let locals =
            nodes().map(|(i, node)| Local::of(node, &name(i))).collect::<Result<Vec<_>, _>>()?;
        let mut model = Model {
            locals,
            parents,
            order,
            weights: document.nodes.iter().map(|node| node.weights.clone()).collect(),
            shapes: document.meshes.iter().map(|_| None).collect(),
            skins: skins(reader)?,
            instances: vec![],
            clips: vec![],
        };
        let is_shown = model.shown(document, account)?;
        let worlds = model.moment(None).worlds;
        let mut room = Room::default();
        for (i, node) in nodes() {
            let Some(mesh) = node.mesh else { continue };
            if !is_shown[i] {
                account.elsewhere += 1;
                continue;
            }
            model.show(reader, (i, mesh), &mut room, &mut account.skipped)?;
            let is_mirrored = node.skin.is_none() && determinant(&worlds[i]) < 0.0;
            let surfaces = model.shapes[mesh].as_ref().map_or(0, |shape| shape.surfaces.len());
            let of = |surface| Instance { node: i, mesh, surface, skin: node.skin, is_mirrored };
            model.instances.extend((0..surfaces).map(of));
        }
        let targets = |node: &document::Node| {
            let shape = node.mesh.and_then(|mesh| model.shapes[mesh].as_ref());
            shape.map_or(0, |shape| shape.targets)
        };
        let targets = document.nodes.iter().map(targets).collect::<Vec<usize>>();
        for (i, animation) in document.animations.iter().enumerate() {
            let nodes = (&targets[..], &model.locals[..]);
            let clip = animation::read(reader, animation, i, nodes, &mut account.ignored)?;
            model.clips.push(clip);
        }
        Ok(model)
    }
    /// Reads the mesh of a node if no other node shows it, and checks that it fits the node.
    fn show(
        &mut self,
        reader: &mut Reader<'_, '_, '_>,
        (node, mesh): (usize, usize),
        room: &mut Room,
        skipped: &mut Skipped,
    ) -> Result<(), Fault> {
        let (document, at) = (reader.document, format!("nodes[{node}]"));
        let declared = get(&document.meshes, "meshes", mesh, &at)?;
        if self.shapes[mesh].is_none() {
            self.shapes[mesh] = Some(surface::read(reader, declared, mesh, room, skipped)?);
        }
        let Some(shape) = &self.shapes[mesh] else { return Ok(()) };
        if let Some(weights) = &self.weights[node]
            && weights.len() != shape.targets
            && !shape.surfaces.is_empty()
        {
            let (found, targets) = (weights.len(), shape.targets);
            let reason = format!("{found} weights for {targets} morph targets, expected as many");
            return Err(fault(at, reason));
        }
        for surface in &shape.surfaces {
            room.take((surface.positions.len() + 3 * surface.triangles.len()) as u64, &at)?;
        }
        let Some(skin) = document.nodes[node].skin else { return Ok(()) };
        let joints = get(&self.skins, "skins", skin, &at)?.joints.len();
        for (i, surface) in shape.surfaces.iter().enumerate() {
            let primitive = format!("{at}, meshes[{mesh}].primitives[{i}]");
            if surface.influences.is_empty() {
                let reason = "has a skin but no JOINTS_0 and WEIGHTS_0";
                return Err(fault(primitive, reason.into()));
            }
            let all = surface.influences.iter().flat_map(|set| set.joints.iter().flatten());
            if let Some(&joint) = all.max().filter(|&&joint| joint as usize >= joints) {
                let reason = format!("joint {joint}, but skins[{skin}] has {joints}");
                return Err(fault(primitive, reason));
            }
        }
        Ok(())
    }
    /// Returns which nodes are in the scene: the default one, the first, or all if there is none.
    fn shown(&self, document: &Document, account: &mut Account) -> Result<Vec<bool>, Fault> {
        account.is_default = document.scene.is_some();
        let mut shown = vec![false; self.locals.len()];
        let at = "scene";
        match (document.scene, document.scenes.is_empty()) {
            (None, true) => shown.fill(true),
            (scene, _) => {
                let index = scene.unwrap_or(0);
                let scene = get(&document.scenes, "scenes", index, at)?;
                for &node in &scene.nodes {
                    get(&document.nodes, "nodes", node, &format!("scenes[{index}]"))?;
                    shown[node] = true;
                }
            }
        }
        for &node in &self.order {
            shown[node] |= self.parents[node].is_some_and(|parent| shown[parent]);
        }
        Ok(shown)
    }
    /// Returns the transforms and weights of an animation at a time, or without one.
    fn moment(&self, at: Option<(usize, f64)>) -> Moment {
        let mut locals = self.locals.clone();
        let mut weights = vec![None; locals.len()];
        if let Some((clip, seconds)) = at {
            for channel in &self.clips[clip].channels {
                match channel.path {
                    Path::Weights => weights[channel.node] = Some(channel.at(seconds)),
                    _ => channel.apply(seconds, &mut locals[channel.node]),
                }
            }
        }
        let mut worlds = vec![Matrix4::identity(); locals.len()];
        for &node in &self.order {
            let local = locals[node].matrix();
            worlds[node] = match self.parents[node] {
                Some(parent) => worlds[parent] * local,
                None => local,
            };
        }
        Moment { worlds, weights }
    }
    /// Returns the number of vertices.
    pub(super) fn vertices(&self) -> usize {
        self.instances.iter().map(|instance| self.surface(instance).positions.len()).sum()
    }
    /// Returns the triangles, with corners in the order in which the model is shown without an
    /// animation.
    pub(super) fn triangles(&self) -> Vec<[u32; 3]> {
        let (mut all, mut first) = (vec![], 0);
        for instance in &self.instances {
            let surface = self.surface(instance);
            let placed = surface.triangles.iter().map(|t| t.map(|corner| corner + first));
            let turned = |[a, b, c]: [u32; 3]| {
                if instance.is_mirrored { [a, c, b] } else { [a, b, c] }
            };
            all.extend(placed.map(turned));
            first += surface.positions.len() as u32;
        }
        all
    }
    fn surface(&self, instance: &Instance) -> &Surface {
        match &self.shapes[instance.mesh] {
            Some(shape) => &shape.surfaces[instance.surface],
            None => unreachable!("meshes of instances are read"),
        }
    }
    /// Returns the vertices at a time of an animation, or without one, each passed through `of`.
    pub(super) fn positions<T: Send>(
        &self,
        at: Option<(usize, f64)>,
        of: impl Fn([f64; 3]) -> T + Sync,
    ) -> Vec<T> {
        let moment = self.moment(at);
        let mut all = Vec::with_capacity(self.vertices());
        for instance in &self.instances {
            let surface = self.surface(instance);
            let weights = self.morph_weights(instance, &moment);
            let bones = instance.skin.map(|skin| self.bones(skin, &moment.worlds));
            let world = moment.worlds[instance.node];
            let place = |vertex: usize| {
                let morphed = morphed(surface, &weights, vertex);
                let matrix = match &bones {
                    Some(bones) => blended(surface, bones, vertex),
                    None => world,
                };
                let moved = matrix.transform_point(&Point3::from(morphed));
                of([moved.x, moved.y, moved.z])
            };
            all.par_extend((0..surface.positions.len()).into_par_iter().map(place));
        }
        all
    }
    /// Returns whether a node mirrors its surface at a time of an animation but not without one, or
    /// the other way round.
    pub(super) fn turns_inside_out(&self, clip: usize, seconds: f64) -> bool {
        let worlds = self.moment(Some((clip, seconds))).worlds;
        let mut rigid = self.instances.iter().filter(|instance| instance.skin.is_none());
        rigid.any(|i| (determinant(&worlds[i.node]) < 0.0) != i.is_mirrored)
    }
    /// Returns the weights of the morph targets: animated, of the node, of the mesh, or zero.
    fn morph_weights(&self, instance: &Instance, moment: &Moment) -> Vec<f64> {
        if let Some(animated) = &moment.weights[instance.node] {
            return animated.clone();
        }
        let of_mesh = self.shapes[instance.mesh].as_ref().and_then(|shape| shape.weights.as_ref());
        let weights = self.weights[instance.node].as_ref().or(of_mesh);
        weights.map_or(vec![], |weights| weights.iter().map(|&w| w.into()).collect())
    }
    /// Returns the transforms of a skin's joints from the pose in which it was bound.
    fn bones(&self, skin: usize, worlds: &[Matrix4<f64>]) -> Vec<Matrix4<f64>> {
        let Skin { joints, inverse_bind } = &self.skins[skin];
        joints.iter().zip(inverse_bind).map(|(&joint, bind)| worlds[joint] * bind).collect()
    }
}

fn morphed(surface: &Surface, weights: &[f64], vertex: usize) -> [f64; 3] {
    let mut position = surface.positions[vertex].map(f64::from);
    for (target, &weight) in surface.targets.iter().zip(weights) {
        if let Some(target) = target.as_ref().filter(|_| weight != 0.0) {
            (0..3).for_each(|a| position[a] += weight * f64::from(target[vertex][a]));
        }
    }
    position
}
/// Returns the mean of the transforms of a vertex's joints, by weight.
fn blended(surface: &Surface, bones: &[Matrix4<f64>], vertex: usize) -> Matrix4<f64> {
    let mut sum = Matrix4::zeros();
    for set in &surface.influences {
        for (&joint, &weight) in set.joints[vertex].iter().zip(&set.weights[vertex]) {
            if weight > 0.0 {
                sum += bones[joint as usize] * f64::from(weight);
            }
        }
    }
    // The weights sum to 1 up to rounding, which is not a change of scale.
    sum[(3, 3)] = 1.0;
    sum
}
fn determinant(matrix: &Matrix4<f64>) -> f64 {
    matrix.fixed_view::<3, 3>(0, 0).determinant()
}

/// Returns the parent of each node, and all nodes with parents before their children.
fn tree(document: &Document) -> Result<(Vec<Option<usize>>, Vec<usize>), Fault> {
    let nodes = &document.nodes;
    let mut parents: Vec<Option<usize>> = vec![None; nodes.len()];
    for (i, node) in nodes.iter().enumerate() {
        for &child in &node.children {
            let at = format!("nodes[{i}]");
            get(nodes, "nodes", child, &at)?;
            if let Some(other) = parents[child].replace(i) {
                let reason = format!("its child nodes[{child}] is also one of nodes[{other}]");
                return Err(fault(at, reason));
            }
        }
    }
    let mut order =
        (0..nodes.len()).filter(|&node| parents[node].is_none()).collect::<Vec<usize>>();
    let mut next = 0;
    while let Some(&node) = order.get(next) {
        order.extend(&nodes[node].children);
        next += 1;
    }
    if order.len() < nodes.len() {
        let mut reached = vec![false; nodes.len()];
        order.iter().for_each(|&node| reached[node] = true);
        let first = reached.iter().position(|&is| !is).unwrap_or_default();
        return Err(fault(format!("nodes[{first}]"), "is below itself, expected a tree".into()));
    }
    Ok((parents, order))
}

fn skins(reader: &mut Reader<'_, '_, '_>) -> Result<Vec<Skin>, Fault> {
    let document = reader.document;
    let mut skins = vec![];
    for (i, skin) in document.skins.iter().enumerate() {
        let at = format!("skins[{i}]");
        for &joint in &skin.joints {
            get(&document.nodes, "nodes", joint, &at)?;
        }
        let count = skin.joints.len();
        let inverse_bind = match skin.inverse_bind_matrices {
            None => vec![Matrix4::identity(); count],
            Some(accessor) => {
                let field = format!("{at}.inverseBindMatrices");
                let expected = Expected { shape: MAT4, count: Some(count) };
                let values = reader.floats(accessor, &field, expected)?;
                let matrices = values.as_chunks::<16>().0.iter().enumerate();
                let matrix = |(joint, columns): (usize, &[f32; 16])| {
                    let at = format!("{field}, matrix {joint}");
                    affine(Matrix4::from_column_slice(columns).map(f64::from), &at)
                };
                matrices.map(matrix).collect::<Result<_, _>>()?
            }
        };
        skins.push(Skin { joints: skin.joints.clone(), inverse_bind });
    }
    Ok(skins)
}
