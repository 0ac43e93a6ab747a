//! One HTTP connection: the loop between its socket and a layer that answers requests.
//!
//! HTTP/1.1 with keep-alive and HTTP/2 with prior knowledge, on the I/O thread that was given the connection: requests are
//! read, answered and sent there. A reply leaves once what it depends on is durable; the requests of other streams of the
//! same connection go on meanwhile.

use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::http::request::Parts;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use quartet_engine::Hold;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};

use crate::durability::DurableWaiters;

/// A layer behind HTTP. Called on I/O threads: it must not block longer than a short transaction.
pub trait HttpLayer: Send + Sync + 'static {
    /// Most bytes of a body, as they arrive. A longer one is given as `None`.
    fn body_bytes_max(&self) -> usize;

    fn answer(&self, head: &Parts, body: Option<Bytes>) -> HttpAnswer;

    /// The answer, or what is left to be done for it where it may take long.
    fn begin(&self, head: &Parts, body: Option<Bytes>) -> Result<HttpAnswer, Work> {
        Ok(self.answer(head, body))
    }

    /// Work in the background, a little at a time; called every tenth of a second from a thread of its own.
    fn maintain(&self) {}

    /// A request whose answer goes on. `None`: it is one for `begin`. `wake` may be called from any thread, and quickly.
    fn follow(&self, _head: &Parts, _body: &Option<Bytes>, _wake: Wake) -> Option<Followed> {
        None
    }
}

/// The rest of a request that takes too long for an I/O thread.
pub type Work = Box<dyn FnOnce() -> HttpAnswer + Send>;

/// Tells that a [`Follower`] may have something to send.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// The head of an answer that goes on, and what goes on; or a refusal.
pub type Followed = Result<(Response<()>, Box<dyn Follower>), HttpAnswer>;

/// An answer that goes on until either side ends it.
pub trait Follower: Send {
    fn next(&mut self) -> Following;
}

pub enum Following {
    /// To be sent, then ask again.
    Send(Bytes),
    /// Ask again once this is durable.
    Wait(Hold),
    /// Ask again when woken.
    Idle,
    End,
}

/// What is sent: a whole answer, or one that goes on.
pub enum AnswerBody {
    Whole(Full<Bytes>),
    GoingOn(mpsc::Receiver<Bytes>),
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<hyper::body::Frame<Bytes>, Infallible>>> {
        match &mut *self {
            AnswerBody::Whole(body) => std::pin::Pin::new(body).poll_frame(context),
            AnswerBody::GoingOn(parts) => parts
                .poll_recv(context)
                .map(|part| part.map(|part| Ok(hyper::body::Frame::data(part)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, AnswerBody::Whole(body) if body.is_end_stream())
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        match self {
            AnswerBody::Whole(body) => body.size_hint(),
            AnswerBody::GoingOn(_) => hyper::body::SizeHint::default(),
        }
    }
}

/// Parts of an answer that wait for the peer to read.
const PARTS_UNREAD_MAX: usize = 16;

/// Sends what a follower has, until it ends, the peer goes, or the server stops.
async fn go_on(
    mut follower: Box<dyn Follower>,
    woken: Arc<tokio::sync::Notify>,
    parts: mpsc::Sender<Bytes>,
    waiters: DurableWaiters,
    mut stop: watch::Receiver<bool>,
) {
    loop {
        match follower.next() {
            Following::End => return,
            Following::Send(part) => {
                if parts.send(part).await.is_err() {
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

/// The answer, to be sent once `hold` is durable.
pub struct HttpAnswer {
    pub response: Response<Bytes>,
    pub hold: Hold,
}

/// Longest time that a peer may leave a connection without a request. Clients keep theirs for a minute or so.
const IDLE_TIMEOUT: Duration = Duration::from_secs(350);
/// Longest time that a body may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// Of a body that is too long, this much is read before the connection is given up, so that the peer sees the answer.
const DISCARDED_BYTES_MAX: usize = 64 << 20;
const STREAMS_MAX: u32 = 250;

/// A socket on its way to its I/O thread, and the layer that will answer on it.
pub struct HttpAccepted {
    socket: std::net::TcpStream,
    layer: Arc<dyn HttpLayer>,
    counted: Counted,
}

/// Takes part in the number of open connections.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Accepts connections for `layer` and deals them out to the I/O threads in turn.
pub async fn accept(
    listener: std::net::TcpListener,
    layer: Arc<dyn HttpLayer>,
    connections_max: usize,
    threads: Vec<mpsc::UnboundedSender<HttpAccepted>>,
    mut stop: watch::Receiver<bool>,
) {
    let listener = match listener
        .set_nonblocking(true)
        .and_then(|()| tokio::net::TcpListener::from_std(listener))
    {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "cannot accept connections"),
    };
    let open = Arc::new(AtomicUsize::new(0));
    let mut turns = threads.iter().cycle();
    while !*stop.borrow() {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.changed() => continue,
        };
        let dealt = accepted.and_then(|(socket, _)| {
            open.fetch_add(1, Ordering::Relaxed);
            let counted = Counted(open.clone());
            if open.load(Ordering::Relaxed) > connections_max {
                return Ok(());
            }
            socket.set_nodelay(true)?;
            let accepted = HttpAccepted {
                socket: socket.into_std()?,
                layer: layer.clone(),
                counted,
            };
            // A thread that is gone is one that was stopped.
            let _ = turns.next().map(|thread| thread.send(accepted));
            Ok(())
        });
        if let Err(error) = dealt {
            tracing::warn!(%error, "accepting a connection");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// Serves a connection to its end.
pub async fn serve(accepted: HttpAccepted, waiters: DurableWaiters, mut stop: watch::Receiver<bool>) {
    let _counted = accepted.counted;
    let Ok(socket) = TcpStream::from_std(accepted.socket) else {
        return;
    };
    let layer = accepted.layer;
    let stopped = stop.clone();
    let service =
        hyper::service::service_fn(move |request| respond(layer.clone(), waiters.clone(), stopped.clone(), request));
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE_TIMEOUT)
        .pipeline_flush(true);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(socket), service));
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
        tracing::debug!(error, "an HTTP connection ended");
    }
}

async fn respond(
    layer: Arc<dyn HttpLayer>,
    waiters: DurableWaiters,
    stop: watch::Receiver<bool>,
    request: Request<Incoming>,
) -> Result<Response<AnswerBody>, Infallible> {
    let (head, body) = request.into_parts();
    let read = tokio::time::timeout(BODY_TIMEOUT, read_body(body, layer.body_bytes_max())).await;
    let body = match read {
        Ok(Ok(body)) => body,
        Ok(Err(_)) | Err(_) => return Ok(empty(StatusCode::REQUEST_TIMEOUT)),
    };
    let woken = Arc::new(tokio::sync::Notify::new());
    let notify = woken.clone();
    let answer = match layer.follow(&head, &body, Arc::new(move || notify.notify_one())) {
        Some(Ok((response, follower))) => {
            let (sender, receiver) = mpsc::channel(PARTS_UNREAD_MAX);
            tokio::spawn(go_on(follower, woken, sender, waiters, stop));
            return Ok(response.map(|()| AnswerBody::GoingOn(receiver)));
        }
        Some(Err(refusal)) => refusal,
        None => match layer.begin(&head, body) {
            Ok(answer) => answer,
            Err(work) => match tokio::task::spawn_blocking(work).await {
                Ok(answer) => answer,
                Err(_) => return Ok(empty(StatusCode::INTERNAL_SERVER_ERROR)),
            },
        },
    };
    if !waiters.is_durable(answer.hold) {
        waiters.durable(answer.hold).await;
    }
    Ok(answer.response.map(|body| AnswerBody::Whole(Full::new(body))))
}

fn empty(status: StatusCode) -> Response<AnswerBody> {
    let mut response = Response::new(AnswerBody::Whole(Full::default()));
    *response.status_mut() = status;
    response
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
        if total > DISCARDED_BYTES_MAX {
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
