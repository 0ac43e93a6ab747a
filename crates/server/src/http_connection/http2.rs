//! A connection that speaks HTTP/2 with prior knowledge: hyper's, around the same layers.
//!
//! A reply leaves once what it depends on is durable; the requests of other streams of the connection go on meanwhile.

use std::convert::Infallible;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{HOST, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::server::conn::http2;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::AsyncReadExt;
use tokio::sync::{Notify, mpsc, watch};

use super::http1::Socket;
use super::message::{Answer, Head, Header, Headers, Kept, is_header_value};
use super::{BODY_TIMEOUT, DISCARDED_BYTES_MAX, Follower, Following, HttpLayer, Peer, take_long};
use crate::durability::DurableWaiters;

const STREAMS_MAX: u32 = 250;
/// Parts of an answer that wait for the peer to read.
const PARTS_UNREAD_MAX: usize = 16;

/// What is sent: a whole answer, or one that goes on.
enum AnswerBody {
    Whole(Full<Bytes>),
    GoingOn(mpsc::Receiver<Bytes>),
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            AnswerBody::Whole(body) => Pin::new(body).poll_frame(context),
            AnswerBody::GoingOn(parts) => parts
                .poll_recv(context)
                .map(|part| part.map(|part| Ok(Frame::data(part)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, AnswerBody::Whole(body) if body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            AnswerBody::Whole(body) => body.size_hint(),
            AnswerBody::GoingOn(_) => SizeHint::default(),
        }
    }
}

/// Serves a connection to its end. `seen` was already read from the socket.
pub async fn serve(
    socket: impl Socket,
    seen: Vec<u8>,
    layer: Arc<dyn HttpLayer>,
    peer: Peer,
    waiters: DurableWaiters,
    mut stop: watch::Receiver<bool>,
) {
    let stopped = stop.clone();
    let service = hyper::service::service_fn(move |request| {
        respond(layer.clone(), peer.clone(), waiters.clone(), stopped.clone(), request)
    });
    let (reader, writer) = tokio::io::split(socket);
    let reader = io::Cursor::new(seen).chain(reader);
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder.timer(TokioTimer::new()).max_concurrent_streams(STREAMS_MAX);
    let io = TokioIo::new(tokio::io::join(reader, writer));
    let mut connection = pin!(builder.serve_connection(io, service));
    // What is waited for holds a lock that may not be kept while the connection ends.
    let stopped = async move { drop(stop.wait_for(|stopped| *stopped).await) };
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stopped => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "an HTTP/2 connection ended");
    }
}

async fn respond(
    layer: Arc<dyn HttpLayer>,
    peer: Peer,
    waiters: DurableWaiters,
    stop: watch::Receiver<bool>,
    request: Request<Incoming>,
) -> Result<Response<AnswerBody>, Infallible> {
    let (parts, body) = request.into_parts();
    let read = tokio::time::timeout(BODY_TIMEOUT, read_body(body, layer.body_bytes_max())).await;
    let Ok(Ok(body)) = read else {
        return Ok(whole(Answer::settled(StatusCode::REQUEST_TIMEOUT.as_u16(), "")));
    };
    let woken = Arc::new(Notify::new());
    let soon = with_head(&parts, |head| layer.answer_soon(head, body.as_deref()));
    let keep = || with_head(&parts, |head| Kept::new(head, body.as_deref()));
    let answered = match soon.or_long(keep) {
        Ok(answer) => Err(answer),
        Err(long) => take_long(layer, long, woken.clone()).await,
    };
    match answered {
        Ok((status, headers, follower)) => {
            peer.permit.authenticated();
            let (sender, receiver) = mpsc::channel(PARTS_UNREAD_MAX);
            tokio::spawn(go_on(follower, woken, sender, waiters, stop));
            Ok(response(status, &headers, AnswerBody::GoingOn(receiver)))
        }
        Err(answer) => {
            peer.answered(&answer);
            if !answer.pause.is_zero() {
                tokio::time::sleep(answer.pause).await;
            }
            if !waiters.is_durable(answer.hold) {
                waiters.durable(answer.hold).await;
            }
            Ok(whole(answer))
        }
    }
}

/// Gives `answer` the head as layers take it, in which Host stands for the authority.
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

fn whole(answer: Answer) -> Response<AnswerBody> {
    let body = AnswerBody::Whole(Full::new(answer.body.into()));
    response(answer.status, &answer.headers, body)
}

fn response(status: u16, headers: &Headers, body: AnswerBody) -> Response<AnswerBody> {
    let mut response = Response::new(body);
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
    waiters: DurableWaiters,
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
            Following::Wait(hold) => waiters.durable(hold).await,
            Following::Idle => tokio::select! {
                _ = woken.notified() => {}
                _ = parts.closed() => return,
                _ = stop.wait_for(|stopped| *stopped) => return,
            },
        }
    }
}

/// The whole body; `None` if it is longer than `bytes_max`. Grows as bytes arrive, never by an announced length.
async fn read_body(mut body: Incoming, bytes_max: usize) -> io::Result<Option<Bytes>> {
    let mut whole = Bytes::new();
    let mut gathered = BytesMut::new();
    let mut total = 0;
    while !body.is_end_stream() {
        let Some(frame) = body.frame().await else { break };
        let Ok(data) = frame.map_err(io::Error::other)?.into_data() else {
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
