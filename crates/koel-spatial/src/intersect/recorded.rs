//! Frames recorded once and launched with new poses.

use super::{IntersectError, Intersector, Method, Pose, Side};
use koel::Stream;
use koel::device::{Event, Graph};

/// Frames of method robust, recorded once. On a GPU each frame is one small launch, which sets the
/// poses, and one CUDA graph. Created by [`Intersector::record`].
///
/// Labels are bitwise identical to those of [`Intersector::frame`].
///
/// ```
/// use koel::Device;
/// use koel_spatial::intersect::{Intersector, Label, Method, Pose, Side};
/// use koel_spatial::{Grid, PointCloud};
///
/// // A sphere of 2000 points, twice.
/// let golden = std::f32::consts::PI * (3.0 - 5.0f32.sqrt());
/// let normals = (0..2000).map(|i| {
///     let z = 1.0 - (i as f32 + 0.5) / 1000.0;
///     let (r, turn) = ((1.0 - z * z).sqrt(), golden * i as f32);
///     [r * turn.cos(), r * turn.sin(), z]
/// });
/// let normals = normals.collect::<Vec<[f32; 3]>>();
/// let positions = normals.iter().map(|n| n.map(|c| 0.5 * c)).collect();
/// let sphere = PointCloud { positions, normals: Some(normals) };
///
/// let device = Device::executor(1); // any device
/// let grid = Grid::new([-1.0; 3], 0.125, 16)?;
/// let method = Method::default();
/// let mut frames = Intersector::new(&device, &sphere, &sphere, grid, method)?.record()?;
/// let mut inside = vec![];
/// for apart in [0.9, 0.6, 0.3] {
///     let at = |way| Pose { translation: [way * apart, 0.0, 0.0], ..Pose::IDENTITY };
///     let [a, b] = [-0.5, 0.5].map(at);
///     frames.frame(&a, &b)?;
///     let labels = frames.intersector_mut().point_labels(Side::A)?;
///     inside.push(labels.into_iter().filter(|&l| l == Label::Inside).count());
/// }
/// assert!(inside.is_sorted() && inside[2] > inside[0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RecordedFrames {
    graph: Graph<Intersector>,
    stream: Stream,
    /// Events before and after the last frame.
    marks: Option<[Event; 2]>,
}

impl Intersector {
    /// Records a frame. Poses and points may change from frame to frame; the room for points, grid
    /// and method are fixed.
    ///
    /// Cost: the host time of a GPU frame; nothing runs. The CPU device has no graphs: its frames
    /// are launched individually.
    ///
    /// # Errors
    /// The paper's method, whose flood synchronizes; a device failure.
    pub fn record(self) -> Result<RecordedFrames, IntersectError> {
        let Method::Robust(options) = self.method else {
            return Err(IntersectError::NeedsRobust { what: "recorded frames" });
        };
        let stream = self.stream.clone();
        let graph = stream.capture(self, move |s, intersector| {
            intersector.label_robustly(s, options, || Ok(()))
        })?;
        Ok(RecordedFrames { graph, stream, marks: None })
    }
}

impl RecordedFrames {
    /// Labels every voxel of both clouds in these poses. Does not synchronize and allocates nothing
    /// on the device. Costs the host two driver calls, and two more for
    /// [`milliseconds`](Self::milliseconds).
    ///
    /// # Errors
    /// A pose that is not a rigid motion; a device failure.
    pub fn frame(&mut self, a: &Pose, b: &Pose) -> Result<(), IntersectError> {
        let motions = [a.motion(Side::A)?, b.motion(Side::B)?];
        let start = self.stream.record()?;
        self.graph.state_mut().begin(&self.stream, motions)?;
        self.graph.launch(&self.stream)?;
        self.marks = Some([start, self.stream.record()?]);
        Ok(())
    }
    /// Returns the duration of the last frame, all stages together. Synchronizes.
    ///
    /// # Errors
    /// A device failure.
    pub fn milliseconds(&self) -> Result<f64, IntersectError> {
        Ok(match &self.marks {
            Some([start, end]) => end.seconds_since(start)? * 1e3,
            None => 0.0,
        })
    }
    /// Returns the intersector, for the results of the last frame. ([`Intersector::timings`] covers
    /// only frames that were not recorded.)
    pub fn intersector(&self) -> &Intersector {
        self.graph.state()
    }
    /// Returns the intersector mutably, for new points and for results that need device work.
    pub fn intersector_mut(&mut self) -> &mut Intersector {
        self.graph.state_mut()
    }
    /// Ends the recording and returns the intersector.
    pub fn into_intersector(self) -> Intersector {
        self.graph.into_state()
    }
}
