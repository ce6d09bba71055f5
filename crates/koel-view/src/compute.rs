//! The thread that computes frames, one request of each viewer in turn.

use crate::protocol::Wanted;
use crate::scene::Scene;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use tokio::sync::{OwnedSemaphorePermit, mpsc as replies};

/// Newest state that a viewer wants. Its session updates it; the compute thread reads it at the
/// viewer's turn.
#[derive(Clone)]
pub(crate) struct Newest(Arc<Mutex<Wanted>>);
impl Newest {
    /// Creates it with an initial state.
    pub(crate) fn new(wanted: Wanted) -> Newest {
        Newest(Arc::new(Mutex::new(wanted)))
    }
    /// Returns the current state.
    pub(crate) fn get(&self) -> Wanted {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Changes the state.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Wanted)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// A viewer's request for a frame. Each viewer has at most one.
pub(crate) struct Job {
    /// State to compute, read when the job runs.
    pub newest: Newest,
    /// Number of the frame.
    pub number: u32,
    /// Moment whose points the page has; none if it is uncertain.
    pub has: Option<u32>,
    /// Buffer to write the frame to.
    pub buffer: Vec<u8>,
    /// Channel for the result.
    pub reply: replies::Sender<Done>,
    /// Held until the job is done, so that there are never more jobs than places.
    pub place: Arc<OwnedSemaphorePermit>,
}
/// Result of a job.
pub(crate) struct Done {
    /// The state it was computed for.
    pub wanted: Wanted,
    /// The job's buffer.
    pub buffer: Vec<u8>,
    /// `Ok` if the buffer holds the frame, else the error.
    pub outcome: Result<(), String>,
}

/// Runs jobs until every sender is gone. Drops jobs of viewers that have left.
pub(crate) fn work(mut scene: Scene, jobs: mpsc::Receiver<Job>, frames: &AtomicU64) {
    for Job { newest, number, has, mut buffer, reply, place } in jobs {
        if reply.is_closed() {
            continue;
        }
        let wanted = newest.get();
        let outcome = scene.frame(wanted, (number, has), &mut buffer);
        frames.fetch_add(1, Ordering::Relaxed);
        // The channel has capacity for a viewer's only reply; sending fails only if the viewer has
        // left.
        let _ = reply.try_send(Done { wanted, buffer, outcome });
        drop(place);
    }
}
