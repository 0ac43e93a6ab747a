//! Forwards a request to the home of its database, as HTTP/1.1, and returns the answer like that of
//! a layer.

use std::collections::HashSet;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use quartet_engine::PartitionId;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use super::framing::{self, BodyReader, HEADERS_MAX};
use super::message::{Answer, Credential, Head, Headers, Kept};
use crate::connections::stream::{Stream, is_silent};
use crate::layers::parts::{Nodes, Parts, WayOut, Whereabouts};

const BUFFER_BYTES: usize = 16 << 10;
/// Time for which a connection to a home waits for the client's next request. The home ends no
/// younger connection.
const KEPT: Duration = Duration::from_secs(20);
/// Pieces of an answer that wait for the client to read.
const PIECES_UNREAD_MAX: usize = 16;
/// Names of headers that answers of this program have, at most.
const NAMES_MAX: usize = 200;
/// Headers that each connection has for itself.
const OF_THE_CONNECTION: [&str; 5] = [
    "connection",
    "keep-alive",
    "transfer-encoding",
    "content-length",
    "date",
];

/// A request for the home of a partition.
pub struct Elsewhere {
    nodes: Option<Weak<dyn Nodes>>,
    partition: PartitionId,
    listener: &'static str,
    request: Kept,
    /// Changes a whole answer.
    finish: fn(Answer) -> Answer,
}

/// The connection to a home that a client's last request has left, for its next one: one at most
/// for each connection of a client.
#[derive(Default)]
pub struct IdleHome(Mutex<Idle>);

#[derive(Default)]
struct Idle {
    connection: Option<HomeConnection>,
    /// A task ends the connection when it has been idle for too long.
    is_watched: bool,
}

struct HomeConnection {
    partition: PartitionId,
    listener: &'static str,
    /// The place of the home at the time of the call.
    home: Whereabouts,
    stream: Box<dyn Stream>,
    /// The time of its last use.
    used: Instant,
}

impl HomeConnection {
    /// False if the home has closed it, or may soon.
    async fn is_usable(&mut self) -> bool {
        self.used.elapsed() < KEPT && is_silent(self.stream.as_mut()).await
    }
}

impl IdleHome {
    /// The connection, if it leads to this listener of the partition's home that is now.
    async fn take(&self, partition: PartitionId, listener: &str, home: &Whereabouts) -> Option<HomeConnection> {
        let idle = self.0.lock().connection.take();
        let is_it =
            |idle: &HomeConnection| idle.partition == partition && idle.listener == listener && idle.home == *home;
        let mut idle = idle.filter(is_it)?;
        idle.is_usable().await.then_some(idle)
    }

    /// Keeps the connection for the next request instead of the one before.
    fn keep(self: &Arc<IdleHome>, mut connection: HomeConnection) {
        connection.used = Instant::now();
        let mut idle = self.0.lock();
        idle.connection = Some(connection);
        if !std::mem::replace(&mut idle.is_watched, true) {
            tokio::spawn(IdleHome::watch(Arc::downgrade(self)));
        }
    }

    /// Ends a connection that is idle for too long, unless the client's ends first.
    async fn watch(watched: Weak<IdleHome>) {
        let mut until = Instant::now() + KEPT;
        loop {
            tokio::time::sleep_until(until).await;
            let Some(watched) = watched.upgrade() else {
                return;
            };
            let mut idle = watched.0.lock();
            match &idle.connection {
                Some(connection) if connection.used.elapsed() < KEPT => until = connection.used + KEPT,
                _ => {
                    *idle = Idle::default();
                    return;
                }
            }
        }
    }
}

/// The answer of the home.
pub enum Answered {
    Whole(Answer),
    /// Status, headers, and the pieces as they arrive.
    GoesOn(u16, Headers, mpsc::Receiver<Vec<u8>>),
}

/// How a request ended that has no answer.
pub enum Unanswered {
    /// It was not executed.
    NotExecuted,
    /// It may have been.
    Unknown,
}

impl From<io::Error> for Unanswered {
    fn from(_: io::Error) -> Unanswered {
        Unanswered::Unknown
    }
}

impl Elsewhere {
    /// `listener`: the listener of the layer that the request is for.
    pub fn new(
        parts: &Parts,
        partition: PartitionId,
        listener: &'static str,
        head: &Head<'_>,
        body: Option<&[u8]>,
    ) -> Elsewhere {
        Elsewhere {
            nodes: parts.nodes.clone(),
            partition,
            listener,
            request: Kept::new(head, body),
            finish: |answer| answer,
        }
    }

    /// A request to a layer that ends here, for the home of the first partition.
    pub fn at_the_home(way_out: &WayOut, head: &Head<'_>, body: Option<&[u8]>) -> Elsewhere {
        Elsewhere {
            nodes: way_out.nodes.clone(),
            partition: PartitionId(0),
            listener: way_out.listener,
            request: Kept::new(head, body),
            finish: |mut answer| {
                // This node need not be home for it.
                answer.is_of_the_node = true;
                answer
            },
        }
    }

    /// A whole answer is changed so before it leaves.
    pub fn finished_by(self, finish: fn(Answer) -> Answer) -> Elsewhere {
        Elsewhere { finish, ..self }
    }

    pub fn request(&self) -> &Kept {
        &self.request
    }

    /// Sends the request to the home on behalf of the client at `peer`. `wake` is notified of each
    /// piece of a streaming answer, and of its end.
    pub async fn ask(&self, peer: SocketAddr, idle: &Arc<IdleHome>, wake: Arc<Notify>) -> Result<Answered, Unanswered> {
        let mut called = self.call(peer, idle).await.map_err(|_| Unanswered::NotExecuted)?;
        let stream = called.stream.as_mut();
        stream.write_all(&self.request.with(written)).await?;
        stream.flush().await?;
        let is_for_head = self.request.with(|head, _| head.method == "HEAD");
        let (head, headers, mut input) = read_head(stream, is_for_head).await?;
        match head.framing {
            Some(framing @ framing::Framing::Length(_)) => {
                let body = read_body(stream, framing, &mut input).await?;
                if head.keeps_alive && input.is_empty() {
                    idle.keep(called);
                }
                Ok(Answered::Whole((self.finish)(answer(head.status, headers, body))))
            }
            framing => {
                let (sender, pieces) = mpsc::channel(PIECES_UNREAD_MAX);
                tokio::spawn(read_pieces(called.stream, framing, input, sender, wake));
                Ok(Answered::GoesOn(head.status, headers, pieces))
            }
        }
    }

    async fn call(&self, peer: SocketAddr, idle: &IdleHome) -> io::Result<HomeConnection> {
        let (partition, listener) = (self.partition, self.listener);
        let nodes = self.nodes.as_ref().and_then(Weak::upgrade);
        let nodes = nodes.ok_or(io::ErrorKind::NotConnected)?;
        let home = nodes.whereabouts(partition);
        if let Some(connection) = idle.take(partition, listener, &home).await {
            return Ok(connection);
        }
        Ok(HomeConnection {
            partition,
            listener,
            home,
            stream: nodes.call(partition, listener, peer).await?,
            used: Instant::now(),
        })
    }
}

/// The request's bytes.
fn written(head: &Head<'_>, body: Option<&[u8]>) -> Vec<u8> {
    let body = body.unwrap_or_default();
    let mut bytes = format!("{} {} HTTP/1.1\r\n", head.method, head.target).into_bytes();
    for header in head.headers {
        let is_named = |name: &&str| header.name.eq_ignore_ascii_case(name);
        if !OF_THE_CONNECTION.iter().chain(&["expect"]).any(is_named) {
            bytes.extend_from_slice(header.name.as_bytes());
            bytes.extend_from_slice(b": ");
            bytes.extend_from_slice(header.value);
            bytes.extend_from_slice(b"\r\n");
        }
    }
    bytes.extend_from_slice(format!("content-length: {}\r\n\r\n", body.len()).as_bytes());
    bytes.extend_from_slice(body);
    bytes
}

fn answer(status: u16, headers: Headers, body: Vec<u8>) -> Answer {
    let mut answer = Answer::settled(status, body);
    answer.headers = headers;
    if (200..300).contains(&status) {
        answer.credential = Credential::Right;
    }
    // Its home has waited for what it rests on. A refusal may be due to where this node has sent
    // the request: it leaves only if this node is home still.
    answer.is_of_the_node = !(400..500).contains(&status);
    answer
}

/// Reads an answer's head; returns it together with the bytes received after it.
async fn read_head(stream: &mut dyn Stream, is_for_head: bool) -> io::Result<(framing::AnswerHead, Headers, Vec<u8>)> {
    let mut input = Vec::with_capacity(BUFFER_BYTES);
    loop {
        if stream.read_buf(&mut input).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let parsed = framing::parse_answer(&input, is_for_head);
        let Some(head) = parsed.map_err(|_| io::ErrorKind::InvalidData)? else {
            continue;
        };
        if head.is_interim {
            input.drain(..head.head_bytes);
            continue;
        }
        let headers = headers_of(&input);
        input.drain(..head.head_bytes);
        return Ok((head, headers, input));
    }
}

/// The headers of the answer at the start of `input`.
fn headers_of(input: &[u8]) -> Headers {
    let mut room = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut parsed = httparse::Response::new(&mut room);
    if parsed.parse(input).is_err() {
        return Headers::new();
    }
    let headers = parsed.headers.iter().filter_map(|header| {
        let name = header.name.to_ascii_lowercase();
        let value = String::from_utf8(header.value.to_vec()).ok()?;
        let is_kept = !OF_THE_CONNECTION.contains(&&*name);
        Some((name_of(name)?, value.into())).filter(|_| is_kept)
    });
    headers.collect()
}

/// The name for as long as the process runs. Answers are of this program, whose names are few.
fn name_of(name: String) -> Option<&'static str> {
    static NAMES: Mutex<Option<HashSet<&'static str>>> = Mutex::new(None);
    let mut names = NAMES.lock();
    let names = names.get_or_insert_default();
    if let Some(interned) = names.get(&*name) {
        return Some(interned);
    }
    if names.len() >= NAMES_MAX {
        return None;
    }
    let kept: &'static str = Box::leak(name.into_boxed_str());
    names.insert(kept);
    Some(kept)
}

/// Reads a body at the start of `input`. All bytes received after it remain in `input`.
async fn read_body(stream: &mut dyn Stream, framing: framing::Framing, input: &mut Vec<u8>) -> io::Result<Vec<u8>> {
    let mut body = BodyReader::new(framing, usize::MAX);
    loop {
        let piece = body.take(input).map_err(|_| io::ErrorKind::InvalidData)?;
        input.drain(..piece);
        if body.is_done() {
            return Ok(body.body);
        }
        input.reserve(BUFFER_BYTES);
        if stream.read_buf(input).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// Forwards the pieces of a streaming answer, until either side ends it.
async fn read_pieces(
    mut stream: Box<dyn Stream>,
    framing: Option<framing::Framing>,
    mut input: Vec<u8>,
    pieces: mpsc::Sender<Vec<u8>>,
    wake: Arc<Notify>,
) {
    let mut body = framing.map(|framing| BodyReader::new(framing, usize::MAX));
    loop {
        let piece = match &mut body {
            Some(body) => {
                let Ok(taken) = body.take(&input) else {
                    break;
                };
                input.drain(..taken);
                std::mem::take(&mut body.body)
            }
            None => std::mem::take(&mut input),
        };
        if !piece.is_empty() && pieces.send(piece).await.is_err() {
            break;
        }
        wake.notify_one();
        if body.as_ref().is_some_and(BodyReader::is_done) {
            break;
        }
        input.reserve(BUFFER_BYTES);
        tokio::select! {
            read = stream.read_buf(&mut input) => if !matches!(read, Ok(1..)) {
                break;
            },
            () = pieces.closed() => break,
        }
    }
    drop(pieces);
    wake.notify_one();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::message::Header;

    #[test]
    fn a_request_is_passed_on_without_the_headers_of_its_connection() {
        let headers = [
            ("Host", "a"),
            ("Connection", "keep-alive"),
            ("Transfer-Encoding", "chunked"),
            ("X-Own", "1"),
        ];
        let headers = headers.map(|(name, value)| Header {
            name,
            value: value.as_bytes(),
        });
        let head = Head {
            method: "POST",
            target: "/?a=b",
            headers: &headers,
        };
        let expected = "POST /?a=b HTTP/1.1\r\nHost: a\r\nX-Own: 1\r\ncontent-length: 4\r\n\r\nbody";
        assert_eq!(String::from_utf8(written(&head, Some(b"body"))).unwrap(), expected);
    }

    /// Returns the parsed result of an answer received byte by byte.
    async fn read(bytes: &'static [u8]) -> io::Result<(u16, Headers, Vec<u8>)> {
        let (mut near, far) = tokio::io::duplex(1);
        let sending = tokio::spawn(async move {
            let _ = near.write_all(bytes).await;
        });
        let mut far: Box<dyn Stream> = Box::new(far);
        let (head, headers, mut input) = read_head(far.as_mut(), false).await?;
        let body = match head.framing {
            Some(framing @ framing::Framing::Length(_)) => read_body(far.as_mut(), framing, &mut input).await?,
            framing => {
                let (sender, mut pieces) = mpsc::channel(PIECES_UNREAD_MAX);
                tokio::spawn(read_pieces(far, framing, input, sender, Arc::default()));
                let mut body = Vec::new();
                while let Some(piece) = pieces.recv().await {
                    body.extend(piece);
                }
                body
            }
        };
        let _ = sending.await;
        Ok((head.status, headers, body))
    }

    #[tokio::test]
    async fn an_answer_arrives_whole_in_any_framing() {
        let response =
            b"HTTP/1.1 200 OK\r\nX-Own: 1\r\ndate: now\r\ncontent-length: 4\r\nconnection: close\r\n\r\nbody";
        let headers: Headers = vec![("x-own", "1".into())];
        assert_eq!(read(response).await.unwrap(), (200, headers.clone(), b"body".to_vec()));
        let chunked = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nx-own: 1\r\ntransfer-encoding: chunked\r\n\r\n2\r\nbo\r\n2\r\ndy\r\n0\r\n\r\n";
        assert_eq!(read(chunked).await.unwrap(), (200, headers.clone(), b"body".to_vec()));
        let to_the_end = b"HTTP/1.1 200 OK\r\nx-own: 1\r\n\r\nbody";
        assert_eq!(read(to_the_end).await.unwrap(), (200, headers, b"body".to_vec()));
    }

    #[tokio::test]
    async fn an_answer_that_breaks_off_is_none() {
        for broken in [
            &b"HTTP/1.1 200 OK\r\ncontent-le"[..],
            b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nbody",
            b"garbage\r\n\r\n",
            b"",
        ] {
            assert!(read(broken).await.is_err(), "{broken:?}");
        }
    }
}
