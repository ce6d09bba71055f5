//! How the frames run: stage by stage, or recorded once as a graph.
use koel_spatial::intersect::{IntersectError, Intersector, Pose, RecordedFrames, Timings};

/// An intersector, and how its frames run.
pub(super) enum Playing {
    Launched(Box<Intersector>),
    Recorded(Box<RecordedFrames>),
}
/// Milliseconds of a frame.
#[derive(Clone, Copy)]
pub(super) struct Times {
    /// Those of each stage; `None` if the frame was recorded.
    pub stages: Option<Timings>,
    pub total: f64,
}
impl Playing {
    /// Records a frame if that is wanted. Errors: those of [`Intersector::record`].
    pub(super) fn new(intersector: Intersector, recorded: bool) -> Result<Self, IntersectError> {
        Ok(match recorded {
            true => Playing::Recorded(Box::new(intersector.record()?)),
            false => Playing::Launched(Box::new(intersector)),
        })
    }
    /// Returns the intersector, for new points and for results of the last frame.
    pub(super) fn intersector(&mut self) -> &mut Intersector {
        match self {
            Playing::Launched(intersector) => intersector,
            Playing::Recorded(frames) => frames.intersector_mut(),
        }
    }
    /// Labels both clouds in these poses.
    pub(super) fn frame(&mut self, a: &Pose, b: &Pose) -> Result<(), IntersectError> {
        match self {
            Playing::Launched(intersector) => intersector.frame(a, b),
            Playing::Recorded(frames) => frames.frame(a, b),
        }
    }
    /// Returns the durations of the last frame. Waits for it.
    pub(super) fn times(&self) -> Result<Times, IntersectError> {
        Ok(match self {
            Playing::Launched(intersector) => {
                let stages = intersector.timings()?;
                Times { stages: Some(stages), total: stages.total() }
            }
            Playing::Recorded(frames) => Times { stages: None, total: frames.milliseconds()? },
        })
    }
}
