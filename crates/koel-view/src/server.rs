//! Listening, routing and stopping.

use crate::compute;
use crate::options::Options;
use crate::protocol::{LARGEST_REQUEST, SOCKET};
use crate::scene::Scene;
use crate::session::{self, Shared};
use crate::{ViewError, guard, page};
use axum::body::Bytes;
use axum::extract::State;
use axum::extract::ws::WebSocketUpgrade;
use axum::middleware;
use axum::response::Response;
use axum::routing::get;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::time::timeout;

/// Maximum number of connections. A browser uses a few for a page's files, and one per viewer.
pub const CONNECTIONS: usize = 64;
/// Time to notify viewers that the server ends.
const FAREWELL: Duration = Duration::from_secs(1);

/// A listening port that will serve a scene.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    options: Options,
    stop: watch::Sender<bool>,
    places: Arc<Semaphore>,
    frames: Arc<AtomicU64>,
}
/// Handle to a running server, to observe and stop it from any thread.
#[derive(Clone)]
pub struct Handle {
    stop: watch::Sender<bool>,
    viewers: u16,
    places: Arc<Semaphore>,
    frames: Arc<AtomicU64>,
}
impl Handle {
    /// Ends [`Server::run`] and notifies viewers.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }
    /// Returns the number of frames computed so far.
    pub fn frames(&self) -> u64 {
        self.frames.load(Ordering::Relaxed)
    }
    /// Returns the number of connected viewers, plus others whose requests are still queued.
    pub fn viewers(&self) -> usize {
        usize::from(self.viewers) - self.places.available_permits()
    }
}

impl Server {
    /// Listens on 127.0.0.1. Requests wait until [`run`](Self::run).
    ///
    /// # Errors
    /// [`ViewError::Port`].
    pub fn bind(options: Options) -> Result<Server, ViewError> {
        let failed = |source| ViewError::Port { port: options.port, source };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, options.port)).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let places = Arc::new(Semaphore::new(options.viewers.into()));
        Ok(Server {
            listener,
            address,
            options,
            stop: watch::Sender::new(false),
            places,
            frames: Arc::default(),
        })
    }
    /// Returns the address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
    /// Returns the URL of the page.
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }
    /// Returns a handle that can stop the server.
    pub fn handle(&self) -> Handle {
        Handle {
            stop: self.stop.clone(),
            viewers: self.options.viewers,
            places: self.places.clone(),
            frames: self.frames.clone(),
        }
    }

    /// Serves a scene until it is stopped. Uses two threads: this one and the compute thread.
    ///
    /// # Errors
    /// The system refuses a thread or a socket, or the compute thread panicked.
    pub fn run(self, scene: Scene) -> Result<(), ViewError> {
        let Server { listener, options, stop, places, frames, .. } = self;
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let (jobs, requests) = mpsc::channel();
        let shared = Arc::new(Shared {
            options,
            placement: *scene.placement(),
            method: scene.method(),
            moments: scene.moments(),
            greeting: scene.greeting().into(),
            points: scene.points().into_iter().map(Bytes::from).collect(),
            jobs,
            places: places.clone(),
            stop: stop.subscribe(),
        });
        // Dropped when the thread ends, even by a panic.
        let (alive, mut ended) = oneshot::channel::<()>();
        let worker = std::thread::Builder::new().name("koel-view".into()).spawn(move || {
            let _alive = alive;
            compute::work(scene, requests, &frames);
        })?;
        let routes = page::routes()
            .route(SOCKET, get(connect))
            .layer(middleware::from_fn(guard::check))
            .with_state(shared.clone());
        let mut stopped = shared.stop.clone();
        let outcome = runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            let outcome = tokio::select! {
                () = accept(
                    listener, TowerToHyperService::new(routes), options.request_timeout
                ) => Ok(()),
                _ = stopped.wait_for(|&stop| stop) => Ok(()),
                _ = &mut ended => Err(ViewError::ComputeEnded),
            };
            stop.send_replace(true);
            let all = places.acquire_many(options.viewers.into());
            let _ = timeout(FAREWELL, all).await;
            outcome
        });
        // Sessions and routes end here, and with them all senders of jobs.
        drop(runtime);
        drop(shared);
        match worker.join() {
            Ok(()) => outcome,
            Err(_) => Err(ViewError::ComputeEnded),
        }
    }
}

/// Accepts connections forever.
async fn accept(
    listener: tokio::net::TcpListener,
    routes: TowerToHyperService<axum::Router>,
    request_timeout: Duration,
) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    while let Ok(room) = room.clone().acquire_owned().await {
        let Ok((stream, _)) = listener.accept().await else {
            // Too many open files, or a connection that was closed at once; others may still come.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        // Send frames immediately.
        let _ = stream.set_nodelay(true);
        let routes = routes.clone();
        tokio::spawn(async move {
            let connection = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), routes)
                .with_upgrades();
            // Errors affect only this connection. After an upgrade, the connection continues in its
            // session.
            let _ = timeout(request_timeout, connection).await;
            drop(room);
        });
    }
}

/// Opens a viewer's WebSocket.
async fn connect(State(shared): State<Arc<Shared>>, upgrade: WebSocketUpgrade) -> Response {
    let place = shared.places.clone().try_acquire_owned();
    let stop = shared.stop.clone();
    let upgrade = upgrade.max_message_size(LARGEST_REQUEST).max_frame_size(LARGEST_REQUEST);
    upgrade.on_upgrade(async move |socket| match place {
        Ok(place) => session::run(socket, shared, place, stop).await,
        Err(_) => session::refuse(socket, shared).await,
    })
}
