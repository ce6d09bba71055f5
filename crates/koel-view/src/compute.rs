//! The thread that computes frames: one request of each viewer in turn.

use crate::protocol::Wanted;
use crate::scene::Scene;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use tokio::sync::{OwnedSemaphorePermit, mpsc as replies};

/// What a viewer wants now. Its session changes it, the compute thread reads it when the viewer's
/// turn comes.
#[derive(Clone)]
pub struct Newest(Arc<Mutex<Wanted>>);
impl Newest {
    /// This, at first.
    pub fn new(wanted: Wanted) -> Newest {
        Newest(Arc::new(Mutex::new(wanted)))
    }
    /// Now.
    pub fn get(&self) -> Wanted {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// From now on.
    pub fn change(&self, change: impl FnOnce(&mut Wanted)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// A viewer's request of a frame: at most one a viewer.
pub struct Job {
    /// Of which pose.
    pub newest: Newest,
    /// The frame's number.
    pub number: u32,
    /// Where it goes.
    pub buffer: Vec<u8>,
    /// To whom.
    pub reply: replies::Sender<Done>,
    /// Kept until the job is done, so that there are no more jobs than places.
    pub place: Arc<OwnedSemaphorePermit>,
}
/// What became of it.
pub struct Done {
    /// The pose it was computed for.
    pub wanted: Wanted,
    /// The job's buffer.
    pub buffer: Vec<u8>,
    /// Whether it holds the frame, or why not.
    pub outcome: Result<(), String>,
}

/// Works off jobs until nobody can send any. Those of viewers that are gone are dropped.
pub fn work(mut scene: Scene, jobs: mpsc::Receiver<Job>, frames: &AtomicU64) {
    for Job { newest, number, mut buffer, reply, place } in jobs {
        if reply.is_closed() {
            continue;
        }
        let wanted = newest.get();
        let outcome = scene.frame(wanted, number, &mut buffer).map_err(|e| e.to_string());
        frames.fetch_add(1, Ordering::Relaxed);
        // There is room for the one reply of a viewer, or the viewer has gone meanwhile.
        let _ = reply.try_send(Done { wanted, buffer, outcome });
        drop(place);
    }
}
