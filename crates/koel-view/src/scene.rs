//! The two clouds, and frames computed from them.

use crate::ViewError;
use crate::placement::Placement;
use crate::protocol::{
    self, BooleanReply, CloudReply, FRAME_WORDS, FrameHeader, MethodName, Reply, STAGES,
    SceneReply, TimelineReply, Wanted,
};
use koel::Device;
use koel_spatial::PointCloud;
use koel_spatial::intersect::{
    IntersectError, Intersector, Method, PaperOptions, RobustOptions, Side, Summary,
};
use std::sync::Arc;
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

/// Returns the points of a cloud at a moment, or why there are none. Called by the compute thread,
/// at most once for each frame that it computes.
pub type Moments = Box<dyn FnMut(u32) -> Result<Arc<PointCloud>, String> + Send>;

/// Clouds whose points are other ones at each moment: deforming meshes, sequences of scans. Viewers
/// play it or select a moment, each for itself.
pub struct Timeline {
    /// Number of moments.
    pub moments: u32,
    /// Moments a second at normal speed.
    pub rate: f64,
    /// Number of the first moment, for display.
    pub first: u64,
    /// Points of A and of B; none for a cloud that has the same ones at all moments. Those of
    /// moment 0 are those that the scene is made of.
    pub clouds: [Option<Moments>; 2],
}

/// Two clouds and the means to compute their frames.
pub struct Scene {
    device: Device,
    names: [String; 2],
    /// Of the moment of the last frame.
    clouds: [Arc<PointCloud>; 2],
    /// Moment of the clouds.
    moment: u32,
    timeline: Option<Timeline>,
    placement: Placement,
    options: SceneOptions,
    /// By method; created on first use. Each with the moment of its points.
    intersectors: [Option<(Box<Intersector>, u32)>; 2],
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
        let clouds = clouds.map(Arc::new);
        let mut first =
            Box::new(intersector(device, &clouds, &placement, options, options.method)?);
        let [a, b] = placement.poses(Wanted::as_given(options.method).rotation_rows(), [0.0; 3]);
        first.frame(&a, &b)?;
        let summary = first.summary()?;
        let mut intersectors = [None, None];
        intersectors[options.method as usize] = Some((first, 0));
        Ok(Scene {
            device: device.clone(),
            names,
            clouds,
            moment: 0,
            timeline: None,
            placement,
            options,
            intersectors,
            summary,
            notes: vec![],
        })
    }
    /// Gives the scene a timeline.
    pub fn with_timeline(self, timeline: Timeline) -> Scene {
        Scene { timeline: Some(timeline), ..self }
    }
    /// Returns the results of the first frame.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }
    /// Adds a note on the clouds, which viewers are shown.
    pub fn note(&mut self, note: String) {
        self.notes.push(note);
    }
    /// Returns the name of the device.
    pub fn device_name(&self) -> String {
        self.device.name()
    }
    pub(crate) fn placement(&self) -> &Placement {
        &self.placement
    }
    pub(crate) fn method(&self) -> MethodName {
        self.options.method
    }
    /// Returns the number of moments that viewers can select.
    pub(crate) fn moments(&self) -> u32 {
        self.timeline.as_ref().map_or(1, |timeline| timeline.moments.max(1))
    }

    /// Returns the first message of a session.
    pub(crate) fn greeting(&self) -> String {
        let cloud = |i: usize| CloudReply {
            name: &self.names[i],
            points: self.clouds[i].positions.len(),
            radius: self.placement.balls()[i].radius,
        };
        let [a, b] = self.placement.balls().map(|ball| ball.centre);
        let device = self.device_name();
        Reply::Scene(Box::new(SceneReply {
            clouds: [cloud(0), cloud(1)],
            apart: std::array::from_fn(|i| b[i] - a[i]),
            reach: self.placement.reach(),
            grid: self.placement.grid().resolution(),
            voxel_size: self.placement.grid().voxel_size(),
            device: &device,
            method: self.options.method,
            animate: self.options.animate,
            timeline: self.timeline.as_ref().map(|timeline| TimelineReply {
                moments: timeline.moments.max(1),
                rate: timeline.rate,
                first: timeline.first,
                moves: timeline.clouds.each_ref().map(Option::is_some),
            }),
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

    /// Encodes a frame into `message`: with the points of clouds that move, unless the page `has`
    /// them. If `message` has the capacity, the method was used before and the moment is that of
    /// the last frame, allocates only what [`Intersector::frame`] allocates.
    ///
    /// Errors: those of the intersector and of the timeline, for people.
    pub(crate) fn frame(
        &mut self,
        wanted: Wanted,
        (number, has): (u32, Option<u32>),
        message: &mut Vec<u8>,
    ) -> Result<(), String> {
        self.go_to(wanted.moment)?;
        let moves = match &self.timeline {
            Some(timeline) => timeline.clouds.each_ref().map(Option::is_some),
            None => [false; 2],
        };
        let brings = moves.map(|moves| moves && has != Some(wanted.moment));
        self.label(wanted, (number, brings), message).map_err(|e| e.to_string())
    }
    /// Makes the clouds those of a moment.
    fn go_to(&mut self, moment: u32) -> Result<(), String> {
        let Some(timeline) = self.timeline.as_mut().filter(|_| moment != self.moment) else {
            return Ok(());
        };
        let mut clouds = self.clouds.clone();
        for (cloud, moments) in clouds.iter_mut().zip(&mut timeline.clouds) {
            if let Some(moments) = moments {
                *cloud = moments(moment)?;
            }
        }
        (self.clouds, self.moment) = (clouds, moment);
        Ok(())
    }
    /// Returns the intersector of a method, with the clouds of this moment.
    fn intersector(&mut self, method: MethodName) -> Result<&mut Intersector, IntersectError> {
        let Scene { device, clouds, moment, timeline, placement, options, .. } = self;
        let slot = &mut self.intersectors[method as usize];
        if let Some((made, at)) = slot
            && at != moment
        {
            // If it fails, the next frame sets both clouds again.
            *at = u32::MAX;
            let moves = timeline.iter().flat_map(|timeline| &timeline.clouds).map(Option::is_some);
            let mut new = Side::BOTH.into_iter().zip(moves).filter(|(_, moves)| *moves);
            match new.try_for_each(|(side, _)| made.set_cloud(side, &clouds[side as usize])) {
                Ok(()) => *at = *moment,
                Err(IntersectError::NoRoom { .. }) => *slot = None,
                Err(error) => return Err(error),
            }
        }
        let made = match slot.take() {
            Some(made) => made,
            None => {
                let new = intersector(device, clouds, placement, *options, method)?;
                (Box::new(new), *moment)
            }
        };
        Ok(&mut slot.insert(made).0)
    }
    /// Computes a frame of the clouds of this moment.
    fn label(
        &mut self,
        wanted: Wanted,
        (number, brings): (u32, [bool; 2]),
        message: &mut Vec<u8>,
    ) -> Result<(), IntersectError> {
        let [a, b] = self.placement.poses(wanted.rotation_rows(), wanted.translation);
        let intersector = self.intersector(wanted.method)?;
        intersector.frame(&a, &b)?;
        let timings = intersector.timings()?;
        let begin = Instant::now();
        message.clear();
        message.resize(4 * FRAME_WORDS, 0);
        intersector.append_point_labels(message)?;
        let read_back = begin.elapsed().as_secs_f64() * 1e3;
        let points = self.clouds.each_ref().map(|cloud| cloud.positions.len());
        FrameHeader { number, wanted, timings, read_back, brings }.write(message, points);
        message.resize(message.len().next_multiple_of(4), 0);
        let balls = self.placement.balls();
        for (side, cloud) in self.clouds.iter().enumerate().filter(|(side, _)| brings[*side]) {
            let normals = cloud.normals.as_deref().unwrap_or_default();
            message.reserve(protocol::POINT_BYTES * cloud.positions.len());
            protocol::append_points(&cloud.positions, normals, balls[side].centre, message);
        }
        Ok(())
    }
}

fn intersector(
    device: &Device,
    [a, b]: &[Arc<PointCloud>; 2],
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
