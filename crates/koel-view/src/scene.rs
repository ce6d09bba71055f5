//! The two clouds, and frames computed from them.

use crate::ViewError;
use crate::placement::Placement;
use crate::protocol::{
    self, BooleanReply, CloudReply, FRAME_WORDS, FrameHeader, MethodName, Reply, STAGES,
    SceneReply, Wanted,
};
use koel::Device;
use koel_spatial::PointCloud;
use koel_spatial::intersect::{
    IntersectError, Intersector, Method, PaperOptions, RobustOptions, Side, Summary,
};
use std::time::Instant;

/// Options of a scene.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
#[non_exhaustive]
pub struct SceneOptions {
    /// Initial method; a viewer can select the other.
    pub method: MethodName,
    /// Options of method robust.
    pub robust: RobustOptions,
    /// Options of method paper.
    pub paper: PaperOptions,
    /// Whether B moves at first, unless the viewer's system requests reduced motion.
    pub animate: bool,
}

koel::option_setters! { SceneOptions:
    method by with_method: MethodName;
    robust by with_robust: RobustOptions;
    paper by with_paper: PaperOptions;
    animate by with_animate: bool;
}

/// Two clouds and the means to compute their frames.
pub struct Scene {
    device: Device,
    names: [String; 2],
    clouds: [PointCloud; 2],
    placement: Placement,
    options: SceneOptions,
    /// By method; created on first use.
    intersectors: [Option<Box<Intersector>>; 2],
    summary: Summary,
    notes: Vec<String>,
}
impl Scene {
    /// Uploads the clouds and computes a first frame. `names` are for display.
    ///
    /// Device memory: that of an [`Intersector`] for each method that viewers select.
    ///
    /// # Errors
    /// Those of [`Intersector::new`] and [`Intersector::frame`].
    pub fn new(
        device: &Device,
        names: [String; 2],
        clouds: [PointCloud; 2],
        placement: Placement,
        options: SceneOptions,
    ) -> Result<Scene, IntersectError> {
        let mut first =
            Box::new(intersector(device, &clouds, &placement, options, options.method)?);
        let [a, b] = placement.poses(Wanted::as_given(options.method).rotation_rows(), [0.0; 3]);
        first.frame(&a, &b)?;
        let summary = first.summary()?;
        let mut intersectors = [None, None];
        intersectors[options.method as usize] = Some(first);
        Ok(Scene {
            device: device.clone(),
            names,
            clouds,
            placement,
            options,
            intersectors,
            summary,
            notes: vec![],
        })
    }
    /// Returns the results of the first frame.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }
    /// Adds a note on the clouds, which viewers are shown.
    pub fn note(&mut self, note: String) {
        self.notes.push(note);
    }
    pub(crate) fn placement(&self) -> &Placement {
        &self.placement
    }
    pub(crate) fn method(&self) -> MethodName {
        self.options.method
    }

    /// Returns the first message of a session.
    pub(crate) fn greeting(&self) -> String {
        let cloud = |i: usize| CloudReply {
            name: &self.names[i],
            points: self.clouds[i].positions.len(),
            radius: self.placement.balls()[i].radius,
        };
        let [a, b] = self.placement.balls().map(|ball| ball.centre);
        let device = self.device.name();
        Reply::Scene(Box::new(SceneReply {
            clouds: [cloud(0), cloud(1)],
            apart: std::array::from_fn(|i| b[i] - a[i]),
            reach: self.placement.reach(),
            grid: self.placement.grid().resolution(),
            voxel_size: self.placement.grid().voxel_size(),
            device: &device,
            method: self.options.method,
            animate: self.options.animate,
            labels: protocol::label_names(),
            stages: STAGES,
            booleans: BooleanReply::all(),
            notes: &self.notes,
        }))
        .json()
    }
    /// Returns the messages with the points of both clouds.
    pub(crate) fn points(&self) -> Vec<Vec<u8>> {
        let of = |side: Side| {
            let (cloud, ball) =
                (&self.clouds[side as usize], self.placement.balls()[side as usize]);
            protocol::points(
                side,
                &cloud.positions,
                cloud.normals.as_deref().unwrap_or_default(),
                ball.centre,
            )
        };
        Side::BOTH.map(of).into_iter().flatten().collect()
    }

    /// Encodes a frame into `message`. If `message` has the capacity and the method was used
    /// before, allocates only what [`Intersector::frame`] allocates.
    pub(crate) fn frame(
        &mut self,
        wanted: Wanted,
        number: u32,
        message: &mut Vec<u8>,
    ) -> Result<(), IntersectError> {
        let slot = &mut self.intersectors[wanted.method as usize];
        let intersector = match slot {
            Some(made) => made,
            None => {
                let new = intersector(
                    &self.device,
                    &self.clouds,
                    &self.placement,
                    self.options,
                    wanted.method,
                )?;
                slot.insert(Box::new(new))
            }
        };
        let [a, b] = self.placement.poses(wanted.rotation_rows(), wanted.translation);
        intersector.frame(&a, &b)?;
        let timings = intersector.timings()?;
        let begin = Instant::now();
        message.clear();
        message.resize(4 * FRAME_WORDS, 0);
        intersector.append_point_labels(message)?;
        let read_back = begin.elapsed().as_secs_f64() * 1e3;
        FrameHeader { number, wanted, timings, read_back }
            .write(message, self.clouds[0].positions.len());
        Ok(())
    }
}

fn intersector(
    device: &Device,
    [a, b]: &[PointCloud; 2],
    placement: &Placement,
    options: SceneOptions,
    method: MethodName,
) -> Result<Intersector, IntersectError> {
    let method = match method {
        MethodName::Robust => Method::Robust(options.robust),
        MethodName::Paper => Method::Paper(options.paper),
    };
    Intersector::new(device, a, b, *placement.grid(), method)
}

/// A scene moves to the compute thread.
const _: fn() = || {
    fn is_send<T: Send>() {}
    is_send::<Result<Scene, ViewError>>();
};
