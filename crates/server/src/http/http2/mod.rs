//! A connection that speaks HTTP/2 with prior knowledge: hyper's, around the same layers.
//!
//! A reply is sent when its dependency is durable; the requests of other streams of the connection
//! continue meanwhile. A connection without requests or answers for too long ends, despite any
//! other frames. Any end that is not said to the client is a reset.

pub mod frames;

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{HOST, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::server::conn::http2;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use parking_lot::Mutex;
use quartet_engine::{Arrival, Durability, Reserved};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{Instant, timeout, timeout_at};

use self::frames::{ANY_STREAM, Reason, Written, goaway};

use super::elsewhere::Elsewhere;
use super::http1::Socket;
use super::message::{Answer, Head, Header, Headers, Kept, is_header_value};
use super::{
    BODY_PACE, BusySince, DISCARDED_BYTES_MAX, Dispatch, Follower, Following, HeadShows, HttpLayer, Long, Peer,
    STRANGER_BODY_BYTES_MAX, ask_elsewhere, judged, take_long,
};
use crate::connections::durability::{Arrivals, Hold, ThreadWaiters};
use crate::connections::stream::{end_as_usual, end_by_reset};
use crate::http::input_budget::{self, KeptInput};

const STREAMS_MAX: u32 = 100;
/// Bytes that a peer may send of all bodies, and of one, before they are read.
const WINDOW_BYTES: u32 = 256 << 10;
const HEAD_BYTES_MAX: u32 = 16 << 10;
/// Time limit of the remaining answers on an ending connection.
const LINGER_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for which a server that stops waits for a peer without requests.
const FAREWELL_TIMEOUT: Duration = Duration::from_secs(1);
/// Parts of an answer that wait for the peer to read.
const PARTS_UNREAD_MAX: usize = 16;

/// The answer that is being sent. The request is being answered for as long as this exists.
struct AnswerBody {
    content: Content,
    _unsent: Option<Reserved>,
    _in_flight: InFlight,
}

/// A complete answer, or a stream.
enum Content {
    Whole(Full<Bytes>),
    GoingOn(mpsc::Receiver<Bytes>),
}

/// The events of a connection.
#[derive(Default)]
struct Activity {
    in_flight_count: AtomicUsize,
    /// Set by each request and each answer since the last check of the flag.
    is_fresh: AtomicBool,
}

impl Activity {
    fn begin(self: &Arc<Self>) -> InFlight {
        self.is_fresh.store(true, Ordering::Relaxed);
        self.in_flight_count.fetch_add(1, Ordering::Relaxed);
        InFlight(self.clone())
    }

    /// Returns true if there was no request or answer since the last call.
    fn was_idle(&self) -> bool {
        !self.is_fresh.swap(false, Ordering::Relaxed) && !self.is_answering()
    }

    fn is_answering(&self) -> bool {
        self.in_flight_count.load(Ordering::Relaxed) > 0
    }
}

/// A request that is being answered.
struct InFlight(Arc<Activity>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.is_fresh.store(true, Ordering::Relaxed);
        self.0.in_flight_count.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.content {
            Content::Whole(body) => Pin::new(body).poll_frame(context),
            Content::GoingOn(parts) => parts
                .poll_recv(context)
                .map(|part| part.map(|part| Ok(Frame::data(part)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.content, Content::Whole(body) if body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Whole(body) => body.size_hint(),
            Content::GoingOn(_) => SizeHint::default(),
        }
    }
}

/// The bytes of a connection, which ends by a reset unless [`Wire::end`] is called.
struct Wire<S>(Arc<Mutex<Carrying<S>>>);

struct Carrying<S> {
    socket: S,
    /// Bytes that were read before, and the number of consumed bytes.
    seen: (Vec<u8>, usize),
    written: Written,
}

impl<S> Clone for Wire<S> {
    fn clone(&self) -> Wire<S> {
        Wire(self.0.clone())
    }
}

impl<S: Socket> Wire<S> {
    fn new(socket: S, seen: Vec<u8>) -> Wire<S> {
        end_by_reset(&socket);
        Wire(Arc::new(Mutex::new(Carrying {
            socket,
            seen: (seen, 0),
            written: Written::default(),
        })))
    }

    /// Ends a connection after the client has the report of the end, or with `last` as the report.
    async fn end(mut self, last: Option<[u8; 17]>) -> io::Result<()> {
        if let Some(last) = last {
            if !self.0.lock().written.is_whole() {
                return Ok(());
            }
            self.write_all(&last).await?;
        }
        end_as_usual(&self.0.lock().socket);
        self.shutdown().await
    }
}

impl<S: Socket> AsyncRead for Wire<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut carrying = self.0.lock();
        let Carrying { socket, seen, .. } = &mut *carrying;
        let (seen, taken) = seen;
        if *taken == seen.len() {
            return Pin::new(socket).poll_read(context, into);
        }
        let count = (seen.len() - *taken).min(into.remaining());
        into.put_slice(&seen[*taken..*taken + count]);
        *taken += count;
        Poll::Ready(Ok(()))
    }
}

impl<S: Socket> AsyncWrite for Wire<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut carrying = self.0.lock();
        let count = ready!(Pin::new(&mut carrying.socket).poll_write(context, bytes))?;
        carrying.written.add(&bytes[..count]);
        Poll::Ready(Ok(count))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut carrying = self.0.lock();
        let count = ready!(Pin::new(&mut carrying.socket).poll_write_vectored(context, slices))?;
        let mut left = count;
        for slice in slices {
            let of_slice = left.min(slice.len());
            carrying.written.add(&slice[..of_slice]);
            left -= of_slice;
        }
        Poll::Ready(Ok(count))
    }

    fn is_write_vectored(&self) -> bool {
        self.0.lock().socket.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0.lock().socket).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0.lock().socket).poll_shutdown(context)
    }
}

/// Serves a connection to its end. `seen` was already read from the socket.
pub async fn serve(
    socket: impl Socket,
    seen: Vec<u8>,
    layer: Arc<dyn HttpLayer>,
    peer: Peer,
    waiters: ThreadWaiters,
    mut stop: watch::Receiver<bool>,
) {
    let activity = Arc::<Activity>::default();
    let (stopped, seen_peer, active) = (stop.clone(), peer.clone(), activity.clone());
    let service = hyper::service::service_fn(move |request| {
        let (layer, peer) = (layer.clone(), seen_peer.clone());
        respond(layer, peer, active.begin(), waiters.clone(), stopped.clone(), request)
    });
    let wire = Wire::new(socket, seen);
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEAD_BYTES_MAX)
        .initial_connection_window_size(WINDOW_BYTES)
        .initial_stream_window_size(WINDOW_BYTES);
    let mut connection = Box::pin(builder.serve_connection(TokioIo::new(wire.clone()), service));
    // The awaited value holds a lock that may not be kept while the connection ends.
    let stopped = async move { drop(stop.wait_for(|stopped| *stopped).await) };
    let ended = tokio::select! {
        ended = connection.as_mut() => Some(ended),
        () = stopped => {
            connection.as_mut().graceful_shutdown();
            // A peer that does not acknowledge the end would hold the server that stops.
            tokio::select! {
                ended = connection.as_mut() => Some(ended),
                () = idle(&activity, || FAREWELL_TIMEOUT) => None,
            }
        }
        () = idle(&activity, || peer.idle_timeout()) => {
            connection.as_mut().graceful_shutdown();
            timeout(LINGER_TIMEOUT, connection.as_mut()).await.ok()
        }
    };
    // The answers of a connection that has not ended are given up.
    let last = match ended {
        Some(_) => None,
        None if activity.is_answering() => Some(goaway(ANY_STREAM, Reason::InternalError)),
        // A stream that is on its way will not be executed. All others are closed.
        None => Some(goaway(0, Reason::NoError)),
    };
    drop(connection);
    // A client that does not read the end is reset.
    let _ = timeout(FAREWELL_TIMEOUT, wire.end(last)).await;
    if let Some(Err(error)) = ended {
        tracing::debug!(%error, "an HTTP/2 connection ended");
    }
}

/// Completes when nothing has happened for a whole turn of the clock.
async fn idle(activity: &Activity, turn: impl Fn() -> Duration) {
    loop {
        tokio::time::sleep(turn()).await;
        if activity.was_idle() {
            return;
        }
    }
}

async fn respond(
    layer: Arc<dyn HttpLayer>,
    peer: Peer,
    in_flight: InFlight,
    waiters: ThreadWaiters,
    stop: watch::Receiver<bool>,
    request: Request<Incoming>,
) -> io::Result<Response<AnswerBody>> {
    let (parts, body) = request.into_parts();
    if body
        .size_hint()
        .upper()
        .is_none_or(|bytes| bytes > STRANGER_BODY_BYTES_MAX)
    {
        match with_head(&parts, |head| layer.judge_head(head)) {
            HeadShows::Answer(answer) => {
                let refusal = refusal(&*layer, &parts, answer, &peer, &waiters).await?;
                return Ok(whole(refusal, &peer, in_flight));
            }
            HeadShows::Credential => peer.permit.authenticated(),
            HeadShows::Name => {}
        }
    }
    let mut request_memory = KeptRequest {
        input: peer.input(),
        peer: &peer,
        head_bytes: head_bytes(&parts),
    };
    let body = match read_body(body, layer.body_bytes_max(), &mut request_memory).await {
        Ok(body) => body,
        Err(status) => return Ok(whole(Answer::settled(status.as_u16(), ""), &peer, in_flight)),
    };
    if peer.is_stranger()
        && let Some(answer) = with_head(&parts, |head| layer.refuse_stranger(head))
    {
        let refusal = refusal(&*layer, &parts, answer, &peer, &waiters).await?;
        return Ok(whole(refusal, &peer, in_flight));
    }
    let span = with_head(&parts, |head| peer.begin_span(&*layer, head));
    let woken = Arc::new(Notify::new());
    let mut busy_since = BusySince::default();
    let arrivals = waiters.arrivals(Durability::Always);
    let answered = loop {
        match with_head(&parts, |head| layer.dispatch(head, body.as_deref())) {
            Dispatch::Answered(answer) => {
                break Err(with_head(&parts, |head| judged(&*layer, head, answer, &waiters)));
            }
            // It continues at the next home; the connection takes no more.
            Dispatch::Busy(_) if *stop.borrow() && peer.way_out.open().is_some() => {
                let elsewhere = with_head(&parts, |head| {
                    Elsewhere::at_the_home(&peer.way_out, head, body.as_deref())
                });
                break ask_elsewhere(&layer, &elsewhere, &peer, woken.clone()).await?;
            }
            Dispatch::Busy(partition) if *stop.borrow() || busy_since.is_too_long(waiters.of(partition)) => {
                break Err(with_head(&parts, |head| layer.answer_busy(head)));
            }
            Dispatch::Busy(partition) => waiters.of(partition).free().await,
            Dispatch::Later => {
                let long = Long::Everything(with_head(&parts, |head| Kept::new(head, body.as_deref())));
                break take_long(layer, long, &peer, &waiters, woken.clone(), stop.clone()).await?;
            }
            Dispatch::Elsewhere(elsewhere) => {
                let long = Long::Elsewhere(elsewhere);
                break take_long(layer, long, &peer, &waiters, woken.clone(), stop.clone()).await?;
            }
            Dispatch::Unfinished(scheduler_handle, work) => {
                let long = Long::Rest(scheduler_handle, work);
                break take_long(layer, long, &peer, &waiters, woken.clone(), stop.clone()).await?;
            }
        }
    };
    match answered {
        Ok((status, headers, follower)) => {
            peer.permit.authenticated();
            peer.end_span(span);
            let (sender, receiver) = mpsc::channel(PARTS_UNREAD_MAX);
            tokio::spawn(go_on(follower, woken, sender, waiters, stop));
            Ok(response(status, &headers, Content::GoingOn(receiver), None, in_flight))
        }
        Err(mut answer) => {
            peer.answered(&mut answer);
            let span = peer.note_answer(span, &mut answer);
            if !answer.pause.is_zero() {
                tokio::time::sleep(answer.pause).await;
            }
            let released = released(&answer, &arrivals, &waiters).await;
            peer.end_span(span);
            released.map(|()| whole(answer, &peer, in_flight))
        }
    }
}

/// Completes when the answer may be sent. With an error the stream ends without an answer.
async fn released(answer: &Answer, arrivals: &Arrivals, waiters: &ThreadWaiters) -> io::Result<()> {
    let dependency = answer.dependency;
    let arrival = match answer.is_of_the_node {
        true => Arrival::of_the_node(),
        false => arrivals.of(answer.partition),
    };
    let waiters = waiters.of(answer.partition);
    Ok(waiters.released(Hold { dependency, arrival }).await?)
}

/// The answer to a request that is not executed, when it may be sent.
async fn refusal(
    layer: &dyn HttpLayer,
    parts: &Parts,
    answer: Answer,
    peer: &Peer,
    waiters: &ThreadWaiters,
) -> io::Result<Answer> {
    let arrivals = waiters.arrivals(Durability::Always);
    let mut answer = with_head(parts, |head| judged(layer, head, answer, waiters));
    peer.answered(&mut answer);
    tokio::time::sleep(answer.pause).await;
    released(&answer, &arrivals, waiters).await?;
    Ok(answer)
}

/// Calls `answer` with the head in the form of layers, where Host has the authority.
fn with_head<T>(parts: &Parts, answer: impl FnOnce(&Head<'_>) -> T) -> T {
    let named = parts.headers.iter();
    let mut headers: Vec<Header<'_>> = named
        .map(|(name, value)| Header {
            name: name.as_str(),
            value: value.as_bytes(),
        })
        .collect();
    if let (Some(authority), false) = (parts.uri.authority(), parts.headers.contains_key(HOST)) {
        headers.push(Header {
            name: HOST.as_str(),
            value: authority.as_str().as_bytes(),
        });
    }
    answer(&Head {
        method: parts.method.as_str(),
        target: parts.uri.path_and_query().map_or("/", |target| target.as_str()),
        headers: &headers,
    })
}

fn whole(answer: Answer, peer: &Peer, in_flight: InFlight) -> Response<AnswerBody> {
    let unsent = input_budget::unsent(answer.body.len(), &peer.memory);
    let content = Content::Whole(Full::new(answer.body.into()));
    response(answer.status, &answer.headers, content, Some(unsent), in_flight)
}

fn response(
    status: u16,
    headers: &Headers,
    content: Content,
    unsent: Option<Reserved>,
    in_flight: InFlight,
) -> Response<AnswerBody> {
    let mut response = Response::new(AnswerBody {
        content,
        _unsent: unsent,
        _in_flight: in_flight,
    });
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in headers.iter().filter(|(_, value)| is_header_value(value)) {
        if let Ok(value) = HeaderValue::from_str(value) {
            response.headers_mut().insert(HeaderName::from_static(name), value);
        }
    }
    response
}

/// Sends what a follower has, until it ends, the peer goes, or the server stops.
async fn go_on(
    mut follower: Box<dyn Follower>,
    woken: Arc<Notify>,
    parts: mpsc::Sender<Bytes>,
    waiters: ThreadWaiters,
    mut stop: watch::Receiver<bool>,
) {
    loop {
        match follower.next() {
            Following::End => return,
            Following::Send(part) => {
                if parts.send(part.into()).await.is_err() {
                    return;
                }
            }
            Following::Wait(dependency) => {
                if waiters.of(follower.partition()).durable(dependency).await.is_err() {
                    return;
                }
            }
            Following::Busy => waiters.of(follower.partition()).free().await,
            Following::Idle => tokio::select! {
                _ = woken.notified() => {}
                _ = parts.closed() => return,
                _ = stop.wait_for(|stopped| *stopped) => return,
            },
        }
    }
}

/// The buffered parts of a request.
struct KeptRequest<'p> {
    input: KeptInput,
    peer: &'p Peer,
    head_bytes: usize,
}

impl KeptRequest<'_> {
    /// False: there is no room.
    fn may_keep(&mut self, body_bytes: usize) -> bool {
        self.input.set(self.head_bytes + body_bytes, self.peer.is_stranger())
    }
}

/// Returns the approximate size of a head.
fn head_bytes(parts: &Parts) -> usize {
    let headers = parts.headers.iter();
    headers
        .map(|(name, value)| name.as_str().len() + value.len() + 64)
        .sum()
}

/// The whole body; `None` if it is longer than `bytes_max`. Grows as bytes arrive, never by an
/// announced length. `Err`: the status of the refusal.
async fn read_body(
    mut body: Incoming,
    bytes_max: usize,
    request_memory: &mut KeptRequest<'_>,
) -> Result<Option<Bytes>, StatusCode> {
    let mut whole = Bytes::new();
    let mut gathered = BytesMut::new();
    let mut total = 0;
    let started = Instant::now();
    while !body.is_end_stream() {
        if !request_memory.may_keep(whole.len() + gathered.len()) {
            return Err(StatusCode::SERVICE_UNAVAILABLE);
        }
        let frame = timeout_at(BODY_PACE.deadline(started, total as u64), body.frame()).await;
        let Some(frame) = frame.map_err(|_| StatusCode::REQUEST_TIMEOUT)? else {
            break;
        };
        let Ok(data) = frame.map_err(|_| StatusCode::REQUEST_TIMEOUT)?.into_data() else {
            continue;
        };
        total += data.len();
        if total as u64 > DISCARDED_BYTES_MAX {
            return Ok(None);
        }
        if total > bytes_max {
            (whole, gathered) = (Bytes::new(), BytesMut::new());
        } else if whole.is_empty() && gathered.is_empty() {
            whole = data;
        } else {
            gathered.extend_from_slice(&std::mem::take(&mut whole));
            gathered.extend_from_slice(&data);
        }
    }
    Ok(match (total > bytes_max, gathered.is_empty()) {
        (true, _) => None,
        (false, true) => Some(whole),
        (false, false) => Some(gathered.freeze()),
    })
}

#[cfg(test)]
mod tests;
