//! Frames recorded once and launched with new poses.

use super::{IntersectError, Intersector, Method, Pose, Side};
use koel::Stream;
use koel::device::{Event, Graph};

/// Frames of method robust, recorded once: on a GPU each is one small launch, which takes the
/// poses, and one CUDA graph. Made by [`Intersector::record`].
///
/// Labels are those of [`Intersector::frame`], bit by bit.
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
    /// Before and after the last frame.
    marks: Option<[Event; 2]>,
}

impl Intersector {
    /// Records a frame. Poses may change from frame to frame; clouds, grid and method are those
    /// that it was made with.
    ///
    /// Cost: as of a frame on a GPU, on the host. Nothing runs. On the CPU device, which has no
    /// graphs, frames are launched one by one as ever.
    ///
    /// # Errors
    /// The paper's method, whose flood waits; a device that fails.
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
    /// Labels every voxel of both clouds in these poses. Does not wait, allocates nothing on the
    /// device, and costs the host two calls to the driver, and two more for
    /// [`milliseconds`](Self::milliseconds).
    ///
    /// # Errors
    /// A pose that is no rigid motion; a device that fails.
    pub fn frame(&mut self, a: &Pose, b: &Pose) -> Result<(), IntersectError> {
        let motions = [a.motion(Side::A)?, b.motion(Side::B)?];
        let start = self.stream.record()?;
        self.graph.state_mut().begin(&self.stream, motions)?;
        self.graph.launch(&self.stream)?;
        self.marks = Some([start, self.stream.record()?]);
        Ok(())
    }
    /// How long the last frame took, all stages together. Waits for it.
    ///
    /// # Errors
    /// A device that fails.
    pub fn milliseconds(&self) -> Result<f64, IntersectError> {
        Ok(match &self.marks {
            Some([start, end]) => end.seconds_since(start)? * 1e3,
            None => 0.0,
        })
    }
    /// What the last frame found. ([`Intersector::timings`] tells of frames that were not recorded
    /// only.)
    pub fn intersector(&self) -> &Intersector {
        self.graph.state()
    }
    /// The same, for what works on the device.
    pub fn intersector_mut(&mut self) -> &mut Intersector {
        self.graph.state_mut()
    }
    /// Ends the recording.
    pub fn into_intersector(self) -> Intersector {
        self.graph.into_state()
    }
}
