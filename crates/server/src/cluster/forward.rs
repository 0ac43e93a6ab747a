//! Clients at a node that is not home: their connections, or their requests over HTTP, are passed
//! on to the home.
//!
//! | listener              | passed on                                                          |
//! |-----------------------|--------------------------------------------------------------------|
//! | Redis, key-value      | the connection, byte by byte: sessions have state                  |
//! | HTTP, DynamoDB, Fauna | whole requests of HTTP/1.1, one after the other; HTTP/2 with prior |
//! |                       | knowledge as the connections above                                 |
//!
//! There is one hop: only a home accepts forwarded connections, and any other node refuses them
//! before it reads a byte. So a client can distinguish two failures. *Not executed*: no home was
//! found within [`PATIENCE`], or its connection failed before it had the whole request. *Unknown*:
//! its connection failed between the request's last byte and the answer's head. After that head,
//! and for connections that are forwarded by bytes, the connection ends as in direct contact with
//! the home. A reachable home ends it on its deposition; for an unreachable home this node waits
//! until [`FAREWELL`] after another node has become home.
//!
//! When this node becomes home itself, a request over HTTP that was passed on still gets its
//! answer: in a hand-over the old home has executed it.
//!
//! The home counts and authenticates the connection as the client's own, by the client's address;
//! its certificate, its credentials and its limits apply.

use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use quartet_log_replicated::{NodeId, PartitionId};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::link::Link;
use super::members::Members;
use crate::connections::accept::{Admitting, Entrance};
use crate::connections::handoff::{Arrival, IoThread};
use crate::connections::stream::{Stream, exchange, is_silent};
use crate::connections::tls::{Speaks, Tls, TlsEntrance, Transport};
use crate::connections::waker::ThreadWaker;
use crate::http::Head;
use crate::http::framing::{self, BodyReader, HTTP2_PREFACE, HeaderRoom};
use crate::limits::connection_limit::{ConnectionLimit, Permit, Place};
use crate::redis::NO_PLACE;

/// Time for which a client waits for a home.
pub const PATIENCE: Duration = Duration::from_secs(3);
/// Time limit for a request's head, and for each part of its body.
const INPUT_TIMEOUT: Duration = Duration::from_secs(30);
/// Idle limit of a client after a request that the home has executed: the same limit as the home's.
const IDLE_TIMEOUT: Duration = Duration::from_secs(350);
/// Time for which a connection to the home waits for the client's next request. The home ends no
/// younger connection.
const KEPT: Duration = Duration::from_secs(20);
/// Time during which a former home's answers are accepted after a change of home: answers of
/// executed requests may still be on their way.
const FAREWELL: Duration = Duration::from_secs(2);
const BUFFER_BYTES: usize = 16 << 10;

/// A protocol's way to the home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Redis,
    KeyValue,
    /// REST, the console and the admin API.
    Http,
    DynamoDb,
    Fauna,
}

/// Finds the home and calls it.
pub struct HomeCaller {
    pub link: Link,
    pub members: Arc<Members>,
}

/// The way in through a listener of a node that is not home.
pub struct ForwardEntrance {
    /// The listener's name, which the home has too.
    pub listener: &'static str,
    pub protocol: Protocol,
    pub home: Arc<HomeCaller>,
    pub limit: Arc<ConnectionLimit>,
    pub tls: Arc<Tls>,
    /// Answers the node's own pages; `None`: the request is for the home.
    pub pages: Option<Arc<Pages>>,
    /// Becomes true when nothing is waited for any more.
    pub hurry: watch::Receiver<bool>,
}

/// The node's own answer to a request with this head: status, content type, body.
pub type Pages = dyn Fn(&Head<'_>) -> Option<(u16, &'static str, String)> + Send + Sync;

struct Forwarded {
    socket: std::net::TcpStream,
    tls: Option<TlsEntrance>,
    client: Client,
    hurry: watch::Receiver<bool>,
    _permit: Permit,
}

/// A connection to the home.
struct HomeStream {
    home: NodeId,
    stream: Box<dyn Stream>,
    /// The time of its last use.
    used: Instant,
}

/// A connection to a home that ends as soon as that home can send no more answers.
struct UntilFarewell {
    stream: Box<dyn Stream>,
    farewell: Pin<Box<dyn Future<Output = ()> + Send>>,
    is_over: bool,
}

impl AsyncRead for UntilFarewell {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if !self.is_over {
            let read = Pin::new(&mut self.stream).poll_read(context, into);
            if read.is_ready() || self.farewell.as_mut().poll(context).is_pending() {
                return read;
            }
            self.is_over = true;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for UntilFarewell {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// The words about a client that go with its bytes.
struct Client {
    peer: SocketAddr,
    listener: &'static str,
    protocol: Protocol,
    home: Arc<HomeCaller>,
    pages: Option<Arc<Pages>>,
}

impl HomeCaller {
    /// A connection to the listener of this name at the home, for the client at `peer`. `None`: no
    /// home took it in time.
    async fn call(&self, listener: &str, peer: SocketAddr) -> Option<HomeStream> {
        let (verb, until) = (format!("forward {listener} {peer}"), Instant::now() + PATIENCE);
        loop {
            if let Some((home, member)) = self.members.other_home_and_id(PartitionId(0))
                && let Ok(stream) = self.link.call(&member.address, &verb).await
            {
                let used = Instant::now();
                return Some(HomeStream { home, stream, used });
            }
            if Instant::now() >= until {
                return None;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl HomeCaller {
    /// Completes when `home` can send no more answers.
    async fn farewell(&self, partition: PartitionId, home: NodeId) {
        let mut homes = self.members.homes();
        let is_another = |known: &Vec<Option<NodeId>>| {
            let known = known.get(partition.0 as usize);
            known.is_some_and(|known| known.is_some_and(|known| known != home))
        };
        if homes.wait_for(is_another).await.is_err() {
            std::future::pending::<()>().await;
        }
        tokio::time::sleep(FAREWELL).await;
    }

    /// Connects to the named listener of another node that is home of a partition, on behalf of the
    /// client at `peer`; `None` if there is no such home, or if it refuses. The connection ends as
    /// soon as that home can send no more answers.
    pub async fn call_partition(
        self: &Arc<HomeCaller>,
        partition: PartitionId,
        listener: &str,
        peer: SocketAddr,
    ) -> Option<Box<dyn Stream>> {
        let (home, member) = self.members.other_home_and_id(partition)?;
        let verb = format!("forward {listener} {peer} {}", partition.0);
        let stream = self.link.call(&member.address, &verb).await.ok()?;
        let caller = self.clone();
        let farewell = Box::pin(async move { caller.farewell(partition, home).await });
        Some(Box::new(UntilFarewell {
            stream,
            farewell,
            is_over: false,
        }))
    }

    /// The error for a client of Redis if no home has accepted its connection. It names the home
    /// that is known, so that the client may go there.
    fn no_home_redis(&self) -> String {
        let home = self.members.other_home(PartitionId(0));
        let named = home.and_then(|home| Some(format!(" The home is {} at {}.", home.name, home.redis?)));
        format!("{NO_HOME_REDIS}{}\r\n", named.unwrap_or_default())
    }
}

impl HomeStream {
    /// False if the home has closed it, or may soon.
    async fn is_usable(&mut self) -> bool {
        self.used.elapsed() < KEPT && is_silent(self.stream.as_mut()).await
    }
}

impl Entrance for ForwardEntrance {
    fn admit<'e>(&'e self, socket: TcpStream, peer: SocketAddr, _thread_waker: &'e Arc<ThreadWaker>) -> Admitting<'e> {
        Box::pin(async move {
            let Some(permit) = self.limit.admit(Place::Any).await else {
                if self.protocol == Protocol::Redis {
                    let _ = socket.try_write(NO_PLACE);
                }
                return Ok(None);
            };
            socket.set_nodelay(true)?;
            let is_http = self.protocol.is_http();
            let forwarded = Forwarded {
                socket: socket.into_std()?,
                // The home answers the handshakes of connections that are passed on.
                tls: is_http.then(|| self.tls.entrance(Speaks::Other, peer.ip())).flatten(),
                client: Client {
                    peer,
                    listener: self.listener,
                    protocol: self.protocol,
                    home: self.home.clone(),
                    pages: self.pages.clone(),
                },
                hurry: self.hurry.clone(),
                _permit: permit,
            };
            Ok(Some(Box::new(forwarded) as Box<dyn Arrival>))
        })
    }
}

impl Arrival for Forwarded {
    fn start(self: Box<Self>, thread: &IoThread, tasks: &mut JoinSet<()>) {
        tasks.spawn(serve(*self, thread.stop.clone()));
    }
}

async fn serve(forwarded: Forwarded, mut stop: watch::Receiver<bool>) {
    let Forwarded {
        socket,
        tls,
        client,
        mut hurry,
        _permit,
    } = forwarded;
    let (mut stopped, is_http) = (stop.clone(), client.protocol.is_http());
    let serving = async {
        let socket = TcpStream::from_std(socket)?;
        if !is_http {
            return client.pass_on(socket, &[]).await;
        }
        match Transport::open(socket, tls).await? {
            Transport::Clear(socket) => client.converse(socket, &mut stop).await,
            Transport::Encrypted(stream) => client.converse(stream, &mut stop).await,
        }
    };
    let over = async {
        let _ = stopped.wait_for(|stops| *stops).await;
        if is_http {
            // The request that is being answered.
            let _ = tokio::time::timeout(FAREWELL, hurry.wait_for(|hurries| *hurries)).await;
        }
    };
    tokio::select! {
        served = serving => if let Err(error) = served {
            tracing::debug!(%error, "a connection that was passed on ended");
        },
        () = over => {}
    }
}

impl Protocol {
    fn is_http(self) -> bool {
        !matches!(self, Protocol::Redis | Protocol::KeyValue)
    }
}

impl Client {
    /// Forwards bytes both ways until the home's side ends. `seen` was received before.
    async fn pass_on(&self, mut socket: impl AsyncRead + AsyncWrite + Unpin, seen: &[u8]) -> io::Result<()> {
        let Some(mut home) = self.home.call(self.listener, self.peer).await else {
            if self.protocol == Protocol::Redis {
                socket.write_all(self.home.no_home_redis().as_bytes()).await?;
            }
            return socket.shutdown().await;
        };
        home.stream.write_all(seen).await?;
        tokio::select! {
            exchanged = exchange(socket, home.stream) => exchanged,
            () = self.home.farewell(PartitionId(0), home.home) => Ok(()),
        }
    }

    /// Answers requests of HTTP one after the other.
    async fn converse(
        &self,
        mut socket: impl AsyncRead + AsyncWrite + Unpin,
        stop: &mut watch::Receiver<bool>,
    ) -> io::Result<()> {
        let (mut input, mut kept, mut idle_timeout) = (Vec::new(), None, INPUT_TIMEOUT);
        loop {
            let Some(next) = self.read_head(&mut socket, &mut input, idle_timeout, stop).await? else {
                return Ok(());
            };
            match next {
                Next::Refuse(status) => return answer(&mut socket, status, TEXT, "", false).await,
                Next::PassOn => return self.pass_on(socket, &input).await,
                Next::Own {
                    status,
                    kind,
                    body,
                    head_bytes,
                    keeps_alive,
                } => {
                    answer(&mut socket, status, kind, &body, keeps_alive).await?;
                    input.drain(..head_bytes);
                    if !keeps_alive {
                        return Ok(());
                    }
                }
                Next::Request(request) => {
                    let Some((home, status)) = self.forward(&mut socket, request, &mut input, kept.take()).await?
                    else {
                        return Ok(());
                    };
                    kept = Some(home);
                    if matches!(status, 200..300) {
                        idle_timeout = IDLE_TIMEOUT;
                    }
                }
            }
        }
    }

    /// Reads until the next request's head is complete; `None` if the client has no further
    /// request, is idle for too long, or must retry later.
    async fn read_head(
        &self,
        socket: &mut (impl AsyncRead + Unpin),
        input: &mut Vec<u8>,
        idle_timeout: Duration,
        stop: &mut watch::Receiver<bool>,
    ) -> io::Result<Option<Next>> {
        let mut until = None;
        loop {
            if let Some(next) = self.look_at(input) {
                return Ok(Some(next));
            }
            if !input.is_empty() {
                until.get_or_insert_with(|| Instant::now() + INPUT_TIMEOUT);
            }
            let deadline = until.unwrap_or_else(|| Instant::now() + idle_timeout);
            input.reserve(BUFFER_BYTES);
            let read = tokio::select! {
                read = tokio::time::timeout_at(deadline.into(), socket.read_buf(input)) => read,
                _ = stop.wait_for(|stops| *stops) => return Ok(None),
            };
            if read.unwrap_or(Ok(0))? == 0 {
                return Ok(None);
            }
        }
    }

    fn look_at(&self, input: &[u8]) -> Option<Next> {
        if !input.is_empty() && input.len().min(HTTP2_PREFACE.len()) > 3 && HTTP2_PREFACE.starts_with(&input[..4]) {
            return Some(Next::PassOn);
        }
        let mut room = [const { std::mem::MaybeUninit::uninit() }; framing::HEADERS_MAX];
        let room: &mut HeaderRoom<'_> = &mut room;
        let request = match framing::parse(input, room) {
            Ok(request) => request?,
            Err(refusal) => return Some(Next::Refuse(refusal.status())),
        };
        let own = self.pages.as_ref().and_then(|pages| pages(&request.head));
        if let Some((status, kind, body)) = own
            && request.framing == framing::Framing::Length(0)
        {
            let (head_bytes, keeps_alive) = (request.head_bytes, request.keeps_alive);
            return Some(Next::Own {
                status,
                kind,
                body,
                head_bytes,
                keeps_alive,
            });
        }
        // One of HTTP/1.0 knows neither chunks nor, as far as it says here, a second request.
        let version = if request.is_old { 0 } else { 1 };
        let mut head = format!("{} {} HTTP/1.{version}\r\n", request.head.method, request.head.target).into_bytes();
        for header in request.head.headers {
            let is_about_connection = ["connection", "keep-alive"]
                .iter()
                .any(|name| header.name.eq_ignore_ascii_case(name));
            if !is_about_connection {
                head.extend_from_slice(header.name.as_bytes());
                head.extend_from_slice(b": ");
                head.extend_from_slice(header.value);
                head.extend_from_slice(b"\r\n");
            }
        }
        if !request.keeps_alive && !request.is_old {
            head.extend_from_slice(b"connection: close\r\n");
        }
        head.extend_from_slice(b"\r\n");
        Some(Next::Request(Request {
            head,
            head_bytes: request.head_bytes,
            framing: request.framing,
            is_for_head: request.head.method == "HEAD",
        }))
    }

    /// Passes one request on, and its answer back. Returns the connection to the home and the
    /// answer's status; `None` if the client's connection ends.
    async fn forward(
        &self,
        socket: &mut (impl AsyncRead + AsyncWrite + Unpin),
        request: Request,
        input: &mut Vec<u8>,
        kept: Option<HomeStream>,
    ) -> io::Result<Option<(HomeStream, u16)>> {
        let (mut from_client, mut to_client) = tokio::io::split(socket);
        let mut home = kept;
        let is_usable = match &mut home {
            Some(home) => home.is_usable().await,
            None => false,
        };
        if !is_usable {
            home = self.home.call(self.listener, self.peer).await;
        }
        let Some(mut home) = home else {
            self.say(&mut to_client, Ending::NotExecuted).await?;
            return Ok(None);
        };
        let (is_sent, is_answered) = (AtomicBool::new(false), AtomicBool::new(false));
        let relayed = {
            let (mut from_home, to_home) = tokio::io::split(&mut home.stream);
            let relaying = relay(&mut from_home, &mut to_client, request.is_for_head, &is_answered);
            let sending = send(&mut from_client, to_home, request, input, &is_sent);
            let farewell = self.home.farewell(PartitionId(0), home.home);
            let (mut sending, mut relaying, mut farewell) = (pin!(sending), pin!(relaying), pin!(farewell));
            tokio::select! {
                relayed = &mut relaying => relayed.ok(),
                () = &mut farewell => None,
                sent = &mut sending => match sent {
                    // The home may have answered before it had everything.
                    Ok(()) | Err(Side::Home) => tokio::select! {
                        relayed = &mut relaying => relayed.ok(),
                        () = &mut farewell => None,
                    },
                    Err(Side::Client) => return Ok(None),
                },
            }
        };
        let is_sent = is_sent.load(Ordering::Relaxed);
        match relayed {
            Some(Relayed::Whole {
                status,
                keeps_alive: true,
            }) if is_sent => {
                home.used = Instant::now();
                return Ok(Some((home, status)));
            }
            _ if is_answered.load(Ordering::Relaxed) => to_client.shutdown().await?,
            _ if is_sent => self.say(&mut to_client, Ending::Unknown).await?,
            _ => self.say(&mut to_client, Ending::NotExecuted).await?,
        }
        Ok(None)
    }

    /// The answer of this client's protocol to an ending without the home's.
    async fn say(&self, socket: &mut (impl AsyncWrite + Unpin), ending: Ending) -> io::Result<()> {
        let (status, kind, body) = ending.answer(self.protocol);
        answer(socket, status, kind, body, false).await
    }
}

/// A request to forward: its head as sent to the home.
struct Request {
    head: Vec<u8>,
    /// Length of the original head.
    head_bytes: usize,
    framing: framing::Framing,
    is_for_head: bool,
}

enum Next {
    Request(Request),
    /// The client speaks HTTP/2.
    PassOn,
    Own {
        status: u16,
        kind: &'static str,
        body: String,
        head_bytes: usize,
        keeps_alive: bool,
    },
    Refuse(u16),
}

/// How a request ended that has no answer from the home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    NotExecuted,
    Unknown,
}

enum Side {
    Client,
    Home,
}

/// The forwarded part of an answer.
enum Relayed {
    Whole {
        status: u16,
        keeps_alive: bool,
    },
    /// The available part.
    Part,
}

/// Sends the request at the start of `input` to the home; sets `is_sent` after its last byte. Bytes
/// after the request remain in `input`.
async fn send<C: AsyncRead, H: AsyncWrite>(
    client: &mut ReadHalf<C>,
    mut home: WriteHalf<H>,
    mut request: Request,
    input: &mut Vec<u8>,
    is_sent: &AtomicBool,
) -> Result<(), Side> {
    let mut body = BodyReader::new(request.framing, 0);
    input.drain(..request.head_bytes);
    loop {
        let taken = body.take(input).map_err(|_| Side::Client)?;
        if body.is_done() {
            // From here on the home may execute it.
            is_sent.store(true, Ordering::Relaxed);
        }
        // The head leaves with what there is of the body.
        request.head.extend_from_slice(&input[..taken]);
        home.write_all(&request.head).await.map_err(|_| Side::Home)?;
        request.head.clear();
        input.drain(..taken);
        if body.is_done() {
            return home.flush().await.map_err(|_| Side::Home);
        }
        home.flush().await.map_err(|_| Side::Home)?;
        input.reserve(BUFFER_BYTES);
        let read = tokio::time::timeout(INPUT_TIMEOUT, client.read_buf(input)).await;
        if !matches!(read, Ok(Ok(1..))) {
            return Err(Side::Client);
        }
    }
}

/// Gives the client the answer; `is_answered` once it has a byte of it.
async fn relay(
    home: &mut (impl AsyncRead + Unpin),
    client: &mut (impl AsyncWrite + Unpin),
    is_for_head: bool,
    is_answered: &AtomicBool,
) -> io::Result<Relayed> {
    let mut buffer = Vec::with_capacity(BUFFER_BYTES);
    let head = loop {
        match framing::parse_answer(&buffer, is_for_head) {
            Ok(Some(head)) if head.is_interim => {
                client.write_all(&buffer[..head.head_bytes]).await?;
                client.flush().await?;
                buffer.drain(..head.head_bytes);
                continue;
            }
            Ok(Some(head)) => break head,
            Ok(None) => {}
            // The client must interpret it.
            Err(_) => break framing::AnswerHead::unknown(),
        }
        if home.read_buf(&mut buffer).await? == 0 {
            return Ok(Relayed::Part);
        }
    };
    is_answered.store(true, Ordering::Relaxed);
    let mut body = head.framing.map(|framing| BodyReader::new(framing, 0));
    let mut head_bytes = head.head_bytes;
    loop {
        let behind_head = buffer.len() - head_bytes;
        let taken = match &mut body {
            Some(body) => body
                .take(&buffer[head_bytes..])
                .map_err(|_| io::ErrorKind::InvalidData)?,
            None => behind_head,
        };
        client.write_all(&buffer[..head_bytes + taken]).await?;
        client.flush().await?;
        buffer.drain(..head_bytes + taken);
        head_bytes = 0;
        if body.as_ref().is_some_and(BodyReader::is_done) {
            let (status, keeps_alive) = (head.status, head.keeps_alive && buffer.is_empty());
            return Ok(Relayed::Whole { status, keeps_alive });
        }
        buffer.reserve(BUFFER_BYTES);
        if home.read_buf(&mut buffer).await? == 0 {
            return Ok(Relayed::Part);
        }
    }
}

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";
const AWS_JSON: &str = "application/x-amz-json-1.0";

/// As Redis answers while its replica has no master; clients reconnect.
const NO_HOME_REDIS: &str = "-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.";

impl Ending {
    fn answer(self, protocol: Protocol) -> (u16, &'static str, &'static str) {
        match (protocol, self) {
            (Protocol::DynamoDb, Ending::NotExecuted) => (
                503,
                AWS_JSON,
                r#"{"__type":"com.amazonaws.dynamodb.v20120810#ServiceUnavailable","message":"no node is home at the moment"}"#,
            ),
            (Protocol::DynamoDb, Ending::Unknown) => (
                500,
                AWS_JSON,
                r#"{"__type":"com.amazonaws.dynamodb.v20120810#InternalServerError","message":"Internal server error"}"#,
            ),
            (Protocol::Fauna, Ending::NotExecuted) => (
                503,
                JSON,
                r#"{"errors":[{"code":"unavailable","description":"No node is home at the moment."}]}"#,
            ),
            (Protocol::Fauna, Ending::Unknown) => (
                503,
                JSON,
                r#"{"errors":[{"code":"unavailable","description":"The home went before it answered; the transaction may have committed."}]}"#,
            ),
            (_, Ending::NotExecuted) => (503, JSON, r#"{"error":"no node is home at the moment"}"#),
            (_, Ending::Unknown) => (
                504,
                JSON,
                r#"{"error":"the home went before it answered; the request may have been executed"}"#,
            ),
        }
    }
}

pub async fn answer(
    socket: &mut (impl AsyncWrite + Unpin),
    status: u16,
    kind: &str,
    body: &str,
    keeps_alive: bool,
) -> io::Result<()> {
    let retry = if status == 503 { "retry-after: 1\r\n" } else { "" };
    let connection = if keeps_alive { "" } else { "connection: close\r\n" };
    let text = format!(
        "HTTP/1.1 {status} \r\ncontent-type: {kind}\r\ncontent-length: {}\r\n{retry}{connection}\r\n{body}",
        body.len()
    );
    socket.write_all(text.as_bytes()).await?;
    socket.flush().await?;
    if keeps_alive { Ok(()) } else { socket.shutdown().await }
}
