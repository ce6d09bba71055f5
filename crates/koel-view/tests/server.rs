//! Tests of the server with pages, closed tabs and foreign clients.

use futures_util::{SinkExt, StreamExt};
use koel::Device;
use koel_spatial::PointCloud;
use koel_view::{
    Ball, CONNECTIONS, Handle, MethodName, Moments, Options, Placement, Scene, SceneOptions,
    Server, Timeline, ViewError,
};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);
/// Long enough for an unwanted message to arrive.
const SILENCE: Duration = Duration::from_millis(300);

/// `n` evenly spread points on a sphere (golden spiral) around (x, 0, 0).
fn sphere(n: usize, radius: f64, x: f64) -> PointCloud {
    let normals = (0..n).map(|i| {
        let z = 1.0 - 2.0 * (i as f64 + 0.5) / n as f64;
        let (r, a) = ((1.0 - z * z).sqrt(), i as f64 * 2.399_963_229_728_653);
        [r * a.cos(), r * a.sin(), z]
    });
    let normals = normals.collect::<Vec<[f64; 3]>>();
    let position =
        |n: &[f64; 3]| [(radius * n[0] + x) as f32, (radius * n[1]) as f32, (radius * n[2]) as f32];
    PointCloud {
        positions: normals.iter().map(position).collect(),
        normals: Some(normals.iter().map(|n| n.map(|c| c as f32)).collect()),
    }
}
const POINTS: [usize; 2] = [3000, 2000];
/// Builds a scene, on a GPU if there is one.
fn scene(points: [usize; 2]) -> Scene {
    let device = Device::best().unwrap();
    let clouds = [sphere(points[0], 1.0, 0.0), sphere(points[1], 0.8, 0.9)];
    let balls = [0, 1].map(|i: usize| Ball::around(&clouds[i].positions).unwrap());
    let placement = Placement::new(balls, 32).unwrap();
    let names = ["a.ply".into(), "b.ply".into()];
    Scene::new(&device, names, clouds, placement, SceneOptions::default()).unwrap()
}

/// A server on its own thread. Dropping it stops the server and checks its result.
struct Running {
    address: SocketAddr,
    handle: Handle,
    thread: Option<JoinHandle<Result<(), ViewError>>>,
}
impl Running {
    fn start(scene: Scene, options: Options) -> Running {
        let server = Server::bind(options).unwrap();
        let (address, handle) = (server.address(), server.handle());
        assert_eq!(server.url(), format!("http://127.0.0.1:{}/", address.port()));
        Running { address, handle, thread: Some(std::thread::spawn(|| server.run(scene))) }
    }
    fn stop(&mut self) {
        self.handle.stop();
        self.thread.take().unwrap().join().unwrap().unwrap();
    }
    /// Sends a raw HTTP request. Returns the whole answer.
    fn ask(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = vec![];
        stream.read_to_end(&mut answer).unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }
    async fn until_viewers(&self, expected: usize) {
        let begin = Instant::now();
        while self.handle.viewers() != expected {
            assert!(
                begin.elapsed() < PATIENCE,
                "{} viewers, not {expected}",
                self.handle.viewers()
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
impl Drop for Running {
    fn drop(&mut self) {
        if self.thread.is_some() && !std::thread::panicking() {
            self.stop();
        }
    }
}
fn start() -> Running {
    Running::start(scene(POINTS), Options::default())
}

/// A page without a display.
struct Tab {
    socket: WebSocketStream<MaybeTlsStream<tokio::net::TcpStream>>,
}
/// A decoded frame.
#[derive(Debug)]
struct Frame {
    number: u32,
    method: u32,
    pose: [f32; 7],
    counts: [[u32; 4]; 2],
    stages: [f32; 6],
    moment: u32,
    labels: Vec<u8>,
    /// Positions relative to the centre, of clouds that came with the frame.
    points: [Option<Vec<[f32; 3]>>; 2],
}
fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|w| u32::from_le_bytes(w.try_into().unwrap())).collect()
}
/// Describes a message briefly.
fn briefly(message: Option<Message>) -> String {
    match message {
        Some(Message::Binary(bytes)) => format!("{} bytes", bytes.len()),
        other => format!("{other:?}"),
    }
}
impl Tab {
    async fn try_connect(
        address: SocketAddr,
        host: &str,
        origin: Option<&str>,
    ) -> Result<Tab, tungstenite::Error> {
        let mut request = format!("ws://{host}/socket").into_client_request().unwrap();
        if let Some(origin) = origin {
            request.headers_mut().insert("origin", origin.parse().unwrap());
        }
        let stream = MaybeTlsStream::Plain(tokio::net::TcpStream::connect(address).await?);
        Ok(Tab { socket: tokio_tungstenite::client_async(request, stream).await?.0 })
    }
    async fn connect(server: &Running) -> Tab {
        let host = server.address.to_string();
        Tab::try_connect(server.address, &host, Some(&format!("http://{host}"))).await.unwrap()
    }
    /// Connects and receives the scene and its points.
    async fn open(server: &Running) -> (Tab, Value) {
        let mut tab = Tab::connect(server).await;
        let scene = tab.json().await;
        let mut seen = [0, 0];
        while seen != [0, 1].map(|i: usize| scene["clouds"][i]["points"].as_u64().unwrap() as u32) {
            let head = words(&tab.binary().await);
            assert_eq!((head[0], head[2]), (1, seen[head[1] as usize]));
            seen[head[1] as usize] += head[3];
        }
        (tab, scene)
    }
    async fn message(&mut self) -> Option<Message> {
        let next = tokio::time::timeout(PATIENCE, self.socket.next()).await.expect("a message");
        next.and_then(Result::ok)
    }
    async fn json(&mut self) -> Value {
        match self.message().await {
            Some(Message::Text(text)) => serde_json::from_str(&text).unwrap(),
            other => panic!("expected text, got {}", briefly(other)),
        }
    }
    async fn error(&mut self) -> String {
        let reply = self.json().await;
        assert_eq!(reply["type"], "error", "{reply}");
        reply["message"].as_str().unwrap().into()
    }
    async fn binary(&mut self) -> Vec<u8> {
        match self.message().await {
            Some(Message::Binary(bytes)) => bytes.into(),
            other => panic!("expected bytes, got {}", briefly(other)),
        }
    }
    async fn frame(&mut self) -> Frame {
        let bytes = self.binary().await;
        let head = words(&bytes[..104]);
        assert_eq!(head[0], 2, "a frame");
        let counts: [[u32; 4]; 2] = [0, 4].map(|c| std::array::from_fn(|i| head[10 + c + i]));
        let sizes = counts.map(|of| of.iter().sum::<u32>() as usize);
        let end = 104 + sizes[0] + sizes[1];
        let mut rest = &bytes[end.next_multiple_of(4)..];
        let points = [0, 1].map(|cloud| {
            (head[25] >> cloud & 1 == 1).then(|| {
                let own = rest.split_off(..16 * sizes[cloud]).unwrap();
                let floats = words(&own[..12 * sizes[cloud]]).into_iter().map(f32::from_bits);
                floats.collect::<Vec<f32>>().as_chunks().0.to_vec()
            })
        });
        assert!(rest.is_empty(), "{} bytes more", rest.len());
        let frame = Frame {
            number: head[1],
            method: head[2],
            pose: std::array::from_fn(|i| f32::from_bits(head[3 + i])),
            counts,
            stages: std::array::from_fn(|i| f32::from_bits(head[18 + i])),
            moment: head[24],
            labels: bytes[104..end].into(),
            points,
        };
        let (a, b) = frame.labels.split_at(frame.counts[0].iter().sum::<u32>() as usize);
        for (labels, counts) in [a, b].into_iter().zip(frame.counts) {
            assert_eq!(
                [0, 1, 2, 3].map(|label| labels.iter().filter(|&&l| l == label).count() as u32),
                counts
            );
        }
        frame
    }
    async fn shown_frame(&mut self) -> Frame {
        let frame = self.frame().await;
        self.shown(frame.number).await;
        frame
    }
    async fn say(&mut self, text: String) {
        self.socket.send(Message::Text(text.into())).await.unwrap();
    }
    async fn shown(&mut self, frame: u32) {
        self.say(json!({"type": "shown", "frame": frame}).to_string()).await;
    }
    async fn move_to(&mut self, x: f64) {
        let pose = json!({"type": "pose", "rotation": [0, 0, 0, 1], "translation": [x, 0, 0]});
        self.say(pose.to_string()).await;
    }
    async fn is_silent(&mut self) -> bool {
        tokio::time::timeout(SILENCE, self.socket.next()).await.is_err()
    }
}

#[tokio::test]
async fn a_page_gets_the_scene_and_a_frame_for_each_pose() {
    let server = start();
    let (mut tab, scene) = Tab::open(&server).await;
    assert_eq!(
        (&scene["type"], &scene["grid"], &scene["method"]),
        (&json!("scene"), &json!(32), &json!("robust"))
    );
    assert_eq!(scene["clouds"][1]["name"], "b.ply");
    assert_eq!(scene["labels"], json!(["unknown", "intersection", "inside", "outside"]));
    assert_eq!(scene["booleans"][2]["name"], "difference");
    assert_eq!(
        scene["booleans"][2]["keeps"],
        json!([[false, true, false, true], [false, true, true, false]])
    );
    assert!((scene["apart"][0].as_f64().unwrap() - 0.9).abs() < 0.01);
    let reach = scene["reach"].as_f64().unwrap();
    assert!((reach - 1.8).abs() < 0.01);

    let first = tab.shown_frame().await;
    assert_eq!(
        (first.number, first.method, first.pose),
        (0, 0, [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0])
    );
    assert_eq!(first.labels.len(), POINTS[0] + POINTS[1]);
    assert!(first.counts.iter().all(|c| c[1] > 50 && c[2] > 200 && c[3] > 500), "{first:?}");
    assert!(first.stages.iter().all(|&ms| ms >= 0.0) && first.stages.iter().sum::<f32>() > 0.0);
    assert!(tab.is_silent().await, "a pose is computed once");

    // Apart: everything is outside. B inside A: B is inside, A outside.
    tab.move_to(0.89).await;
    let apart = tab.shown_frame().await;
    assert_eq!((apart.number, apart.pose[4]), (1, 0.89));
    assert!(
        apart.counts.iter().zip(POINTS).all(|(c, n)| c[3] > n as u32 * 9 / 10 && c[2] == 0),
        "{apart:?}"
    );
    tab.move_to(-0.9).await;
    let within = tab.shown_frame().await;
    assert!(within.counts[1][2] > 1900 && within.counts[0][2] == 0, "{within:?}");
    // Half a turn around z in place: the same counts, up to the grid's resolution.
    tab.say(
        json!({"type": "pose", "rotation": [0, 0, 1, 0], "translation": [0, 0, 0]}).to_string(),
    )
    .await;
    let turned = tab.shown_frame().await;
    assert_eq!(turned.pose[..4], [0.0, 0.0, 1.0, 0.0]);
    assert!(turned.counts[1][2].abs_diff(first.counts[1][2]) < 60, "{turned:?}");
    // Labels belong to their points: what is inside A has x below the circle where the spheres
    // meet.
    tab.move_to(0.0).await;
    let again = tab.shown_frame().await;
    assert_eq!(again.labels, first.labels);
    let b = sphere(POINTS[1], 0.8, 0.9);
    for (p, label) in b.positions.iter().zip(&again.labels[POINTS[0]..]) {
        let from_a = p.iter().map(|c| c * c).sum::<f32>().sqrt();
        if (from_a - 1.0).abs() > 0.3 {
            assert_eq!(*label, if from_a < 1.0 { 2 } else { 3 }, "{p:?}");
        }
    }
    tab.say(json!({"type": "method", "name": "paper"}).to_string()).await;
    assert_eq!(tab.shown_frame().await.method, 1);
}

/// B at a moment: it swells, and at moment 3 it has fewer points.
fn swollen(moment: u32) -> PointCloud {
    let n = if moment == 3 { 501 } else { POINTS[1] };
    sphere(n, 0.8 + 0.05 * f64::from(moment), 0.9)
}
const MOMENTS: u32 = 6;
/// A scene with [`swollen`] B at one moment, or with a timeline on which moment 5 fails.
fn swelling(only: Option<u32>) -> Scene {
    let clouds = [sphere(POINTS[0], 1.0, 0.0), swollen(only.unwrap_or(0))];
    let balls =
        [Ball::around(&clouds[0].positions).unwrap(), Ball::around(&swollen(5).positions).unwrap()];
    let placement = Placement::new(balls, 32).unwrap();
    let names = ["a.ply".into(), "b.ply".into()];
    let device = Device::best().unwrap();
    let scene = Scene::new(&device, names, clouds, placement, SceneOptions::default()).unwrap();
    if only.is_some() {
        return scene;
    }
    let b: Moments = Box::new(|moment| match moment {
        5 => Err("moment 5 is lost".into()),
        moment => Ok(swollen(moment).into()),
    });
    scene.with_timeline(Timeline {
        moments: MOMENTS,
        rate: 25.0,
        first: 7,
        clouds: [None, Some(b)],
    })
}

#[tokio::test]
async fn a_timeline_brings_the_points_and_labels_of_each_moment() {
    let server = Running::start(swelling(None), Options::default());
    let (mut tab, scene) = Tab::open(&server).await;
    assert_eq!(
        scene["timeline"],
        json!({"moments": 6, "rate": 25.0, "first": 7, "moves": [false, true]})
    );
    let go = |moment: u32| json!({"type": "moment", "number": moment}).to_string();
    let first = tab.shown_frame().await;
    assert_eq!((first.moment, &first.points), (0, &[None, None]), "the page has the points");
    for moment in [4, 3, 1, 0] {
        tab.say(go(moment)).await;
        let frame = tab.shown_frame().await;
        assert_eq!((frame.moment, &frame.points[0]), (moment, &None));
        let b = swollen(moment).positions;
        let centre = Ball::around(&swollen(5).positions).unwrap().centre;
        let found = frame.points[1].as_ref().unwrap();
        assert_eq!(found.len(), b.len());
        for (found, p) in found.iter().zip(&b) {
            (0..3).for_each(|a| {
                assert!((f64::from(found[a]) + centre[a] - f64::from(p[a])).abs() < 1e-6)
            });
        }
        // The labels are those of a scene of these points alone, up to their order in memory.
        let alone = Running::start(swelling(Some(moment)), Options::default());
        let (mut other, greeting) = Tab::open(&alone).await;
        assert_eq!(greeting["timeline"], Value::Null);
        let expected = other.shown_frame().await;
        let differ = frame.labels.iter().zip(&expected.labels).filter(|(a, b)| a != b).count();
        assert_eq!(frame.labels.len(), expected.labels.len());
        assert!(differ <= frame.labels.len() / 50, "{moment}: {differ}");
        // B may move meanwhile; its points are there.
        tab.move_to(0.2).await;
        let moved = tab.shown_frame().await;
        assert_eq!((moved.moment, &moved.points), (moment, &[None, None]));
        tab.move_to(0.0).await;
        let back = tab.shown_frame().await;
        assert_eq!(back.labels, frame.labels);
    }
    // The other method has an intersector of its own, with points of its own.
    tab.say(json!({"type": "method", "name": "paper"}).to_string()).await;
    tab.shown_frame().await;
    tab.say(go(2)).await;
    let paper = tab.shown_frame().await;
    tab.say(json!({"type": "method", "name": "robust"}).to_string()).await;
    let robust = tab.shown_frame().await;
    assert_eq!((paper.method, robust.method, robust.moment), (1, 0, 2));
    assert!(paper.points[1].is_some() && robust.points[1].is_none());
    // Another viewer is at its own moment.
    let (mut second, _) = Tab::open(&server).await;
    assert_eq!(second.shown_frame().await.labels, first.labels);
    // A moment that fails is told, and the next one is shown.
    tab.say(go(5)).await;
    assert_eq!(tab.error().await, "moment 5 is lost");
    assert!(tab.is_silent().await);
    tab.say(go(6)).await;
    assert!(tab.error().await.contains("moment 6, but there are 6, from 0"));
    tab.say(go(1)).await;
    let last = tab.shown_frame().await;
    assert!(last.moment == 1 && last.points[1].is_some());
}

#[tokio::test]
async fn a_slow_viewer_skips_moments() {
    let server = Running::start(swelling(None), Options::default());
    let (mut tab, _) = Tab::open(&server).await;
    let first = tab.frame().await;
    let go = |moment: u32| json!({"type": "moment", "number": moment}).to_string();
    let before = server.handle.frames();
    for moment in [1, 2, 3, 4, 1, 2] {
        tab.say(go(moment)).await;
    }
    assert!(tab.is_silent().await);
    assert_eq!(server.handle.frames(), before, "nothing is computed ahead");
    tab.shown(first.number).await;
    let next = tab.shown_frame().await;
    assert_eq!((next.number, next.moment), (first.number + 1, 2));
    assert!(tab.is_silent().await);
}

#[tokio::test]
async fn what_is_malformed_is_told_and_nothing_else_happens() {
    let server = start();
    let (mut tab, _) = Tab::open(&server).await;
    tab.shown_frame().await;
    for (text, why) in [
        ("garbage", "not understood"),
        (
            r#"{"type":"pose","rotation":[0,0,0,1],"translation":[0,0,0],"scale":2}"#,
            "unknown field `scale`",
        ),
        (r#"{"type":"pose","rotation":[0,0,0,1],"translation":[9,0,0]}"#, "expected at most"),
        (r#"{"type":"pose","rotation":[0,0,0,2],"translation":[0,0,0]}"#, "expected 1"),
        (r#"{"type":"shown","frame":0}"#, "no frame is in flight"),
    ] {
        tab.say(text.into()).await;
        let told = tab.error().await;
        assert!(told.contains(why), "{text}: {told}");
    }
    tab.socket.send(Message::Binary(vec![0; 100].into())).await.unwrap();
    assert!(tab.error().await.contains("100 bytes"));
    tab.socket.send(Message::Ping(vec![1].into())).await.unwrap();
    assert!(matches!(tab.message().await, Some(Message::Pong(_))));
    assert_eq!(server.handle.frames(), 1);
    tab.move_to(0.1).await;
    assert_eq!(tab.shown_frame().await.number, 1);

    // Too long: this tab is disconnected, others stay.
    let (mut other, _) = Tab::open(&server).await;
    other.shown_frame().await;
    tab.socket.send(Message::Text(" ".repeat(5000).into())).await.unwrap();
    while let Some(message) = tab.message().await {
        assert!(matches!(message, Message::Close(_)), "{message:?}");
    }
    server.until_viewers(1).await;
    other.move_to(0.2).await;
    other.shown_frame().await;
}

/// However many poses a page sends, one frame is in flight, and the next is for the newest pose.
#[tokio::test]
async fn a_page_that_acknowledges_nothing_gets_one_frame() {
    let server = start();
    let (mut tab, _) = Tab::open(&server).await;
    let first = tab.frame().await;
    for i in 0..500 {
        tab.move_to(f64::from(i) * 1e-3).await;
    }
    tab.shown(first.number + 7).await;
    assert!(tab.error().await.contains("frame 0 is in flight"));
    assert!(tab.is_silent().await);
    assert_eq!(server.handle.frames(), 1);
    tab.shown(first.number).await;
    let next = tab.shown_frame().await;
    assert_eq!((next.number, next.pose[4]), (1, 0.499));
    assert!(tab.is_silent().await, "the poses between are skipped");
    assert_eq!(server.handle.frames(), 2);
}

#[tokio::test]
async fn viewers_have_poses_of_their_own_and_take_turns() {
    let server = start();
    let (mut one, _) = Tab::open(&server).await;
    let (mut two, _) = Tab::open(&server).await;
    let given = one.shown_frame().await;
    two.shown_frame().await;
    for i in 0..20 {
        two.move_to(-0.9 + f64::from(i) * 1e-3).await;
        one.move_to(f64::from(i + 1) * 1e-3).await;
        let (a, b) = (one.shown_frame().await, two.shown_frame().await);
        assert_eq!((a.number, b.number), (i as u32 + 1, i as u32 + 1));
        assert!(a.counts[1][2].abs_diff(given.counts[1][2]) < 100 && b.counts[1][2] > 1900);
    }
}

#[tokio::test]
async fn a_closed_tab_leaves_nothing_behind() {
    let server = start();
    let (mut stays, _) = Tab::open(&server).await;
    stays.shown_frame().await;
    for round in 0..20 {
        // Closed before anything is read, while a frame is computed, or with a close message.
        let mut tab = Tab::connect(&server).await;
        match round % 3 {
            0 => {}
            1 => {
                tab.json().await;
                tab.move_to(0.3).await;
            }
            _ => tab.socket.close(None).await.unwrap(),
        }
        drop(tab);
    }
    server.until_viewers(1).await;
    stays.move_to(0.2).await;
    assert_eq!(stays.shown_frame().await.number, 1);
}

#[tokio::test]
async fn there_are_so_many_places() {
    let server = Running::start(scene(POINTS), Options::default().with_viewers(2));
    let (mut one, _) = Tab::open(&server).await;
    let (two, _) = Tab::open(&server).await;
    let mut three = Tab::connect(&server).await;
    assert_eq!(
        three.error().await,
        "2 viewers are connected, which is the maximum: close one of them"
    );
    match three.message().await {
        Some(Message::Close(Some(frame))) => assert_eq!(u16::from(frame.code), 1013),
        other => panic!("expected a close, got {}", briefly(other)),
    }
    one.shown_frame().await;
    drop(two);
    server.until_viewers(1).await;
    let (mut three, _) = Tab::open(&server).await;
    three.shown_frame().await;
}

/// The points of this scene exceed the socket's buffers, so a reader that never reads blocks the
/// server's sending.
#[tokio::test]
async fn a_reader_that_never_reads_is_sent_away() {
    let many = scene([700_000, 2000]);
    let server =
        Running::start(many, Options::default().with_send_timeout(Duration::from_millis(400)));
    let mut lazy = Tab::connect(&server).await;
    for _ in 0..50 {
        lazy.move_to(0.1).await;
    }
    server.until_viewers(1).await;
    let begin = Instant::now();
    server.until_viewers(0).await;
    assert!(begin.elapsed() < Duration::from_secs(20));
    assert_eq!(server.handle.frames(), 0, "nothing was computed for it");
    let (mut other, _) = Tab::open(&server).await;
    other.shown_frame().await;
}

/// More connections than allowed, which ask nothing or read nothing of an answer.
#[tokio::test]
async fn idle_connections_do_not_keep_others_out() {
    let options = Options::default().with_request_timeout(Duration::from_millis(300));
    let server = Running::start(scene(POINTS), options);
    let (mut tab, _) = Tab::open(&server).await;
    tab.shown_frame().await;
    let own = server.address.to_string();
    let idle = (0..2 * CONNECTIONS).map(|i| {
        let mut stream = TcpStream::connect(server.address).unwrap();
        let asks = ["", "GET / HT", &get("/app.js", &own)][i % 3].to_owned();
        stream.write_all(asks.as_bytes()).unwrap();
        stream
    });
    let idle = idle.collect::<Vec<TcpStream>>();
    assert!(server.ask(&get("/", &own)).starts_with("HTTP/1.1 200"));
    drop(idle);
    tab.move_to(0.1).await;
    assert_eq!(tab.shown_frame().await.number, 1, "a viewer's connection is not one of those");
}

#[tokio::test]
async fn strangers_are_refused() {
    let server = start();
    let own = server.address.to_string();
    let local = format!("localhost:{}", server.address.port());
    for (host, origin) in [
        (own.as_str(), None),
        (&own, Some("http://example.org".to_owned())),
        (&own, Some("null".into())),
        (&own, Some(format!("https://{own}"))),
        (&own, Some(format!("http://{local}"))),
        (&own, Some("http://127.0.0.1:1".into())),
        ("example.org:80", Some("http://example.org:80".into())),
    ] {
        match Tab::try_connect(server.address, host, origin.as_deref()).await {
            Err(tungstenite::Error::Http(response)) => {
                assert_eq!(response.status(), 403, "{host} {origin:?}")
            }
            other => panic!("{host} {origin:?}: {:?}", other.map(|_| "connected")),
        }
    }
    Tab::try_connect(server.address, &local, Some(&format!("http://{local}"))).await.unwrap();
    assert_eq!(server.handle.frames(), 0);
}

fn get(path: &str, host: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
}
#[tokio::test]
async fn the_page_is_served_to_this_machine_only() {
    let server = start();
    let own = server.address.to_string();
    assert!(server.address.ip().is_loopback());
    for (path, kind, within) in [
        ("/", "text/html", "<canvas"),
        ("/app.js", "text/javascript", "/socket"),
        ("/style.css", "text/css", ":focus-visible"),
        ("/licences.txt", "text/plain", "three.js authors"),
    ] {
        let answer = server.ask(&get(path, &own));
        assert!(
            answer.starts_with("HTTP/1.1 200") && answer.contains(kind) && answer.contains(within),
            "{path}"
        );
        assert!(
            answer.contains("content-security-policy: default-src 'none'")
                && answer.contains("no-store")
        );
        // The page loads nothing from elsewhere.
        assert!(path != "/" || !answer.contains("https://"), "{path}");
        assert!(server.ask(&get(path, "example.org")).starts_with("HTTP/1.1 403"), "{path}");
    }
    assert!(server.ask(&get("/../Cargo.toml", &own)).starts_with("HTTP/1.1 404"));
    assert!(server.ask(&get("/socket", &own)).starts_with("HTTP/1.1 403"));
    assert!(
        server
            .ask(
                "POST / HTTP/1.1\r\nHost: localhost\r\n\
                  Content-Length: 0\r\nConnection: close\r\n\r\n"
            )
            .contains("405")
    );
    assert!(server.ask("\x16\x03\x01 nonsense\r\n\r\n").contains("400"));
}

#[tokio::test]
async fn a_port_in_use_is_named_and_stopping_frees_it() {
    let mut server = start();
    let port = server.address.port();
    let taken = Server::bind(Options::default().with_port(port)).map(|_| ());
    let told = taken.unwrap_err().to_string();
    assert!(
        told.contains(&format!("port {port} of 127.0.0.1")) && told.contains("0 for any"),
        "{told}"
    );
    let (mut tab, _) = Tab::open(&server).await;
    tab.shown_frame().await;
    let begin = Instant::now();
    server.stop();
    assert!(begin.elapsed() < Duration::from_secs(10));
    match tab.message().await {
        Some(Message::Close(Some(frame))) => assert_eq!(u16::from(frame.code), 1001),
        other => panic!("expected a close, got {}", briefly(other)),
    }
    assert!(TcpStream::connect(server.address).is_err());
    let methods = [MethodName::Robust, MethodName::Paper];
    for method in methods {
        let clouds = [sphere(500, 1.0, 0.0), sphere(500, 1.0, 1.0)];
        let balls = [0, 1].map(|i: usize| Ball::around(&clouds[i].positions).unwrap());
        let options = SceneOptions::default().with_method(method);
        let device = Device::cpu_with_threads(1).unwrap();
        let scene = Scene::new(
            &device,
            ["a".into(), "b".into()],
            clouds,
            Placement::new(balls, 16).unwrap(),
            options,
        );
        let again = Running::start(scene.unwrap(), Options::default().with_port(port));
        assert_eq!(again.address.port(), port);
    }
}
