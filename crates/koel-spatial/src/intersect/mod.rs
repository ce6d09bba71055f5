//! Frame-by-frame intersection of two clouds of oriented points: the voxels they share, the part of
//! each inside the other solid, and their union, intersection and differences.
//!
//! # A frame
//! An [`Intersector`] owns both clouds and every buffer. [`frame`](Intersector::frame) launches
//! these stages on its stream, for both clouds at once, and allocates nothing. The kernels
//! (`koel_spatial_kernels::intersect`) consist of independent threads, from one source for GPU,
//! executor and CPU. Only what passes over the points has code of its own for the CPU (`parts`),
//! which does the same in fewer passes, with the same bits.
//!
//! * voxelize (thread per word or 4 points): points, poses -> voxel keys (Morton), positions in the
//!   voxel, bitmap of occupied 4^3-voxel bricks of all levels
//! * build, index (word, point, brick): bitmap -> cells of each brick; ranks for key -> number and
//!   number -> key
//! * build, sums (4 points, point, voxel): keys, positions, normals -> points by voxel; count and
//!   sums of positions, normals and \|n\|_1 (integers)
//! * build, area (cell of the area level): sums -> area per point
//! * build, dipoles (voxel, then cell of each level): sums, area -> centre, area, area x normal and
//!   count of every cell
//! * intersect (cell): index of both -> intersections; free cells ("units"); voxels near the other
//!   surface
//! * seed (query, level, brick): dipoles -> winding numbers of units and of samples on the own
//!   surface; iso values; closedness
//! * fill (near voxel; voxel; undecided voxel): all -> margins by nearby normals, by unit, or by a
//!   winding number of their own; labels
//!
//! Method robust never synchronizes, so its frames can be [recorded](Intersector::record) as one
//! CUDA graph.
//!
//! The levels are those of an octree, numbered in one index: a cell of level l has 2^l voxels per
//! side.
//!
//! Method [`Robust`](Method::Robust): a generalized winding number (Barill et al. 2018) classifies
//! whole free cells instead of voxels, so most voxels cost a few lookups. It is compared not with
//! 1/2 but with its median on the surface itself, which makes it robust to flipped normals,
//! misestimated areas and thin walls. Close to the other surface, a moving least-squares fit of its
//! nearest normals decides. There is no flood, so nothing leaks through holes of the voxel surface.
//!
//! Method [`Paper`](Method::Paper) is that of Alcantara et al. 2009: it seeds voxels beside the
//! intersection, floods over face neighbours, clears conflicting seeds, and repeats.
//!
//! Labels are bitwise identical on every device and in every run: points are summed in integers,
//! lists of varying order are processed order-independently, and floating-point sums have a fixed
//! order.
//!
//! Device memory: about 300 bytes per point plus N^3 / 45 bytes, where N is the grid's resolution
//! rounded up to a power of two (see [`Intersector::bytes`]). On a CPU about 80 bytes per point
//! more.

mod boolean;
mod cloud;
mod error;
mod flood;
mod index;
mod parts;
mod pose;
mod recorded;
mod robust;
mod solid;
mod summary;
mod surface;

pub use boolean::{Boolean, LabelledPoints};
pub use error::IntersectError;
pub use pose::Pose;
pub use recorded::RecordedFrames;
pub use solid::{BooleanMesh, Solids, Volume};
pub use summary::{LabelCounts, Measures, Summary, Surface};

use crate::grid::Grid;
use cloud::Points;
use flood::Flood;
use index::CellIndex;
use koel::device::{Apart, DeviceKind, Event};
use koel::{Buffer, Device, Stream, View};
use koel_scans::PointCloud;
use koel_spatial_kernels::intersect::begin::{self, spatial_begin};
use koel_spatial_kernels::intersect::clouds::{Motion, Motions};
use koel_spatial_kernels::intersect::labels::spatial_label_points;
use koel_spatial_kernels::intersect::layout::Shape;
use koel_spatial_kernels::intersect::state;
use koel_spatial_kernels::intersect::voxelize::{Frame, VoxelsOut, spatial_voxelize};
use robust::Robust;
use surface::SurfaceSums;

/// Maximum number of points per cloud.
pub const MAX_POINTS: usize = 1 << 24;

/// One of the two clouds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Side {
    /// First cloud.
    A,
    /// Second cloud.
    B,
}
impl Side {
    /// Both clouds.
    pub const BOTH: [Side; 2] = [Side::A, Side::B];
    pub(crate) fn index(self) -> usize {
        self as usize
    }
}
impl std::fmt::Display for Side {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if *self == Side::A { "A" } else { "B" })
    }
}

/// Classification of a voxel of one cloud.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum Label {
    /// Not certain.
    Unknown = 0,
    /// Occupied by both clouds.
    Intersection = 1,
    /// Inside the other solid.
    Inside = 2,
    /// Outside the other solid.
    Outside = 3,
}
impl Label {
    /// All labels, indexed by their numbers.
    pub const ALL: [Label; 4] =
        [Label::Unknown, Label::Intersection, Label::Inside, Label::Outside];
    fn of(word: u32) -> Label {
        Label::ALL[word as usize & 3]
    }
}

/// Method that separates inside from outside.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Method {
    /// Winding numbers of free cells, normals nearby.
    Robust(RobustOptions),
    /// Seeds and flood, as published in 2009.
    Paper(PaperOptions),
}
impl Default for Method {
    fn default() -> Self {
        Method::Robust(RobustOptions::default())
    }
}
/// Options of the robust method.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct RobustOptions {
    /// Treat both surfaces as closed, whatever their closedness.
    pub assume_closed: bool,
}
koel::option_setters! { RobustOptions:
    assume_closed by with_assume_closed: bool;
}
/// Angles and rounds of the paper's method. The paper specifies no angles; the defaults are those
/// of Zachmann's lecture.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PaperOptions {
    /// Minimum angle, in degrees, between a step and the other surface's normal for the step to
    /// lead inside.
    pub inside_above: f64,
    /// Maximum angle, in degrees, between them for the step to lead outside.
    pub outside_below: f64,
    /// Maximum number of floods. Voxels where different labels still meet after the last become
    /// unknown.
    pub rounds: u32,
}
koel::option_setters! { PaperOptions:
    inside_above by with_inside_above: f64;
    outside_below by with_outside_below: f64;
    rounds by with_rounds: u32;
}
impl Default for PaperOptions {
    fn default() -> Self {
        PaperOptions { inside_above: 110.0, outside_below: 70.0, rounds: 16 }
    }
}

/// Duration of each stage of a frame, in milliseconds.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
#[non_exhaustive]
pub struct Timings {
    /// Points to voxel keys.
    pub voxelize: f64,
    /// Index, sums, areas, dipoles.
    pub build: f64,
    /// Intersections and free cells.
    pub intersect: f64,
    /// Winding numbers of units; the paper's seeds.
    pub seed: f64,
    /// Labels of all voxels; the paper's flood.
    pub fill: f64,
}
impl Timings {
    /// Returns the sum of all stages.
    pub fn total(&self) -> f64 {
        self.voxelize + self.build + self.intersect + self.seed + self.fill
    }
}

/// Occupied voxel of one cloud, with its label.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct LabelledVoxel {
    /// Coordinates i, j, k in the grid.
    pub voxel: [u32; 3],
    /// Label of the voxel.
    pub label: Label,
}

/// Two clouds, their grid, and all buffers of a frame.
pub struct Intersector {
    stream: Stream,
    grid: Grid,
    shape: Shape,
    method: Method,
    points: Points,
    index: CellIndex,
    sums: SurfaceSums,
    way: Way,
    labels: Buffer<u32>,
    motions: Buffer<u64>,
    state: Buffer<u32>,
    marks: Vec<Event>,
}
enum Way {
    Robust(Box<Robust>),
    Paper(Box<Flood>),
}

impl Intersector {
    /// Uploads both clouds and allocates the buffers of frames. The grid must contain both clouds
    /// in every pose: points outside it are [dropped](Surface::dropped).
    ///
    /// Points that are not finite are dropped in every frame. Normals are normalized; those that
    /// cannot be are treated as missing. Cost: points are sorted once, so that neighbours in space
    /// are neighbours in memory.
    ///
    /// # Errors
    /// A cloud without points or normals or with too many points; a grid of more than 1024 voxels
    /// per side; angles out of order; out of memory.
    pub fn new(
        device: &Device,
        a: &PointCloud,
        b: &PointCloud,
        grid: Grid,
        method: Method,
    ) -> Result<Self, IntersectError> {
        Self::with_room(device, [a, b], [0; 2], grid, method)
    }
    /// Creates an intersector as [`new`](Self::new) does, with room for at least that many points
    /// of A and of B: [`set_points`](Self::set_points) may give more points than the clouds have.
    ///
    /// # Errors
    /// As for [`new`](Self::new); room for more than [`MAX_POINTS`].
    pub fn with_room(
        device: &Device,
        [a, b]: [&PointCloud; 2],
        room: [usize; 2],
        grid: Grid,
        method: Method,
    ) -> Result<Self, IntersectError> {
        let resolution = grid.resolution();
        let shape = Shape::new(resolution).ok_or(IntersectError::Resolution { resolution })?;
        if let Method::Paper(PaperOptions { inside_above, outside_below, .. }) = method
            && !((90.0..=180.0).contains(&inside_above) && (0.0..=90.0).contains(&outside_below))
        {
            return Err(IntersectError::Angles { inside_above, outside_below });
        }
        let most_voxels = |points| CellIndex::most_voxels_of(shape, points);
        let points = Points::upload(device, a, b, &grid, room, most_voxels)?;
        let index = CellIndex::new(device, shape, points.padded())?;
        let way = match method {
            Method::Robust(_) => Way::Robust(Box::new(Robust::new(device, &index)?)),
            Method::Paper(_) => Way::Paper(Box::new(Flood::new(device, index.most_voxels())?)),
        };
        Ok(Intersector {
            stream: device.stream()?,
            grid,
            shape,
            method,
            sums: SurfaceSums::new(device, &index, matches!(method, Method::Robust(_)))?,
            labels: device.alloc(index.most_voxels())?,
            motions: device.alloc(2 * Motion::WORDS as usize)?,
            state: device.alloc(state::WORDS)?,
            points,
            index,
            way,
            marks: Vec::with_capacity(6),
        })
    }

    /// Replaces the points of a cloud, for the frames that follow: a skinned mesh, or the next
    /// image of a depth camera. Positions and normals are the bits of `f32`, x, y and z of each
    /// point, on the device. Normals may have any length.
    ///
    /// As many points as before are expected to be the same ones, moved: they keep their order in
    /// memory, in which neighbours in space are close. Another number of points takes the order
    /// given. Frames [recorded](Self::record) before remain valid. Points outside the grid, and
    /// those that are not finite, are dropped.
    ///
    /// Cost: one launch, which moves 48 bytes per point; does not synchronize. The first call for a
    /// cloud, and each with another number of points, also uploads their order.
    ///
    /// # Errors
    /// No points, or more than there is [room](Self::with_room) for; another number of normals than
    /// of points; words that are not three for each point; a device failure. The points are then
    /// those before.
    pub fn set_points(
        &mut self,
        side: Side,
        positions: View<'_, u32>,
        normals: View<'_, u32>,
    ) -> Result<(), IntersectError> {
        let _apart = Apart::begin();
        self.points.replace(&self.stream, side, positions, normals)
    }
    /// Replaces the points of a cloud with points in host memory; otherwise as
    /// [`set_points`](Self::set_points). Copies 24 bytes per point.
    ///
    /// # Errors
    /// As for [`set_points`](Self::set_points); a cloud without normals.
    pub fn set_cloud(&mut self, side: Side, cloud: &PointCloud) -> Result<(), IntersectError> {
        let normals = cloud.normals.as_deref().ok_or(IntersectError::NoNormals { cloud: side })?;
        let device = self.stream.device().clone();
        let words = |of: &[[f32; 3]]| device.upload(bytemuck::cast_slice::<_, u32>(of));
        let (positions, normals) = (words(&cloud.positions)?, words(normals)?);
        self.set_points(side, positions.view(), normals.view())
    }

    /// Labels every voxel of both clouds in these poses. On a GPU it returns before the work is
    /// done (except for method [`Paper`](Method::Paper), whose flood polls the device for its end);
    /// reading results synchronizes.
    ///
    /// # Errors
    /// A pose that is not a rigid motion; a device failure.
    pub fn frame(&mut self, a: &Pose, b: &Pose) -> Result<(), IntersectError> {
        let _apart = Apart::begin();
        let motions = [a.motion(Side::A)?, b.motion(Side::B)?];
        let (stream, mut marks) = (self.stream.clone(), std::mem::take(&mut self.marks));
        marks.clear();
        let mut mark = || stream.record().map(|event| marks.push(event));
        mark()?;
        self.begin(&stream, motions)?;
        match self.method {
            Method::Robust(options) => self.label_robustly(&stream, options, &mut mark)?,
            Method::Paper(options) => self.flood(&stream, options, &mut mark)?,
        }
        self.marks = marks;
        Ok(())
    }
    /// Sets the poses and resets the counters. One launch.
    fn begin(&mut self, s: &Stream, [a, b]: [Motion; 2]) -> Result<(), IntersectError> {
        let _apart = Apart::begin();
        // SAFETY: there are two motions, the words of the shape, and a histogram and state of the
        // kernel's layout.
        unsafe {
            spatial_begin::launch(
                s,
                begin::threads(self.shape).div_ceil(128),
                Motions { a, b, points: Side::BOTH.map(|side| self.points.given(side) as u32) },
                self.motions.view_mut().arg("motions", s)?,
                self.index.brick_marks(s)?,
                self.sums.histogram.view_mut().arg("histogram", s)?,
                self.state.view_mut().arg("state", s)?,
            )?
        };
        Ok(())
    }
    /// Finds the voxels, builds their index, and groups the points by voxel. Calls `mark` once the
    /// points have voxels.
    fn find_voxels(
        &mut self,
        s: &Stream,
        mut mark: impl FnMut() -> koel::Result<()>,
    ) -> koel::Result<()> {
        let (points, index, sums, state) =
            (&mut self.points, &mut self.index, &mut self.sums, &mut self.state);
        let frame = Frame { origin: self.grid.origin(), voxel_size: self.grid.voxel_size() };
        if points.parts.is_some() {
            let grid = (frame, self.shape.resolution);
            points.voxelize_parts(s.device(), &self.motions, grid, state)?;
            index.mark_bricks(points)?;
            mark()?;
            return index.build(s, points, &mut sums.counts, state);
        }
        // SAFETY: a group has four points; the bitmap has a word for each 32 bricks of the shape;
        // keys are only of voxels inside it.
        unsafe {
            spatial_voxelize::launch(
                s,
                points.groups().all.div_ceil(128),
                points.clouds(s, &self.motions)?,
                frame,
                VoxelsOut {
                    keys: points.keys.view_mut().arg("keys", s)?,
                    local: points.local.view_mut().arg("local", s)?,
                    bricks: index.brick_marks(s)?,
                },
                state.view_mut().arg("state", s)?,
            )?
        };
        mark()?;
        index.build(s, points, &mut sums.counts, state)?;
        sums.gather(s, points, index, state)
    }
    /// Runs method robust after [`begin`](Self::begin). Calls `mark` after each stage.
    fn label_robustly(
        &mut self,
        s: &Stream,
        options: RobustOptions,
        mut mark: impl FnMut() -> koel::Result<()>,
    ) -> koel::Result<()> {
        self.find_voxels(s, &mut mark)?;
        let Way::Robust(robust) = &mut self.way else {
            unreachable!("made together with the method")
        };
        let (points, index, sums, state) =
            (&mut self.points, &self.index, &mut self.sums, &mut self.state);
        sums.add(s, points, &self.motions, index, None, state)?;
        sums.measure(s, index, state)?;
        mark()?;
        robust.mark(s, index, state)?;
        mark()?;
        robust.wind_units(s, index, sums, points, options.assume_closed, state)?;
        mark()?;
        robust.label(s, index, sums, &mut self.labels, state)?;
        mark()
    }
    /// Runs method paper after [`begin`](Self::begin). Calls `mark` after each stage.
    fn flood(
        &mut self,
        s: &Stream,
        options: PaperOptions,
        mut mark: impl FnMut() -> koel::Result<()>,
    ) -> koel::Result<()> {
        self.find_voxels(s, &mut mark)?;
        mark()?;
        let Way::Paper(flood) = &mut self.way else {
            unreachable!("made together with the method")
        };
        let (points, index, sums, state) =
            (&mut self.points, &self.index, &mut self.sums, &mut self.state);
        flood.mark(s, index, state)?;
        mark()?;
        // Only the normals of shared voxels are needed.
        sums.add(s, points, &self.motions, index, Some(flood.marks()), state)?;
        flood.seed(s, index, sums, options, state)?;
        mark()?;
        flood.fill(s, index, options, &mut self.labels, state)?;
        mark()
    }

    /// Returns the durations of the stages of the last frame. Synchronizes.
    ///
    /// # Errors
    /// A device failure.
    pub fn timings(&self) -> Result<Timings, IntersectError> {
        let [start, voxelized, built, marked, seeded, filled] = &self.marks[..] else {
            return Ok(Timings::default());
        };
        let span = |from: &Event, to: &Event| to.seconds_since(from).map(|s| s * 1e3);
        Ok(Timings {
            voxelize: span(start, voxelized)?,
            build: span(voxelized, built)?,
            intersect: span(built, marked)?,
            seed: span(marked, seeded)?,
            fill: span(seeded, filled)?,
        })
    }
    /// Returns the grid.
    pub fn grid(&self) -> &Grid {
        &self.grid
    }
    /// Returns the stream that frames run on.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Returns the voxels of a cloud in key order, with the labels of the last frame. Synchronizes.
    ///
    /// # Errors
    /// A device failure.
    pub fn voxels(&self, side: Side) -> Result<Vec<LabelledVoxel>, IntersectError> {
        let _apart = Apart::begin();
        let range = self.voxel_range(side)?;
        let codes = self.index.codes.view().slice(range.clone())?.download()?;
        let labels = self.labels.view().slice(range)?.download()?;
        let voxel = |code: &u32| {
            koel_spatial_kernels::intersect::layout::cell_of(self.shape.decode(*code).2)
        };
        Ok(codes
            .iter()
            .zip(&labels)
            .map(|(c, &l)| LabelledVoxel { voxel: voxel(c), label: Label::of(l) })
            .collect())
    }
    /// Returns the range of a cloud's voxels among all voxels.
    fn voxel_range(&self, side: Side) -> Result<std::ops::Range<usize>, IntersectError> {
        let state = self.state.download()?;
        let first = |cloud: usize| state[state::FIRST_CELL as usize + cloud] as usize;
        Ok(first(side.index())..first(side.index() + 1))
    }
    /// Returns the labels of a cloud's points in the last frame, in input order. A point has the
    /// label of its voxel, or [`Label::Unknown`] outside the grid. Synchronizes.
    ///
    /// # Errors
    /// A device failure.
    pub fn point_labels(&mut self, side: Side) -> Result<Vec<Label>, IntersectError> {
        let _apart = Apart::begin();
        self.label_points()?;
        let mut labels = vec![];
        self.points.append_labels(side, &mut labels)?;
        Ok(labels.into_iter().map(|l| Label::of(l.into())).collect())
    }
    /// Appends the [labels of the points](Self::point_labels) of A, then those of B, to `to`, as
    /// the number of each [`Label`]. Synchronizes. Allocates nothing after the first call if `to`
    /// has enough capacity.
    ///
    /// # Errors
    /// A device failure.
    pub fn append_point_labels(&mut self, to: &mut Vec<u8>) -> Result<(), IntersectError> {
        let _apart = Apart::begin();
        self.label_points()?;
        Ok(Side::BOTH.into_iter().try_for_each(|side| self.points.append_labels(side, to))?)
    }
    fn label_points(&mut self) -> Result<(), IntersectError> {
        let s = &self.stream;
        let n = self.points.padded() as u32;
        // SAFETY: there are `n` points; each voxel is NONE or has a label.
        unsafe {
            spatial_label_points::launch(
                s,
                n.div_ceil(128),
                n,
                self.points.voxels.view().arg("voxels", s)?,
                self.labels.view().arg("labels", s)?,
                self.points.labels.view_mut().arg("point labels", s)?,
            )?
        };
        Ok(())
    }
    /// Returns the bytes of device memory held.
    pub fn bytes(&self) -> usize {
        let way = match &self.way {
            Way::Robust(robust) => robust.bytes(),
            Way::Paper(flood) => flood.bytes(),
        };
        let own = self.labels.bytes() + self.motions.bytes() + self.state.bytes();
        self.points.bytes() + self.index.bytes() + self.sums.bytes() + own + way
    }
}

/// Returns the number of blocks for `n` threads.
fn blocks(n: usize, threads: u32) -> u32 {
    (n as u32).div_ceil(threads)
}
/// Returns the state if the host can read it now: what is recorded on a GPU or the executor has not
/// run.
fn counted<'a>(s: &Stream, state: &'a Buffer<u32>) -> Option<&'a [u32]> {
    let runs_now = s.device().kind() == DeviceKind::Cpu || !s.is_capturing();
    state.view().host().filter(|_| runs_now)
}
/// Returns a word of the state if the host can read it now, else `most`: the number of threads to
/// launch.
fn bound(s: &Stream, state: &Buffer<u32>, word: u32, most: usize) -> usize {
    counted(s, state).map_or(most, |state| (state[word as usize] as usize).min(most))
}
