//! Clients at a node that is not home: their connections, or their requests over HTTP, are passed
//! on to the home.
//!
//! | listener              | passed on                                                          |
//! |-----------------------|--------------------------------------------------------------------|
//! | Redis, key-value      | the connection, byte by byte: sessions have state                  |
//! | HTTP, DynamoDB, Fauna | whole requests of HTTP/1.1, one after the other; HTTP/2 with prior |
//! |                       | knowledge as the connections above                                 |
//!
//! A planned change of home ends none of them (`carrying`), and neither does the node's becoming
//! home itself. Connections with TLS that the home answers, and those of HTTP/2, end with their
//! home: TLS and HTTP/2 have state that stays there.
//!
//! There is one hop: only a home accepts forwarded connections, and any other node refuses them
//! before it reads a byte. So a client can distinguish two failures. *Not executed*: no home was
//! found within [`PATIENCE`], or its connection failed before it had the whole request. *Unknown*:
//! its connection failed between the request's last byte and the answer's head. After that head,
//! and for connections that are forwarded by bytes, the connection ends as in direct contact with
//! the home; HTTP/2 by a reset, so that a client does not wait for streams that have no end. For an
//! unreachable home this node waits until another node has been home for a moment.
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
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::carrying::{CALL_AGAIN, Carriers, Ended, HomeCaller, PATIENCE};
use super::forward_http2;
use super::protocol::NodeRequest;
use super::replica_reads::Connection;
use crate::connections::accept::{Admitting, Entrance};
use crate::connections::handoff::{Arrival, IoThread};
use crate::connections::stream::{Stream, end_by_reset, exchange, is_silent};
use crate::connections::tls::{Speaks, Tls, TlsEntrance, Transport};
use crate::connections::waker::ThreadWaker;
use crate::http::framing::{self, BodyReader, HTTP2_PREFACE, HeaderRoom};
use crate::http::{FIRST_BYTES_WITHIN, Head};
use crate::layers::parts::Leaving;
use crate::limits::connection_limit::{ConnectionLimit, Permit, Place};
use crate::redis::NO_PLACE;

/// Time limit for a request's head, and for each part of its body.
const INPUT_TIMEOUT: Duration = Duration::from_secs(30);
/// Idle limit of a client after a request that the home has executed: the same limit as the home's.
const IDLE_TIMEOUT: Duration = Duration::from_secs(350);
/// Time for which a connection to the home waits for the client's next request. The home ends no
/// younger connection.
const KEPT: Duration = Duration::from_secs(20);
/// Time for which a node that ends waits for the replies to what it has passed on by bytes.
const LAST_REPLIES: Duration = Duration::from_millis(200);
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
    /// The threads of the connections, which outlive the listener.
    pub carriers: Arc<Carriers>,
}

/// The node's own answer to a request with this head: status, content type, body.
pub type Pages = dyn Fn(&Head<'_>) -> Option<(u16, &'static str, String)> + Send + Sync;

struct Forwarded {
    socket: std::net::TcpStream,
    tls: Option<TlsEntrance>,
    client: Client,
    carriers: Arc<Carriers>,
    _permit: Permit,
}

/// A connection to the home, and to each next one.
struct HomeStream {
    stream: DuplexStream,
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
    /// The home's connection for a client of HTTP. `None`: no home took it in time.
    async fn open(self: &Arc<HomeCaller>, client: &Client) -> Option<HomeStream> {
        let (listener, peer, protocol) = (client.listener, client.peer, client.protocol);
        let reached = self.reach(listener, peer, &[]).await?;
        let (near, far) = tokio::io::duplex(4 * BUFFER_BYTES);
        let caller = self.clone();
        tokio::spawn(async move {
            let (far, mut answers) = (far, Vec::new());
            let (mut from_client, mut to_client) = tokio::io::split(far);
            let carried = caller
                .carry(
                    tokio::io::join(&mut from_client, &mut to_client),
                    listener,
                    peer,
                    reached,
                    Vec::new(),
                )
                .await;
            if let Ok(Ended::NoHome) = carried {
                let (status, kind, body) = Ending::NotExecuted.answer(protocol);
                answers = written_answer(status, kind, body, false);
            }
            // The client may have closed the connection.
            let _ = to_client.write_all(&answers).await;
            let _ = to_client.shutdown().await;
        });
        let used = Instant::now();
        Some(HomeStream { stream: near, used })
    }

    /// A connection to the listener at the home, which may be this node. It ends with that home.
    async fn call_home(&self, listener: &'static str, peer: SocketAddr) -> Option<(NodeId, Box<dyn Stream>)> {
        let until = Instant::now() + PATIENCE;
        let request = NodeRequest::Forward {
            listener: listener.to_owned(),
            peer,
            partition: PartitionId(0),
        };
        loop {
            if let Some(enter) = self.enter.get()
                && let Ok(Some(entered)) = enter(listener, peer, Vec::new()).await
            {
                return Some((self.members.me(), entered.into_stream()));
            }
            if let Some((home, member)) = self.members.other_home_and_id(PartitionId(0))
                && let Ok(stream) = self.call(home, &member.address, &request).await
            {
                return Some((home, stream));
            }
            if Instant::now() >= until || *self.over.borrow() {
                return None;
            }
            tokio::time::sleep(CALL_AGAIN).await;
        }
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
        let request = NodeRequest::Forward {
            listener: listener.to_owned(),
            peer,
            partition,
        };
        let stream = self.link.call(&member.address, &request).await.ok()?;
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
        self.used.elapsed() < KEPT && is_silent(&mut self.stream).await
    }
}

impl Entrance for ForwardEntrance {
    fn admit<'e>(&'e self, socket: TcpStream, peer: SocketAddr, _thread_waker: &'e Arc<ThreadWaker>) -> Admitting<'e> {
        Box::pin(async move {
            let Some(permit) = self.limit.admit(Place::Any).await else {
                // The client gets the answer if its socket takes it at once.
                let _ = match self.protocol {
                    Protocol::Redis => socket.try_write(NO_PLACE),
                    Protocol::KeyValue => Ok(0),
                    _ if self.tls.is_on() => Ok(0),
                    _ => socket.try_write(crate::http::NO_PLACE),
                };
                return Ok(None);
            };
            socket.set_nodelay(true)?;
            let forwarded = Forwarded {
                socket: socket.into_std()?,
                tls: self.tls.entrance(Speaks::Other, peer.ip()),
                client: Client {
                    peer,
                    listener: self.listener,
                    protocol: self.protocol,
                    home: self.home.clone(),
                    pages: self.pages.clone(),
                },
                carriers: self.carriers.clone(),
                _permit: permit,
            };
            Ok(Some(Box::new(forwarded) as Box<dyn Arrival>))
        })
    }
}

impl Arrival for Forwarded {
    fn start(self: Box<Self>, _thread: &IoThread, _tasks: &mut JoinSet<()>) {
        let carriers = self.carriers.clone();
        carriers.spawn(serve(*self));
    }
}

async fn serve(forwarded: Forwarded) {
    let Forwarded {
        socket,
        tls,
        client,
        _permit,
        ..
    } = forwarded;
    client
        .until_over(async {
            let socket = TcpStream::from_std(socket)?;
            if client.protocol.is_http() {
                let first_bytes_by = Instant::now() + FIRST_BYTES_WITHIN;
                return match Transport::open(socket, tls).await? {
                    Transport::Clear(socket) => client.converse(socket, Vec::new(), first_bytes_by).await,
                    Transport::Encrypted(stream) => client.converse(stream, Vec::new(), first_bytes_by).await,
                };
            }
            match tls {
                // The home answers the handshakes of connections that are passed on.
                Some(tls) if client.listener == TLS_ONLY || tls.is_asked_for(&socket).await? => {
                    client.pass_on(socket, &[]).await
                }
                _ => client.carry(socket).await,
            }
        })
        .await;
}

/// Continues a connection that the layers of this node have left.
pub async fn continue_elsewhere(home: Arc<HomeCaller>, leaving: Leaving, pages: Arc<Pages>) {
    let Leaving {
        listener,
        peer,
        socket,
        state,
        input,
        is_new,
        ..
    } = leaving;
    let first_bytes_by = Instant::now() + if is_new { FIRST_BYTES_WITHIN } else { Duration::ZERO };
    let protocol = Protocol::of(listener);
    let client = Client {
        peer,
        listener,
        protocol,
        home,
        pages: (protocol == Protocol::Http).then_some(pages),
    };
    client
        .until_over(async {
            let socket = TcpStream::from_std(socket)?;
            match protocol.is_http() {
                true => client.converse(socket, input, first_bytes_by).await,
                false => client.carry_session(socket, &state, input).await,
            }
        })
        .await;
}

/// A listener without clear text.
const TLS_ONLY: &str = "redis-tls";

impl Protocol {
    fn of(listener: &str) -> Protocol {
        match listener {
            "keyvalue" => Protocol::KeyValue,
            "http" => Protocol::Http,
            "dynamodb" => Protocol::DynamoDb,
            "fauna" => Protocol::Fauna,
            _ => Protocol::Redis,
        }
    }

    fn is_http(self) -> bool {
        !matches!(self, Protocol::Redis | Protocol::KeyValue)
    }
}

impl Client {
    /// Serves it until the node ends; over HTTP also the request that is being answered.
    async fn until_over(&self, serving: impl Future<Output = io::Result<()>>) {
        let mut over = self.home.over.clone();
        let over = async {
            let _ = over.wait_for(|over| *over).await;
            if self.protocol.is_http() {
                // It ends after the answer that it waits for, or with its thread.
                std::future::pending::<()>().await;
            }
            tokio::time::sleep(LAST_REPLIES).await;
        };
        tokio::select! {
            served = serving => if let Err(error) = served {
                tracing::debug!(%error, "a connection that was passed on ended");
            },
            () = over => {}
        }
    }

    /// Forwards bytes both ways, at each next home as well.
    async fn carry(&self, socket: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
        self.carry_session(socket, &[], Vec::new()).await
    }

    async fn carry_session(
        &self,
        mut socket: impl AsyncRead + AsyncWrite + Unpin,
        state: &[u8],
        input: Vec<u8>,
    ) -> io::Result<()> {
        if let Some(reached) = self.home.reach(self.listener, self.peer, state).await {
            let carried = self
                .home
                .carry(&mut socket, self.listener, self.peer, reached, input)
                .await?;
            if !matches!(carried, Ended::NoHome) {
                return Ok(());
            }
        }
        self.say_no_home(&mut socket).await
    }

    async fn say_no_home(&self, socket: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        if self.protocol == Protocol::Redis {
            socket.write_all(self.home.no_home_redis().as_bytes()).await?;
        }
        socket.shutdown().await
    }

    /// Forwards bytes both ways until the home's side ends. `seen` was received before.
    async fn pass_on(&self, mut socket: impl AsyncRead + AsyncWrite + Unpin + 'static, seen: &[u8]) -> io::Result<()> {
        if self.protocol.is_http() {
            return self.pass_http2_on(socket, seen).await;
        }
        let Some((home, mut stream)) = self.home.call_home(self.listener, self.peer).await else {
            return self.say_no_home(&mut socket).await;
        };
        stream.write_all(seen).await?;
        tokio::select! {
            exchanged = exchange(socket, stream) => exchanged,
            () = self.home.farewell(PartitionId(0), home) => Ok(()),
        }
    }

    /// The same for HTTP/2, frame by frame.
    async fn pass_http2_on(
        &self,
        socket: impl AsyncRead + AsyncWrite + Unpin + 'static,
        seen: &[u8],
    ) -> io::Result<()> {
        end_by_reset(&socket);
        let mut is_over = self.home.over.clone();
        let over = async move { drop(is_over.wait_for(|over| *over).await) };
        let ends = *self.home.over.borrow();
        let reached = match ends {
            true => None,
            false => self.home.call_home(self.listener, self.peer).await,
        };
        let Some((home, stream)) = reached else {
            return forward_http2::refuse(socket).await;
        };
        let lost = self.home.farewell(PartitionId(0), home);
        forward_http2::pass_on(socket, seen, stream, lost, over).await
    }

    /// Answers requests of HTTP one after the other.
    async fn converse(
        &self,
        mut socket: impl AsyncRead + AsyncWrite + Unpin + 'static,
        mut input: Vec<u8>,
        mut first_bytes_by: Instant,
    ) -> io::Result<()> {
        let (mut kept, mut idle_timeout) = (None, INPUT_TIMEOUT);
        let mut over = self.home.over.clone();
        loop {
            let Some(next) = self
                .read_head(&mut socket, &mut input, idle_timeout, &mut over, first_bytes_by)
                .await?
            else {
                return Ok(());
            };
            first_bytes_by = Instant::now();
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
                    if let Some(reads) = self.home.reads.get()
                        && let Some(connection) = reads.answer(self.listener, &mut socket, &mut input).await?
                    {
                        match connection {
                            Connection::Kept => idle_timeout = IDLE_TIMEOUT,
                            Connection::Closed => return Ok(()),
                        }
                        continue;
                    }
                    let Some((home, status)) = self.forward(&mut socket, request, &mut input, kept.take()).await?
                    else {
                        return Ok(());
                    };
                    kept = home;
                    if matches!(status, 200..300) {
                        idle_timeout = IDLE_TIMEOUT;
                    }
                }
            }
        }
    }

    /// Reads until the next request's head is complete; `None` if the client has no further
    /// request, is idle for too long, or must retry later: this node ends, and it is not before
    /// `first_bytes_by`.
    async fn read_head(
        &self,
        socket: &mut (impl AsyncRead + Unpin),
        input: &mut Vec<u8>,
        idle_timeout: Duration,
        stop: &mut watch::Receiver<bool>,
        first_bytes_by: Instant,
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
            let stopped = async {
                let _ = stop.wait_for(|stops| *stops).await;
                tokio::time::sleep_until(first_bytes_by.into()).await;
            };
            let read = tokio::select! {
                read = tokio::time::timeout_at(deadline.into(), socket.read_buf(input)) => read,
                () = stopped => return Ok(None),
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

    /// Passes one request on, and its answer back. Returns the connection to the home, if it takes
    /// more requests, and the answer's status; `None` if the client's connection ends.
    async fn forward(
        &self,
        socket: &mut (impl AsyncRead + AsyncWrite + Unpin),
        request: Request,
        input: &mut Vec<u8>,
        kept: Option<HomeStream>,
    ) -> io::Result<Option<(Option<HomeStream>, u16)>> {
        let (mut from_client, mut to_client) = tokio::io::split(socket);
        let mut home = kept;
        let is_usable = match &mut home {
            Some(home) => home.is_usable().await,
            None => false,
        };
        if !is_usable {
            home = self.home.open(self).await;
        }
        let Some(mut home) = home else {
            self.say(&mut to_client, Ending::NotExecuted).await?;
            return Ok(None);
        };
        let (is_sent, is_answered) = (AtomicBool::new(false), AtomicBool::new(false));
        let mut has_ended = false;
        let relayed = {
            let (mut from_home, mut to_home) = tokio::io::split(&mut home.stream);
            let relaying = relay(&mut from_home, &mut to_client, request.is_for_head, &is_answered);
            let asking = ask(&mut from_client, &mut to_home, request, input, &is_sent);
            let (mut asking, mut relaying) = (pin!(asking), pin!(relaying));
            tokio::select! {
                relayed = &mut relaying => relayed.ok(),
                asked = &mut asking => match asked {
                    Err(Side::Client) => return Ok(None),
                    // The home may have answered before it had everything.
                    ended => {
                        has_ended = ended.is_ok();
                        relaying.await.ok()
                    }
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
                return Ok(Some(((!has_ended).then_some(home), status)));
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

/// Sends the request, then reads the client's next bytes. At the client's end it closes its side of
/// the connection to the home, and the home ends an answer that streams.
async fn ask<C: AsyncRead, H: AsyncWrite>(
    client: &mut ReadHalf<C>,
    home: &mut WriteHalf<H>,
    request: Request,
    input: &mut Vec<u8>,
    is_sent: &AtomicBool,
) -> Result<(), Side> {
    send(client, home, request, input, is_sent).await?;
    while input.len() < BUFFER_BYTES {
        input.reserve(BUFFER_BYTES);
        if !matches!(client.read_buf(input).await, Ok(1..)) {
            return home.shutdown().await.map_err(|_| Side::Home);
        }
    }
    std::future::pending().await
}

/// Sends the request at the start of `input` to the home; sets `is_sent` after its last byte. Bytes
/// after the request remain in `input`.
async fn send<C: AsyncRead, H: AsyncWrite>(
    client: &mut ReadHalf<C>,
    home: &mut WriteHalf<H>,
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

fn written_answer(status: u16, kind: &str, body: &str, keeps_alive: bool) -> Vec<u8> {
    let retry = if status == 503 { "retry-after: 1\r\n" } else { "" };
    let connection = if keeps_alive { "" } else { "connection: close\r\n" };
    let text = format!(
        "HTTP/1.1 {status} \r\ncontent-type: {kind}\r\ncontent-length: {}\r\n{retry}{connection}\r\n{body}",
        body.len()
    );
    text.into_bytes()
}

pub async fn answer(
    socket: &mut (impl AsyncWrite + Unpin),
    status: u16,
    kind: &str,
    body: &str,
    keeps_alive: bool,
) -> io::Result<()> {
    socket
        .write_all(&written_answer(status, kind, body, keeps_alive))
        .await?;
    socket.flush().await?;
    if keeps_alive { Ok(()) } else { socket.shutdown().await }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use quartet_log_replicated::{ClusterId, Place};

    use super::*;
    use crate::cluster::carrying::{Carried, Entering};
    use crate::cluster::link::Link;
    use crate::cluster::members::Members;
    use crate::http::http2::frames::SETTINGS;

    /// A client of HTTP/2 connected, and before its first bytes the node became home: the
    /// node looked for another node that was home, for three seconds, and reset the connection.
    /// The same for a connection of Redis with TLS.
    #[tokio::test]
    async fn a_connection_that_is_passed_on_enters_its_own_node_once_that_is_home() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let carried = Arc::<Carried>::default();
        // HTTP/2 is passed on frame by frame.
        for (protocol, listens, request, reply) in [
            (Protocol::Fauna, "fauna", HTTP2_PREFACE, &SETTINGS[..]),
            (Protocol::Redis, TLS_ONLY, &b"hello"[..], &b"world"[..]),
        ] {
            let mut client = TcpStream::connect(address).await.unwrap();
            let passed = listener.accept().await.unwrap().0;
            let to_layers = TcpStream::connect(address).await.unwrap();
            let mut layers = listener.accept().await.unwrap().0;
            let place = Place::new("/test", ClusterId(1), PartitionId(0));
            let over = watch::Sender::new(false);
            let home = HomeCaller {
                link: Link::new(place.cluster, None).unwrap(),
                members: Members::new(place, NodeId(2), 3),
                enter: OnceLock::new(),
                reads: OnceLock::new(),
                over: over.subscribe(),
            };
            let entered = std::sync::Mutex::new(Some(carried.enter(to_layers).unwrap()));
            let enter = move |name: &'static str, _, state: Vec<u8>| {
                assert_eq!((name, state), (listens, Vec::new()));
                let entered = entered.lock().unwrap().take();
                Box::pin(std::future::ready(Ok(entered))) as Entering
            };
            assert!(home.enter.set(Box::new(enter)).is_ok());
            let passing = Client {
                peer: client.local_addr().unwrap(),
                listener: listens,
                protocol,
                home: Arc::new(home),
                pages: None,
            };
            let passing = async move { passing.pass_on(passed, request).await };
            let talking = async {
                let mut read = vec![0; request.len()];
                layers.read_exact(&mut read).await.unwrap();
                assert_eq!(read, request);
                layers.write_all(reply).await.unwrap();
                let mut read = vec![0; reply.len()];
                client.read_exact(&mut read).await.unwrap();
                assert_eq!(read, reply);
                drop(layers);
            };
            let (passed, ()) = tokio::join!(passing, talking);
            passed.unwrap();
        }
    }
}
