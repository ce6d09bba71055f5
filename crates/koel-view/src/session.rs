//! Session of one viewer.

use crate::compute::{Done, Job, Newest};
use crate::options::Options;
use crate::placement::Placement;
use crate::protocol::{MethodName, Refused, Reply, Request, Wanted};
use axum::body::Bytes;
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, close_code};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::timeout;

/// State shared by all sessions.
pub(crate) struct Shared {
    pub options: Options,
    pub placement: Placement,
    pub method: MethodName,
    /// Number of moments that a viewer can select.
    pub moments: u32,
    pub greeting: Utf8Bytes,
    pub points: Vec<Bytes>,
    pub jobs: std::sync::mpsc::Sender<Job>,
    pub places: Arc<Semaphore>,
    pub stop: watch::Receiver<bool>,
}

/// Location of the viewer's only buffer.
enum Buffer {
    /// Free.
    Here(Vec<u8>),
    /// With the compute thread.
    Computing,
    /// On its way to the page, not yet acknowledged.
    Sent { frame: u32, bytes: Bytes },
}

/// Reason why a session ends.
enum End {
    /// The page has left or takes too long.
    Gone,
    /// The server closes the connection.
    Close { code: u16, reason: &'static str },
}

/// Serves a viewer until it leaves or is disconnected.
pub(crate) async fn run(
    mut socket: WebSocket,
    shared: Arc<Shared>,
    place: OwnedSemaphorePermit,
    stop: watch::Receiver<bool>,
) {
    let mut session = Session::new(&shared, place);
    if let End::Close { code, reason } = session.serve(&mut socket, stop).await {
        close(socket, &shared, code, reason).await;
    }
}
/// Rejects a viewer for whom there is no place.
pub(crate) async fn refuse(mut socket: WebSocket, shared: Arc<Shared>) {
    let message = format!(
        "{} viewers are connected, which is the maximum: close one of them",
        shared.options.viewers
    );
    if send(&mut socket, &shared, Message::Text(Reply::Error { message }.json().into()))
        .await
        .is_ok()
    {
        close(socket, &shared, close_code::AGAIN, "too many viewers").await;
    }
}
async fn close(mut socket: WebSocket, shared: &Shared, code: u16, reason: &'static str) {
    let frame = CloseFrame { code, reason: reason.into() };
    let _ = send(&mut socket, shared, Message::Close(Some(frame))).await;
}
/// Sends a message. Fails if the viewer does not accept it within the timeout.
async fn send(socket: &mut WebSocket, shared: &Shared, message: Message) -> Result<(), End> {
    match timeout(shared.options.send_timeout, socket.send(message)).await {
        Ok(Ok(())) => Ok(()),
        _ => Err(End::Gone),
    }
}

async fn stopped(stop: &mut watch::Receiver<bool>) {
    // An error means that the server is gone, which also ends the session.
    let _ = stop.wait_for(|&stop| stop).await;
}

struct Session<'a> {
    shared: &'a Shared,
    place: Arc<OwnedSemaphorePermit>,
    newest: Newest,
    /// State of the last computed frame.
    computed: Option<Wanted>,
    buffer: Buffer,
    /// Number of the next frame.
    next: u32,
    /// Moment of the last frame sent, whose points the page has.
    has: Option<u32>,
}
impl<'a> Session<'a> {
    fn new(shared: &'a Shared, place: OwnedSemaphorePermit) -> Session<'a> {
        Session {
            shared,
            place: Arc::new(place),
            newest: Newest::new(Wanted::as_given(shared.method)),
            computed: None,
            buffer: Buffer::Here(vec![]),
            next: 0,
            // The points before the first frame are those of the first moment.
            has: Some(0),
        }
    }
    async fn serve(&mut self, socket: &mut WebSocket, mut stop: watch::Receiver<bool>) -> End {
        let shared = self.shared;
        let greeting = [Message::Text(shared.greeting.clone())];
        for message in
            greeting.into_iter().chain(shared.points.iter().cloned().map(Message::Binary))
        {
            if let Err(end) = send(socket, shared, message).await {
                return end;
            }
        }
        let (reply, mut done) = mpsc::channel(1);
        loop {
            if let Err(end) = self.ask(&reply) {
                return end;
            }
            let step = tokio::select! {
                message = socket.recv() => match message {
                    Some(Ok(message)) => self.hear(socket, message).await,
                    _ => Err(End::Gone),
                },
                Some(done) = done.recv() => self.deliver(socket, done).await,
                () = stopped(&mut stop) => Err(End::Close {
                    code: close_code::AWAY, reason: "koel view has ended"
                }),
            };
            if let Err(end) = step {
                return end;
            }
        }
    }
    /// Requests a frame if the buffer is free and the state has changed.
    fn ask(&mut self, reply: &mpsc::Sender<Done>) -> Result<(), End> {
        if self.computed == Some(self.newest.get()) {
            return Ok(());
        }
        let Buffer::Here(buffer) = &mut self.buffer else { return Ok(()) };
        let job = Job {
            newest: self.newest.clone(),
            number: self.next,
            has: self.has,
            buffer: std::mem::take(buffer),
            reply: reply.clone(),
            place: self.place.clone(),
        };
        self.buffer = Buffer::Computing;
        self.shared
            .jobs
            .send(job)
            .map_err(|_| End::Close { code: close_code::ERROR, reason: "no more frames" })
    }
    /// Sends a computed frame.
    async fn deliver(&mut self, socket: &mut WebSocket, done: Done) -> Result<(), End> {
        self.computed = Some(done.wanted);
        if let Err(message) = done.outcome {
            self.buffer = Buffer::Here(done.buffer);
            return self.complain(socket, message).await;
        }
        self.has = Some(done.wanted.moment);
        let (frame, bytes) = (self.next, Bytes::from(done.buffer));
        self.next = frame.wrapping_add(1);
        self.buffer = Buffer::Sent { frame, bytes: bytes.clone() };
        send(socket, self.shared, Message::Binary(bytes)).await
    }
    /// Handles a message from the page.
    async fn hear(&mut self, socket: &mut WebSocket, message: Message) -> Result<(), End> {
        let heard = match message {
            Message::Text(text) => self.obey(&text),
            Message::Binary(bytes) => Err(Refused::Binary(bytes.len())),
            Message::Ping(_) | Message::Pong(_) => Ok(()),
            Message::Close(_) => return Err(End::Gone),
        };
        match heard {
            Ok(()) => Ok(()),
            Err(refused) => self.complain(socket, refused.to_string()).await,
        }
    }
    fn obey(&mut self, text: &str) -> Result<(), Refused> {
        match Request::parse(text, &self.shared.placement, self.shared.moments)? {
            Request::Pose { rotation, translation } => {
                self.newest.change(|wanted| *wanted = Wanted { rotation, translation, ..*wanted });
            }
            Request::Moment { number } => self.newest.change(|wanted| wanted.moment = number),
            Request::Method { name } => self.newest.change(|wanted| wanted.method = name),
            Request::Shown { frame } => match &mut self.buffer {
                // The socket has dropped its reference, so this reuses the memory without a copy.
                Buffer::Sent { frame: awaited, bytes } if *awaited == frame => {
                    self.buffer = Buffer::Here(std::mem::take(bytes).into());
                }
                Buffer::Sent { frame: awaited, .. } => {
                    return Err(Refused::NotSent { frame, awaited: Some(*awaited) });
                }
                _ => return Err(Refused::NotSent { frame, awaited: None }),
            },
        }
        Ok(())
    }
    async fn complain(&self, socket: &mut WebSocket, message: String) -> Result<(), End> {
        send(socket, self.shared, Message::Text(Reply::Error { message }.json().into())).await
    }
}
