//! Clients at a node that is not home: their connections, or their requests over HTTP, are passed
//! on to the home.
//!
//! | listener              | passed on                                                          |
//! |-----------------------|--------------------------------------------------------------------|
//! | Redis, key-value      | the connection, byte by byte: sessions have state                  |
//! | HTTP, DynamoDB, Fauna | whole requests of HTTP/1.1, one for each connection to the home;   |
//! |                       | HTTP/2 with prior knowledge as the connections above               |
//!
//! There is one hop: only a home takes what is passed on, and a node that is none refuses it before
//! it has read a byte. So a client can distinguish two endings. *Not executed*: no home was found
//! within [`PATIENCE`], or it went before it had the whole request. *Unknown*: it went between the
//! request's last byte and the answer's first. Behind that first byte, and where bytes are passed
//! on, the connection ends as it would if the home were reached directly.
//!
//! The home counts and judges the connection as the client's own, by the client's address; its
//! certificate, its credentials and its limits hold.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::link::{Link, Stream};
use super::members::Members;
use crate::connections::accept::{Admitting, Entrance};
use crate::connections::handoff::{Arrival, IoThread};
use crate::connections::tls::{Speaks, Tls, TlsEntrance, Transport};
use crate::connections::waker::ThreadWaker;
use crate::http::framing::{self, BodyReader, HTTP2_PREFACE, HeaderRoom};
use crate::limits::connection_limit::{ConnectionLimit, Permit, Place};
use crate::redis::NO_PLACE;

/// How long a client waits for a home.
pub const PATIENCE: Duration = Duration::from_secs(3);
/// How long a request's head, and each part of its body, may take to come.
const INPUT_TIMEOUT: Duration = Duration::from_secs(30);
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
}

/// The node's own answer to a request for this path: status, content type, body.
pub type Pages = dyn Fn(&str) -> Option<(u16, &'static str, String)> + Send + Sync;

struct Forwarded {
    socket: std::net::TcpStream,
    tls: Option<TlsEntrance>,
    client: Client,
    _permit: Permit,
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
    async fn call(&self, listener: &str, peer: SocketAddr) -> Option<Box<dyn Stream>> {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(member) = self.members.other_home()
                && let Ok(stream) = self
                    .link
                    .call(&member.address, &format!("forward {listener} {peer}"))
                    .await
            {
                return Some(stream);
            }
            if Instant::now() >= until {
                return None;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl HomeCaller {
    /// The error for a client of Redis whose connection no home has taken. It names the home that
    /// is known, so that the client may go there.
    fn no_home_redis(&self) -> String {
        let home = self.members.other_home();
        let named = home.and_then(|home| Some(format!(" The home is {} at {}.", home.name, home.redis?)));
        format!("{NO_HOME_REDIS}{}\r\n", named.unwrap_or_default())
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
            let is_http = !matches!(self.protocol, Protocol::Redis | Protocol::KeyValue);
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
        _permit,
    } = forwarded;
    let serving = async {
        let socket = TcpStream::from_std(socket)?;
        match client.protocol {
            Protocol::Redis | Protocol::KeyValue => client.pass_on(socket, &[]).await,
            _ => match Transport::open(socket, tls).await? {
                Transport::Clear(socket) => client.converse(socket).await,
                Transport::Encrypted(stream) => client.converse(stream).await,
            },
        }
    };
    tokio::select! {
        served = serving => if let Err(error) = served {
            tracing::debug!(%error, "a connection that was passed on ended");
        },
        _ = stop.wait_for(|stops| *stops) => {}
    }
}

impl Client {
    /// Passes bytes both ways until the home's side ends. `seen` has come already.
    async fn pass_on(&self, mut socket: impl AsyncRead + AsyncWrite + Unpin, seen: &[u8]) -> io::Result<()> {
        let Some(mut home) = self.home.call(self.listener, self.peer).await else {
            if self.protocol == Protocol::Redis {
                socket.write_all(self.home.no_home_redis().as_bytes()).await?;
            }
            return socket.shutdown().await;
        };
        home.write_all(seen).await?;
        exchange(socket, home).await
    }

    /// Answers requests of HTTP one after the other, until one was passed on.
    async fn converse(&self, mut socket: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
        let mut input = Vec::new();
        loop {
            let Some(next) = self.read_head(&mut socket, &mut input).await? else {
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
                } => {
                    answer(&mut socket, status, kind, &body, true).await?;
                    input.drain(..head_bytes);
                }
                Next::Request(request) => return self.forward(socket, request, &input).await,
            }
        }
    }

    /// Reads until the next request's head is there; `None` if the client has no more.
    async fn read_head(&self, socket: &mut (impl AsyncRead + Unpin), input: &mut Vec<u8>) -> io::Result<Option<Next>> {
        loop {
            if let Some(next) = self.look_at(input) {
                return Ok(Some(next));
            }
            input.reserve(BUFFER_BYTES);
            let read = tokio::time::timeout(INPUT_TIMEOUT, socket.read_buf(input)).await;
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
        let own = self.pages.as_ref().and_then(|pages| pages(request.head.path()));
        if let Some((status, kind, body)) = own
            && request.framing == framing::Framing::Length(0)
        {
            let head_bytes = request.head_bytes;
            return Some(Next::Own {
                status,
                kind,
                body,
                head_bytes,
            });
        }
        let mut head = format!("{} {} HTTP/1.1\r\n", request.head.method, request.head.target).into_bytes();
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
        head.extend_from_slice(b"connection: close\r\n\r\n");
        Some(Next::Request(Request {
            head,
            head_bytes: request.head_bytes,
            framing: request.framing,
        }))
    }

    /// Passes one request on and its answer back, and ends the connection.
    async fn forward(
        &self,
        socket: impl AsyncRead + AsyncWrite + Unpin,
        request: Request,
        input: &[u8],
    ) -> io::Result<()> {
        let (from_client, mut to_client) = tokio::io::split(socket);
        let Some(home) = self.home.call(self.listener, self.peer).await else {
            return self.say(&mut to_client, Ending::NotExecuted).await;
        };
        let (mut from_home, to_home) = tokio::io::split(home);
        let (is_sent, is_answered) = (AtomicBool::new(false), AtomicBool::new(false));
        let is_client_gone = {
            let sending = send(from_client, to_home, &request, &input[request.head_bytes..], &is_sent);
            let relaying = relay(&mut from_home, &mut to_client, &is_answered);
            let (mut sending, mut relaying) = (std::pin::pin!(sending), std::pin::pin!(relaying));
            tokio::select! {
                _ = &mut relaying => false,
                sent = &mut sending => match sent {
                    // The home may have answered before it had everything.
                    Ok(()) | Err(Side::Home) => {
                        let _ = relaying.await;
                        false
                    }
                    Err(Side::Client) => true,
                },
            }
        };
        if is_client_gone {
            return Ok(());
        }
        if is_answered.load(Ordering::Relaxed) {
            return to_client.shutdown().await;
        }
        let ending = if is_sent.load(Ordering::Relaxed) {
            Ending::Unknown
        } else {
            Ending::NotExecuted
        };
        self.say(&mut to_client, ending).await
    }

    /// The answer of this client's protocol to an ending without the home's.
    async fn say(&self, socket: &mut (impl AsyncWrite + Unpin), ending: Ending) -> io::Result<()> {
        let (status, kind, body) = ending.answer(self.protocol);
        answer(socket, status, kind, body, false).await
    }
}

/// A request that is to be passed on: its head as the home gets it.
struct Request {
    head: Vec<u8>,
    /// Bytes of the head as it came.
    head_bytes: usize,
    framing: framing::Framing,
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

/// Gives the home the request; `is_sent` once it has its last byte.
async fn send<S: AsyncRead, H: AsyncWrite>(
    mut client: ReadHalf<S>,
    mut home: WriteHalf<H>,
    request: &Request,
    seen: &[u8],
    is_sent: &AtomicBool,
) -> Result<(), Side> {
    let mut body = BodyReader::new(request.framing, 0);
    let mut pending = seen.to_vec();
    home.write_all(&request.head).await.map_err(|_| Side::Home)?;
    loop {
        let taken = body.take(&pending).map_err(|_| Side::Client)?;
        if body.is_done() {
            // From here on the home may execute it.
            is_sent.store(true, Ordering::Relaxed);
        }
        home.write_all(&pending[..taken]).await.map_err(|_| Side::Home)?;
        pending.drain(..taken);
        if body.is_done() {
            return home.flush().await.map_err(|_| Side::Home);
        }
        let read = tokio::time::timeout(INPUT_TIMEOUT, client.read_buf(&mut pending)).await;
        if !matches!(read, Ok(Ok(1..))) {
            return Err(Side::Client);
        }
    }
}

/// Passes bytes both ways until the server's side ends, which it does as a whole. A client may end
/// its own before it has read everything.
pub async fn exchange(client: impl AsyncRead + AsyncWrite, server: impl AsyncRead + AsyncWrite) -> io::Result<()> {
    let (mut from_client, mut to_client) = tokio::io::split(client);
    let (mut from_server, mut to_server) = tokio::io::split(server);
    let asking = async {
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            let count = from_client.read(&mut buffer).await?;
            if count == 0 {
                return to_server.shutdown().await;
            }
            if to_server.write_all(&buffer[..count]).await.is_err() || to_server.flush().await.is_err() {
                // The bytes that it sent before are still to be read.
                return Ok(());
            }
        }
    };
    let answering = async {
        tokio::io::copy(&mut from_server, &mut to_client).await?;
        to_client.shutdown().await
    };
    let (mut asking, mut answering) = (std::pin::pin!(asking), std::pin::pin!(answering));
    tokio::select! {
        answered = &mut answering => answered,
        asked = &mut asking => match asked {
            Ok(()) => answering.await,
            Err(error) => Err(error),
        },
    }
}

/// Gives the client the answer until the home closes the connection.
async fn relay(
    home: &mut (impl AsyncRead + Unpin),
    client: &mut (impl AsyncWrite + Unpin),
    is_answered: &AtomicBool,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let count = home.read(&mut buffer).await?;
        if count == 0 {
            return Ok(());
        }
        is_answered.store(true, Ordering::Relaxed);
        client.write_all(&buffer[..count]).await?;
        client.flush().await?;
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

async fn answer(
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
