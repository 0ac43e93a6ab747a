//! One HTTP connection: the loop between its socket and a layer that answers requests.
//!
//! HTTP/1.1 with keep-alive and HTTP/2 with prior knowledge, on the I/O thread that was given the
//! connection: requests are read, answered and sent there. A reply leaves once what it depends on
//! is durable.
//!
//! | file      | content                                                          |
//! |-----------|------------------------------------------------------------------|
//! | `message` | requests and answers as layers see them                          |
//! | `framing` | the bounds of HTTP/1.1 requests, without I/O                     |
//! | `http1`   | the loop for HTTP/1.1                                            |
//! | `http2`   | HTTP/2, by hyper                                                 |
//! | `turns`   | turns of a database for its requests                             |
//! | `elsewhere` | requests for the home of another partition                     |

pub(crate) mod body;
pub(crate) mod compression;
pub(crate) mod elsewhere;
pub mod framing;
mod http1;
pub(crate) mod http2;
pub(crate) mod input_budget;
pub mod message;
mod turns;
pub(crate) mod web_pages;

use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, SystemTime};

use quartet_engine::{Dependency, Memory, PartitionId};
use quartet_layer_redis::access::login_guard::LoginGuard;
use tokio::net::TcpStream;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use self::elsewhere::{Answered, Elsewhere, IdleHome, Unanswered};
use self::http1::{Connection, Ended};
pub use self::http1::{Written, written};
use self::message::Kept;
pub use self::message::{Answer, Credential, Head, Header, Headers};
use crate::connections::accept::{Admitting, Entrance};
use crate::connections::durability::{DurableWaiters, ThreadWaiters};
use crate::connections::handoff::{Arrival, IoThread};
use crate::connections::stream::clear_socket;
use crate::connections::tls::{Speaks, Tls, TlsEntrance, Transport};
use crate::connections::waker::ThreadWaker;
use crate::http::input_budget::KeptInput;
use crate::layers::parts::{Leaving, WayOut};
use crate::limits::connection_limit::{ConnectionLimit, Permit, Place};
use crate::limits::transfer_deadline::{OUTPUT_BYTES_PER_SECOND_MIN, Pace};
use crate::limits::unauthenticated_input::StrangerBytes;
use crate::observability::telemetry::spans::{self, Described, Span, Spans, UnderWay};
use crate::tenants::turns::FairShare;

/// A layer for HTTP. Called on I/O threads: it must not block longer than a short transaction.
pub trait HttpLayer: Send + Sync + 'static {
    /// Most bytes of a body, as they arrive. A longer one is given as `None`.
    fn body_bytes_max(&self) -> usize;

    fn answer(&self, head: &Head<'_>, body: Option<&[u8]>) -> Answer;

    /// Checks the head of a request before the server reads more of its body than unauthenticated
    /// peers may send.
    fn judge_head(&self, head: &Head<'_>) -> HeadShows;

    /// Refuses a whole request of a peer that has not shown who it is, if its head shows a wrong
    /// credential and its body would have to be decoded to be answered.
    fn refuse_stranger(&self, _head: &Head<'_>) -> Option<Answer> {
        None
    }

    /// As `answer`, but no longer than an I/O thread may take.
    fn dispatch(&self, head: &Head<'_>, body: Option<&[u8]>) -> Dispatch {
        Dispatch::Answered(self.answer(head, body))
    }

    /// The answer to a request that `dispatch` has found the partition busy for as long as a client
    /// is kept waiting: an error after which clients of the protocol try again.
    fn answer_busy(&self, head: &Head<'_>) -> Answer;

    /// Returns the share that has the turn while `follow` or `answer` takes long.
    fn long_turn(&self, _head: &Head<'_>) -> Option<FairShare> {
        None
    }

    /// Describes a request for its span.
    fn describe(&self, _head: &Head<'_>) -> Described {
        Described {
            layer: "http",
            operation: "other",
            database: None,
        }
    }

    /// The admin API is among what it answers: a few places are kept for connections from this
    /// machine.
    fn serves_operators(&self) -> bool {
        false
    }

    /// Work in the background, a little at a time; called every tenth of a second from a thread of
    /// its own.
    fn maintain(&self) {}

    /// Starts a streaming answer, for a request that `dispatch` left. `None`: the request is for
    /// `answer`.
    fn follow(&self, _head: &Head<'_>, _body: Option<&[u8]>, _wake: Wake) -> Option<ResponseStream> {
        None
    }
}

/// The credential that the head of a request shows without its body.
pub enum HeadShows {
    /// A right credential, or no credential is needed.
    Credential,
    /// A known name; the body is needed to authenticate it.
    Name,
    /// All that is needed for the answer.
    Answer(Answer),
}

/// The outcome of a request on an I/O thread.
pub enum Dispatch {
    Answered(Answer),
    /// Nothing: it is for `follow` or `answer`, on a thread that may wait.
    Later,
    /// Nothing: the partition's lock is held, and the request must be retried when it is free.
    Busy(PartitionId),
    /// Nothing: the request must be forwarded to the home of its database.
    Elsewhere(Elsewhere),
    /// A part. This is the rest, for a thread that may wait, and the owner of its turn.
    Unfinished(Option<FairShare>, Work),
}

pub type Work = Box<dyn FnOnce() -> Answer + Send>;

/// To be notified when a [`Follower`] may have something to send, from any thread.
pub type Wake = Arc<Notify>;

/// Status and headers of a streaming answer, and its source; or a refusal.
pub type ResponseStream = Result<(u16, Headers, Box<dyn Follower>), Answer>;

/// An answer that streams until either side ends it.
pub trait Follower: Send {
    fn next(&mut self) -> Following;

    /// The partition of all that it waits for.
    fn partition(&self) -> PartitionId {
        PartitionId(0)
    }
}

pub enum Following {
    /// To be sent, then call again.
    Send(Vec<u8>),
    /// Call again once this is durable.
    Wait(Dependency),
    /// Call again when woken.
    Idle,
    /// Call again once the partition's lock is free.
    Busy,
    End,
}

/// A peer that leaves a connection without a request for so long is disconnected, at the latest
/// after twice the time. Clients keep theirs for a minute or so.
const IDLE_TIMEOUT: Duration = Duration::from_secs(350);
/// Time for which a request waits for the partition's lock while it is held for long.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Writers wait for the disk for longer: each gets its turn as the store is flushed.
const BEHIND_TIMEOUT: Duration = Duration::from_secs(60);
/// Time from a client's connection to its first bytes, for which a server that stops waits: many
/// clients of HTTP/2 that were not answered do not notice the end of their connection.
pub(crate) const FIRST_BYTES_WITHIN: Duration = Duration::from_secs(1);
/// The same for a peer that has not shown who it is.
const STRANGER_IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit of a head, from its first byte to its last.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// The slowest pace of a body.
const BODY_PACE: Pace = Pace {
    timeout: Duration::from_secs(20),
    bytes_per_second: 32 << 10,
};
/// How slowly an answer may be taken.
const ANSWER_PACE: Pace = Pace {
    timeout: Duration::from_secs(60),
    bytes_per_second: OUTPUT_BYTES_PER_SECOND_MIN,
};
/// A body up to this size is read before anything is known of who sends it: the answer may have to
/// look at it.
const STRANGER_BODY_BYTES_MAX: u64 = 16 << 10;
/// Time for which a stopping server waits for another home's answer.
const STOP_PATIENCE: Duration = Duration::from_secs(1);
/// Bytes of an overlong body that are read before the connection is given up, so that the peer sees
/// the answer.
const DISCARDED_BYTES_MAX: u64 = 64 << 20;

/// A socket on its way to its I/O thread, and the layer that will answer on it.
struct HttpAccepted {
    socket: std::net::TcpStream,
    tls: Option<TlsEntrance>,
    peer: Peer,
    layer: Arc<dyn HttpLayer>,
    evicted: Arc<Notify>,
}

/// The entrance to a layer over HTTP.
pub struct HttpEntrance {
    pub layer: Arc<dyn HttpLayer>,
    pub tls: Arc<Tls>,
    pub limit: Arc<ConnectionLimit>,
    pub stranger_bytes: Arc<StrangerBytes>,
    pub memory: Arc<Memory>,
    pub login_guard: Arc<LoginGuard>,
    pub spans: Option<Arc<Spans>>,
    pub way_out: WayOut,
}

impl Entrance for HttpEntrance {
    fn admit<'e>(&'e self, socket: TcpStream, peer: SocketAddr, _thread_waker: &'e Arc<ThreadWaker>) -> Admitting<'e> {
        Box::pin(async move {
            let address = peer.ip();
            let place = match self.layer.serves_operators() && address.is_loopback() {
                true => Place::LocalHttp,
                false => Place::Any,
            };
            let Some(permit) = self.limit.admit(place).await else {
                if !self.tls.is_on() {
                    // The peer gets the answer if its socket takes it at once.
                    let _ = socket.try_write(NO_PLACE);
                }
                return Ok(None);
            };
            socket.set_nodelay(true)?;
            let evicted = Arc::new(Notify::new());
            let notified = evicted.clone();
            permit.is_of_stranger(move || notified.notify_one());
            let from = socket.peer_addr()?;
            let accepted = HttpAccepted {
                socket: socket.into_std()?,
                tls: self.tls.entrance(Speaks::Http, address),
                peer: Peer {
                    permit: Arc::new(permit),
                    address,
                    port: peer.port(),
                    from,
                    way_out: self.way_out.clone(),
                    stranger_bytes: self.stranger_bytes.clone(),
                    memory: self.memory.clone(),
                    login_guard: self.login_guard.clone(),
                    spans: self.spans.clone(),
                    idle_home: Arc::default(),
                },
                layer: self.layer.clone(),
                evicted,
            };
            Ok(Some(Box::new(accepted) as Box<dyn Arrival>))
        })
    }
}

impl Arrival for HttpAccepted {
    fn start(self: Box<Self>, thread: &IoThread, tasks: &mut JoinSet<()>) {
        let serving = serve(*self, thread.waiters.clone(), thread.stop.clone());
        tasks.spawn(thread.turns.with(serving));
    }
}

/// The other end of a connection.
#[derive(Clone)]
pub struct Peer {
    permit: Arc<Permit>,
    address: IpAddr,
    port: u16,
    /// The other end of the socket, which may be a node that passes the client on.
    from: SocketAddr,
    way_out: WayOut,
    stranger_bytes: Arc<StrangerBytes>,
    memory: Arc<Memory>,
    login_guard: Arc<LoginGuard>,
    spans: Option<Arc<Spans>>,
    /// For requests to the homes of other partitions.
    idle_home: Arc<IdleHome>,
}

impl Peer {
    fn socket_address(&self) -> SocketAddr {
        SocketAddr::new(self.address, self.port)
    }

    #[inline]
    fn is_stranger(&self) -> bool {
        self.permit.is_stranger()
    }

    /// The idle limit of a connection, once or twice.
    fn idle_timeout(&self) -> Duration {
        match self.is_stranger() {
            true => STRANGER_IDLE_TIMEOUT,
            false => IDLE_TIMEOUT,
        }
    }

    /// Returns the account of the peer's buffered input.
    fn input(&self) -> KeptInput {
        KeptInput::new(self.stranger_bytes.input(self.address), self.memory.clone())
    }

    /// Starts the span of a request, if it is sampled.
    #[inline]
    fn begin_span(&self, layer: &dyn HttpLayer, head: &Head<'_>) -> Option<UnderWay> {
        let spans = self.spans.as_ref()?;
        spans.begin(head.method, head, || layer.describe(head))
    }

    /// The request of this span was answered. A peer that has not shown who it is has none.
    fn note_answer(&self, span: Option<UnderWay>, answer: &mut Answer) -> Option<UnderWay> {
        let mut span = span.filter(|_| !self.is_stranger())?;
        spans::note_status(&mut span, answer.status);
        name_span(&span, answer);
        Some(span)
    }

    fn end_span(&self, span: Option<UnderWay>) {
        if let (Some(spans), Some(span)) = (&self.spans, span) {
            spans.end(span);
        }
    }

    /// Authenticates the peer from an answer. An answer that reports a wrong credential is delayed
    /// longer the more there were; right credentials are never delayed.
    #[inline]
    fn answered(&self, answer: &mut Answer) {
        match answer.credential {
            Credential::Right => self.permit.authenticated(),
            Credential::Wrong => {
                let delay_micros = self.login_guard.failed(self.address, HTTP_USER, now_micros());
                answer.pause = answer.pause.max(Duration::from_micros(delay_micros));
            }
            Credential::Absent => {}
        }
    }
}

#[cfg(test)]
impl Peer {
    fn for_test(stranger_bytes: Arc<StrangerBytes>) -> Peer {
        let permit = ConnectionLimit::new(1).permit_for_test();
        permit.is_of_stranger(|| {});
        Peer {
            permit: Arc::new(permit),
            address: IpAddr::from([127, 0, 0, 1]),
            port: 1,
            from: SocketAddr::from(([127, 0, 0, 1], 1)),
            way_out: WayOut {
                nodes: None,
                listener: "http",
            },
            stranger_bytes,
            memory: Arc::default(),
            login_guard: Arc::default(),
            spans: None,
            idle_home: Arc::default(),
        }
    }
}

/// Replaces the user: a wrong token has none.
const HTTP_USER: &[u8] = b"";

fn now_micros() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_micros() as u64)
}

/// Serves a connection to its end, which is early if its place is needed and the peer is not yet
/// authenticated.
async fn serve(accepted: HttpAccepted, waiters: ThreadWaiters, stop: watch::Receiver<bool>) {
    let (evicted, peer) = (accepted.evicted.clone(), accepted.peer.clone());
    let mut evicted = pin!(evicted.notified());
    let mut serving = pin!(serve_admitted(accepted, waiters, stop));
    poll_fn(|context| {
        let is_over = serving.as_mut().poll(context).is_ready()
            || peer.is_stranger() && evicted.as_mut().poll(context).is_ready();
        if is_over { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

async fn serve_admitted(accepted: HttpAccepted, waiters: ThreadWaiters, stop: watch::Receiver<bool>) {
    let Ok(socket) = TcpStream::from_std(accepted.socket) else {
        return;
    };
    match Transport::open(socket, accepted.tls).await {
        Ok(Transport::Clear(socket)) => converse(socket, accepted.layer, accepted.peer, waiters, stop).await,
        Ok(Transport::Encrypted(stream)) => converse(*stream, accepted.layer, accepted.peer, waiters, stop).await,
        Err(error) => tracing::debug!(%error, "a handshake failed"),
    }
}

/// The same for any stream of bytes: the peer's first bytes show which version it speaks.
async fn converse(
    socket: impl http1::Socket,
    layer: Arc<dyn HttpLayer>,
    peer: Peer,
    waiters: ThreadWaiters,
    stop: watch::Receiver<bool>,
) {
    let connection = Connection::new(socket, layer.clone(), peer.clone(), waiters.clone(), stop.clone());
    match connection.run().await {
        Ok(Ended::Closed) => {}
        Ok(Ended::Leaves { socket, input, is_new }) => {
            if let (Some(nodes), Some(socket)) = (peer.way_out.open(), clear_socket(socket)) {
                nodes.carry(Leaving {
                    listener: peer.way_out.listener,
                    peer: peer.socket_address(),
                    from: peer.from,
                    socket,
                    state: Vec::new(),
                    input,
                    is_new,
                });
            }
        }
        Ok(Ended::SpeaksHttp2(socket, seen)) => http2::serve(socket, seen, layer, peer, waiters, stop).await,
        Err(error) => tracing::debug!(%error, "an HTTP connection ended"),
    }
}

/// The answer to a client without a place.
pub(crate) const NO_PLACE: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 1\r\ncontent-length: 0\r\n\r\n";

/// The rest of a request's work, on a thread that may wait.
enum Long {
    Everything(Kept),
    Elsewhere(Elsewhere),
    Rest(Option<FairShare>, Work),
}

/// The time for which one request has waited for the partition, or for the store.
#[derive(Default)]
struct BusySince {
    first: Option<Instant>,
    /// The store was behind at some point. It may have caught up, and the request is next in turn:
    /// it is not refused for a wait longer than for the lock.
    was_behind: bool,
}

impl BusySince {
    /// True once a request that found the partition busy, or the store behind, is to be refused.
    fn is_too_long(&mut self, waiters: &DurableWaiters) -> bool {
        // A hand-over ends: the request continues here, or at the next home.
        if waiters.are_requests_held() {
            self.first = None;
            return false;
        }
        if !waiters.is_home() {
            return true;
        }
        self.was_behind |= waiters.is_behind();
        let patience = if self.was_behind { BEHIND_TIMEOUT } else { BUSY_TIMEOUT };
        self.first.get_or_insert_with(Instant::now).elapsed() >= patience
    }
}

/// Errors: there is no answer, and whether the request was executed is not known.
async fn take_long(
    layer: Arc<dyn HttpLayer>,
    long: Long,
    peer: &Peer,
    waiters: &ThreadWaiters,
    wake: Wake,
    mut stop: watch::Receiver<bool>,
) -> std::io::Result<ResponseStream> {
    match long {
        Long::Elsewhere(elsewhere) => {
            let given_up = async {
                let _ = stop.wait_for(|stops| *stops).await;
                tokio::time::sleep(STOP_PATIENCE).await;
            };
            let asked = tokio::select! {
                asked = ask_elsewhere(&layer, &elsewhere, peer, wake) => asked?,
                () = given_up => return Err(std::io::ErrorKind::ConnectionAborted.into()),
            };
            Ok(asked.map_err(|answer| {
                elsewhere
                    .request()
                    .with(|head, _| judged(&*layer, head, answer, waiters))
            }))
        }
        Long::Rest(scheduler_handle, work) => Ok(on_thread(scheduler_handle, || Err(work())).await),
        Long::Everything(request) => take_everything(layer, Arc::new(request), peer, waiters, wake, stop).await,
    }
}

/// Answers a request on a thread that may wait. One that finds the partition busy in a hand-over
/// continues here, or at the next home. Errors as those of [`take_long`].
async fn take_everything(
    layer: Arc<dyn HttpLayer>,
    request: Arc<Kept>,
    peer: &Peer,
    waiters: &ThreadWaiters,
    wake: Wake,
    stop: watch::Receiver<bool>,
) -> std::io::Result<ResponseStream> {
    loop {
        let scheduler_handle = request.with(|head, _| layer.long_turn(head));
        let (answering, kept, wakes) = (layer.clone(), request.clone(), wake.clone());
        let answer = move || {
            kept.with(|head, body| match answering.follow(head, body, wakes) {
                Some(followed) => followed,
                None => Err(answering.answer(head, body)),
            })
        };
        let answered = on_thread(scheduler_handle, answer).await;
        let busy_partition = match &answered {
            Err(answer) if answer.is_busy => answer.partition,
            _ => {
                let judge = |answer| request.with(|head, _| judged(&*layer, head, answer, waiters));
                return Ok(answered.map_err(judge));
            }
        };
        if *stop.borrow() && peer.way_out.open().is_some() {
            let elsewhere = request.with(|head, body| Elsewhere::at_the_home(&peer.way_out, head, body));
            return ask_elsewhere(&layer, &elsewhere, peer, wake).await;
        }
        let waiters = waiters.of(busy_partition);
        if *stop.borrow() || !waiters.are_requests_held() {
            return Ok(answered);
        }
        waiters.free().await;
    }
}

/// The answer as it may leave. Only a home refuses: at a node that is not home, a refusal may rest
/// on a credential or a definition that another home has changed.
fn judged(layer: &dyn HttpLayer, head: &Head<'_>, answer: Answer, waiters: &ThreadWaiters) -> Answer {
    let is_refusal = (400..500).contains(&answer.status) && !answer.is_of_the_node;
    match is_refusal && !waiters.of(answer.partition).is_home() {
        true => layer.answer_busy(head),
        false => answer,
    }
}

/// Runs `answer` on a thread that may wait, as a turn of its database.
async fn on_thread(
    scheduler_handle: Option<FairShare>,
    answer: impl FnOnce() -> ResponseStream + Send + 'static,
) -> ResponseStream {
    let turn = match scheduler_handle {
        Some(scheduler_handle) => Some(scheduler_handle.begin_long().await),
        None => None,
    };
    let answered = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        answer()
    });
    answered
        .await
        .unwrap_or_else(|_| Err(Answer::settled(INTERNAL_SERVER_ERROR, "")))
}

/// Errors as those of [`take_long`].
async fn ask_elsewhere(
    layer: &Arc<dyn HttpLayer>,
    elsewhere: &Elsewhere,
    peer: &Peer,
    wake: Wake,
) -> std::io::Result<ResponseStream> {
    match elsewhere.ask(peer.socket_address(), &peer.idle_home, wake).await {
        Ok(Answered::Whole(answer)) => Ok(Err(answer)),
        Ok(Answered::GoesOn(status, headers, pieces)) => Ok(Ok((status, headers, Box::new(Pieces(pieces))))),
        Err(Unanswered::NotExecuted) => Ok(Err(elsewhere.request().with(|head, _| layer.answer_busy(head)))),
        Err(Unanswered::Unknown) => Err(std::io::ErrorKind::ConnectionAborted.into()),
    }
}

const INTERNAL_SERVER_ERROR: u16 = 500;

/// A streaming answer of another home.
struct Pieces(mpsc::Receiver<Vec<u8>>);

impl Follower for Pieces {
    fn next(&mut self) -> Following {
        match self.0.try_recv() {
            Ok(piece) => Following::Send(piece),
            Err(TryRecvError::Empty) => Following::Idle,
            Err(TryRecvError::Disconnected) => Following::End,
        }
    }
}

/// Names the span in an answer that names one: FaunaDB's does.
fn name_span(span: &Span, answer: &mut Answer) {
    let named = answer.headers.iter_mut().find(|(name, _)| *name == spans::TRACEPARENT);
    if let Some((_, value)) = named {
        *value = spans::traceparent(span).into();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use quartet_engine::{Engine, EngineOptions};
    use quartet_env::{FaultyDisk, ManualClock};
    use quartet_tenancy::Partitions;

    use super::*;
    use crate::connections::turns::ThreadTurns;

    /// Needs a thread that may wait, and is busy while requests are held, which ends at the third
    /// try.
    struct Held {
        engine: Arc<Engine>,
        tries: AtomicU32,
    }

    impl HttpLayer for Held {
        fn body_bytes_max(&self) -> usize {
            100
        }

        fn answer(&self, head: &Head<'_>, body: Option<&[u8]>) -> Answer {
            if self.tries.fetch_add(1, Ordering::SeqCst) == 2 {
                self.engine.resume();
            }
            match self.engine.partition_in_time() {
                Ok(_) => Answer::settled(200, body.unwrap_or_default()),
                Err(_) => self.answer_busy(head),
            }
        }

        fn judge_head(&self, _head: &Head<'_>) -> HeadShows {
            HeadShows::Credential
        }

        fn answer_busy(&self, _head: &Head<'_>) -> Answer {
            Answer {
                is_busy: true,
                ..Answer::settled(503, "")
            }
        }
    }

    fn held() -> (Arc<Held>, ThreadWaiters) {
        let (clock, disk) = (Arc::new(ManualClock::new(1)), Arc::new(FaultyDisk::new()));
        let failure = Box::new(|error: &_| panic!("the log failed: {error}"));
        let engine = Engine::open(disk, clock, EngineOptions::default(), failure, &mut |_| {}).unwrap();
        let engine = Arc::new(engine);
        assert!(engine.hold_requests(Duration::from_secs(1)));
        let partitions = Arc::new(Partitions::new(vec![engine.clone()]));
        let waiters = ThreadWaiters::start(&partitions, &ThreadTurns::default());
        let tries = AtomicU32::new(0);
        (Arc::new(Held { engine, tries }), waiters)
    }

    /// A request of FaunaDB was refused as busy in a hand-over: its node held requests for longer
    /// than a request waits for a busy partition.
    #[tokio::test(start_paused = true)]
    async fn a_request_waits_for_a_hand_over_for_as_long_as_that_takes() {
        let (held, waiters) = held();
        let waiters = waiters.of(PartitionId(0));
        let mut busy_since = BusySince::default();
        for _ in 0..3 {
            assert!(!busy_since.is_too_long(waiters));
            tokio::time::advance(BUSY_TIMEOUT).await;
        }
        held.engine.resume();
        assert!(!busy_since.is_too_long(waiters));
        tokio::time::advance(BUSY_TIMEOUT).await;
        assert!(busy_since.is_too_long(waiters));
        waiters.stop();
    }

    /// A request that needs a thread that may wait, as for the hash of a password, was refused as
    /// busy in a hand-over, after 0.2 s: the thread must not keep the layers from their end.
    #[tokio::test]
    async fn a_request_on_a_thread_of_its_own_waits_for_a_hand_over_too() {
        let (held, waiters) = held();
        let head = Head {
            method: "POST",
            target: "/",
            headers: &[],
        };
        let long = Long::Everything(Kept::new(&head, Some(b"body")));
        let peer = Peer::for_test(StrangerBytes::new());
        let (_stop, stopped) = watch::channel(false);
        let answered = take_long(held.clone(), long, &peer, &waiters, Wake::default(), stopped).await;
        let Ok(Err(answer)) = answered else {
            panic!("it is a whole answer");
        };
        assert_eq!((answer.status, &*answer.body), (200, &b"body"[..]));
        assert_eq!(held.tries.load(Ordering::SeqCst), 3);
        waiters.stop();
    }

    #[test]
    fn the_answer_names_the_span_if_it_names_one() {
        let span = Span {
            trace_id: vec![1; 16],
            span_id: vec![2; 8],
            ..Span::default()
        };
        let mut answer = Answer::settled(200, "");
        name_span(&span, &mut answer);
        assert!(answer.headers.is_empty());
        answer.headers.push((spans::TRACEPARENT, "other".into()));
        name_span(&span, &mut answer);
        let expected = format!("00-{}-{}-01", "01".repeat(16), "02".repeat(8));
        assert_eq!(answer.headers[0].1, expected);
    }
}
