//! A connection that speaks HTTP/1.1, or 1.0: read, answer, write.
//!
//! Per readiness one read, all complete requests answered, one write. A body received together with
//! its head is used in place; any other is gathered first. A request received in one piece needs no
//! timer. A request in several pieces has a deadline for its whole head and a pace for its body.

use std::borrow::Cow;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, SystemTime};

use quartet_engine::{Arrival, Dependency, Durability, PartitionId, Reserved};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use super::framing::{self, BodyReader, Framing, HEAD_BYTES_MAX, HEADERS_MAX, HTTP2_PREFACE, Refusal};
use super::message::{Answer, Headers, Kept, is_bodiless, is_header_value};
use super::{
    ANSWER_PACE, BODY_PACE, BusySince, DISCARDED_BYTES_MAX, Dispatch, FIRST_BYTES_WITHIN, Follower, Following,
    HEAD_TIMEOUT, HeadShows, HttpLayer, Long, Peer, STRANGER_BODY_BYTES_MAX, judged, take_long,
};
use crate::connections::durability::{Arrivals, Hold, ThreadWaiters};
use crate::http::input_budget::{self, KeptInput};
use crate::limits::transfer_deadline::sent_at_once;
use crate::observability::telemetry::spans::UnderWay;

/// Size of one read, and the size that a buffer shrinks back to.
const BUFFER_BYTES: usize = 16 << 10;
/// Answers larger than this are sent before the next request is looked at.
const OUTPUT_BYTES_FLUSH: usize = 1 << 20;
/// Size of one read from a peer that has not authenticated: ten thousand of them may have sent
/// nothing yet.
const STRANGER_BUFFER_BYTES: usize = 2 << 10;
/// Time for which a refused connection is still read, so that the peer sees the reason.
const LINGER_TIMEOUT: Duration = Duration::from_secs(2);

pub trait Socket: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Socket for S {}

pub struct Connection<S> {
    socket: S,
    layer: Arc<dyn HttpLayer>,
    peer: Peer,
    waiters: ThreadWaiters,
    stop: watch::Receiver<bool>,
    input: Vec<u8>,
    /// Bytes of `input` that are done with.
    consumed: usize,
    outgoing: Outgoing,
    /// The body of the next request in `input`, if it did not arrive together with its head.
    gathered: Option<Gathered>,
    /// The deadline of the incomplete head at the start of the input.
    head_deadline: Option<Instant>,
    /// The peer's buffered input.
    kept: KeptInput,
    woken: Arc<Notify>,
    unfinished: UnfinishedHead,
    /// A request was seen, so the peer speaks this version.
    is_settled: bool,
    first_bytes_by: Instant,
    /// For the next request in `input`.
    busy_since: BusySince,
}

/// Bytes that wait to be sent.
#[derive(Default)]
struct Outgoing {
    bytes: Vec<u8>,
    /// It may be sent on this condition, in this partition.
    hold: Hold,
    partition: PartitionId,
    /// The arrival of the next request to answer.
    arrivals: Arrivals,
    /// And on these: of answers before, from other partitions.
    others: Vec<(PartitionId, Hold)>,
    /// And once this time has passed.
    pause: Duration,
    /// The spans of the answers; each ends when its answer is sent.
    spans: Vec<UnderWay>,
    /// Counts answers that were counted before they were made.
    kept: Vec<Reserved>,
}

struct Gathered {
    /// `None`: it was too long.
    body: Option<Vec<u8>>,
    /// It was so long that the connection ends.
    gave_up: bool,
}

/// How a connection ended.
pub enum Ended<S> {
    Closed,
    /// The peer speaks HTTP/2; this is what was read of it.
    SpeaksHttp2(S, Vec<u8>),
    /// The layer ends, and the connection continues at the next home with these bytes of requests.
    /// It is new if it has had no request.
    Leaves {
        socket: S,
        input: Vec<u8>,
        is_new: bool,
    },
}

/// The next step after looking at the input.
enum Next {
    /// Look again.
    Answered,
    /// The answer says that it is the last.
    Close,
    Read,
    Gather {
        head_bytes: usize,
        framing: Framing,
        expects_continue: bool,
    },
    /// Nothing is answered yet: that may take longer than an I/O thread has.
    TakeLong {
        long: Long,
        writing: Writing,
        span: Option<UnderWay>,
    },
    /// Nothing is answered yet: something keeps this partition.
    Wait(PartitionId),
    SpeaksHttp2,
    /// Nothing is answered, and will not be here.
    Leave,
    Refuse(Refusal),
}

impl<S: Socket> Connection<S> {
    pub fn new(
        socket: S,
        layer: Arc<dyn HttpLayer>,
        peer: Peer,
        waiters: ThreadWaiters,
        stop: watch::Receiver<bool>,
    ) -> Self {
        let input = peer.input();
        Connection {
            socket,
            layer,
            peer,
            waiters,
            stop,
            input: Vec::new(),
            consumed: 0,
            outgoing: Outgoing::default(),
            gathered: None,
            head_deadline: None,
            kept: input,
            woken: Arc::default(),
            unfinished: UnfinishedHead::default(),
            is_settled: false,
            first_bytes_by: Instant::now() + FIRST_BYTES_WITHIN,
            busy_since: BusySince::default(),
        }
    }

    pub async fn run(mut self) -> io::Result<Ended<S>> {
        let mut stop = self.stop.clone();
        let mut stopped = pin!(async move { drop(stop.wait_for(|stopped| *stopped).await) });
        let mut silence = Silence::new(self.peer.clone());
        loop {
            if self.outgoing.is_due() {
                self.send().await?;
            }
            match self.look() {
                Next::Answered => {}
                Next::Close => return self.close().await,
                Next::Wait(partition) => {
                    self.send().await?;
                    self.waiters.of(partition).free().await;
                }
                Next::SpeaksHttp2 => return Ok(Ended::SpeaksHttp2(self.socket, self.input)),
                Next::Leave => return self.leave().await,
                Next::Refuse(refusal) => {
                    self.outgoing.refuse(refusal.status());
                    return self.close().await;
                }
                Next::Gather {
                    head_bytes,
                    framing,
                    expects_continue,
                } => {
                    if let Err(status) = self.gather(head_bytes, framing, expects_continue).await? {
                        self.outgoing.refuse(status);
                        return self.close().await;
                    }
                }
                Next::TakeLong { long, writing, span } => {
                    if !self.take_long(long, writing, span).await? {
                        return self.close().await;
                    }
                }
                Next::Read => {
                    if !self.outgoing.bytes.is_empty() && !self.waiters.is_alone() {
                        // Other connections with received requests are answered first, and then all
                        // answers leave together: an answer wakes its reader, which would take the
                        // processor from the requests that remain.
                        tokio::task::yield_now().await;
                    }
                    self.send().await?;
                    self.forget_consumed();
                    let is_over = self.has_stopped() || !self.read(stopped.as_mut(), &mut silence).await?;
                    if is_over && self.may_leave() {
                        return self.leave().await;
                    }
                    if is_over && !self.read_first().await? {
                        return Ok(Ended::Closed);
                    }
                    if !self.may_keep(self.input.len()) {
                        self.outgoing.refuse(SERVICE_UNAVAILABLE);
                        return self.close().await;
                    }
                }
            }
        }
    }

    fn has_stopped(&self) -> bool {
        !matches!(self.stop.has_changed(), Ok(false))
    }

    /// True if the layer ends and the connection may continue at another home. A body that was left
    /// out cannot be sent again.
    fn may_leave(&self) -> bool {
        let is_whole = self.gathered.as_ref().is_none_or(|gathered| gathered.body.is_some());
        self.has_stopped() && is_whole && self.peer.way_out.open().is_some()
    }

    /// Sends the finished answers, and gives the connection back with the other requests.
    async fn leave(mut self) -> io::Result<Ended<S>> {
        self.send().await?;
        self.forget_consumed();
        if let Some(Gathered { body: Some(body), .. }) = self.gathered.take() {
            self.input = with_body(&self.input, &body);
        }
        Ok(Ended::Leaves {
            socket: self.socket,
            input: self.input,
            is_new: !self.is_settled,
        })
    }

    /// Answers the request at the start of the input, if it is complete.
    fn look(&mut self) -> Next {
        while self.input[self.consumed..].starts_with(b"\r\n") {
            // Some old clients end a body with an empty line (RFC 9112, 2.2).
            self.consumed += 2;
            self.unfinished = UnfinishedHead::default();
        }
        let input = &self.input[self.consumed..];
        if !self.is_settled && speaks_http2(input) {
            return if input.len() < HTTP2_PREFACE.len() {
                Next::Read
            } else {
                Next::SpeaksHttp2
            };
        }
        if !self.unfinished.may_be_whole(input) {
            return Next::Read;
        }
        let mut room = [const { std::mem::MaybeUninit::uninit() }; HEADERS_MAX];
        let request = match framing::parse(input, &mut room) {
            Ok(Some(request)) => request,
            Ok(None) => return Next::Read,
            Err(refusal) => return Next::Refuse(refusal),
        };
        self.is_settled = true;
        self.unfinished = UnfinishedHead::default();
        self.head_deadline = None;
        let gathered = self.gathered.take();
        let behind_head = &input[request.head_bytes..];
        let (body, body_bytes) = match (&gathered, request.framing) {
            (Some(gathered), _) => (gathered.body.as_deref(), 0),
            (None, Framing::Length(length)) if length <= behind_head.len() as u64 => {
                let body = &behind_head[..length as usize];
                let fits = body.len() <= self.layer.body_bytes_max();
                (fits.then_some(body), body.len())
            }
            (None, framing) => {
                self.outgoing.arrivals = self.waiters.arrivals(Durability::Always);
                if let Err(answer) = self.judge_head(&request) {
                    let mut answer = judged(&*self.layer, &request.head, answer, &self.waiters);
                    self.peer.answered(&mut answer);
                    self.consumed += request.head_bytes;
                    return self.outgoing.answer(Writing::last_of(&request), answer);
                }
                return Next::Gather {
                    head_bytes: request.head_bytes,
                    framing,
                    expects_continue: request.expects_continue && behind_head.is_empty(),
                };
            }
        };
        let gave_up = gathered.as_ref().is_some_and(|gathered| gathered.gave_up);
        let writing = Writing {
            is_old: request.is_old,
            is_last: !request.keeps_alive || gave_up,
            is_head: request.head.method == "HEAD",
        };
        let span = self.peer.begin_span(&*self.layer, &request.head);
        let refused = match self.peer.is_stranger() {
            true => self.layer.refuse_stranger(&request.head),
            false => None,
        };
        self.outgoing.arrivals = self.waiters.arrivals(Durability::Always);
        let soon = refused.map_or_else(|| self.layer.dispatch(&request.head, body), Dispatch::Answered);
        let next = match soon {
            Dispatch::Answered(answer) => {
                let mut answer = judged(&*self.layer, &request.head, answer, &self.waiters);
                self.peer.answered(&mut answer);
                self.outgoing.spans.extend(self.peer.note_answer(span, &mut answer));
                self.outgoing.answer(writing, answer)
            }
            Dispatch::Busy(_) if self.has_stopped() => {
                self.gathered = gathered;
                if self.may_leave() {
                    return Next::Leave;
                }
                let answer = self.layer.answer_busy(&request.head);
                self.outgoing.answer(writing, answer)
            }
            Dispatch::Busy(partition) if self.busy_since.is_too_long(self.waiters.of(partition)) => {
                let answer = self.layer.answer_busy(&request.head);
                self.outgoing.answer(writing, answer)
            }
            Dispatch::Busy(partition) => {
                self.gathered = gathered;
                return Next::Wait(partition);
            }
            Dispatch::Later => {
                let long = Long::Everything(Kept::new(&request.head, body));
                Next::TakeLong { long, writing, span }
            }
            Dispatch::Elsewhere(elsewhere) => {
                let long = Long::Elsewhere(elsewhere);
                Next::TakeLong { long, writing, span }
            }
            Dispatch::Unfinished(scheduler_handle, work) => {
                let long = Long::Rest(scheduler_handle, work);
                Next::TakeLong { long, writing, span }
            }
        };
        self.busy_since = BusySince::default();
        self.consumed += request.head_bytes + body_bytes;
        next
    }

    /// Passes to the layer the head of a request whose body exceeds the limit of unauthenticated
    /// peers, or has no declared length. `Err`: the answer.
    fn judge_head(&self, request: &framing::Request<'_>) -> Result<(), Answer> {
        if matches!(request.framing, Framing::Length(bytes) if bytes <= STRANGER_BODY_BYTES_MAX) {
            return Ok(());
        }
        match self.layer.judge_head(&request.head) {
            HeadShows::Answer(answer) => return Err(answer),
            HeadShows::Credential => self.peer.permit.authenticated(),
            HeadShows::Name => {}
        }
        Ok(())
    }

    /// Reserves room for `bytes` of the peer's input. Returns false if there is none.
    fn may_keep(&mut self, bytes: usize) -> bool {
        self.kept.set(bytes, self.peer.is_stranger())
    }

    /// Drops what was answered from the input, and gives back what an unusually large request took.
    fn forget_consumed(&mut self) {
        if self.consumed == self.input.len() {
            self.input.clear();
        } else {
            self.input.drain(..self.consumed);
        }
        self.consumed = 0;
        self.input.shrink_to(4 * BUFFER_BYTES);
        self.kept.shrink_to(self.input.len());
    }

    /// Waits for more input. False if there will be none: the peer or the server goes, or nothing
    /// was said for too long.
    async fn read(
        &mut self,
        mut stopped: Pin<&mut impl Future<Output = ()>>,
        silence: &mut Silence,
    ) -> io::Result<bool> {
        if !self.input.is_empty() && self.head_deadline.is_none() {
            self.head_deadline = Some(Instant::now() + HEAD_TIMEOUT);
        }
        let mut stall = pin!(self.head_deadline.map(sleep_until));
        let mut arrival = pin!(self.read_more());
        let read = poll_fn(|context| {
            if let Poll::Ready(read) = arrival.as_mut().poll(context) {
                return Poll::Ready(read);
            }
            let stall = stall.as_mut().as_pin_mut();
            let is_stalled = stall.is_some_and(|stall| stall.poll(context).is_ready());
            let is_over = is_stalled || stopped.as_mut().poll(context).is_ready();
            if is_over || silence.poll_too_long(context).is_ready() {
                return Poll::Ready(Ok(0));
            }
            Poll::Pending
        });
        let count = read.await?;
        silence.is_broken = true;
        Ok(count > 0)
    }

    /// Waits for the first bytes of a peer that has connected while the server stops. False: it had
    /// a request before, or sends none in time.
    async fn read_first(&mut self) -> io::Result<bool> {
        if self.is_settled || !self.has_stopped() {
            return Ok(false);
        }
        match timeout_at(self.first_bytes_by, self.read_more()).await {
            Ok(count) => Ok(count? > 0),
            Err(_) => Ok(false),
        }
    }

    /// Allocates by received bytes, never by an announced length.
    async fn read_more(&mut self) -> io::Result<usize> {
        let least = match self.peer.is_stranger() {
            true => STRANGER_BUFFER_BYTES,
            false => BUFFER_BYTES,
        };
        self.input.reserve(least.max(self.input.len() / 2));
        self.socket.read_buf(&mut self.input).await
    }

    /// Reads a body that did not arrive together with its head, and removes it from the input.
    /// `Err`: the connection ends with this status.
    async fn gather(
        &mut self,
        head_bytes: usize,
        framing: Framing,
        expects_continue: bool,
    ) -> io::Result<Result<(), u16>> {
        if expects_continue {
            self.outgoing.bytes.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
        self.send().await?;
        self.forget_consumed();
        let mut reader = BodyReader::new(framing, self.layer.body_bytes_max());
        let started = Instant::now();
        loop {
            let piece = match reader.take(&self.input[head_bytes..]) {
                Ok(piece) => piece,
                Err(refusal) => return Ok(Err(refusal.status())),
            };
            self.input.drain(head_bytes..head_bytes + piece);
            let gave_up = reader.total > DISCARDED_BYTES_MAX;
            if reader.is_done() || gave_up {
                let body = (!reader.is_too_long()).then_some(reader.body);
                self.gathered = Some(Gathered { body, gave_up });
                return Ok(Ok(()));
            }
            if !self.may_keep(self.input.len() + reader.body.len()) {
                return Ok(Err(SERVICE_UNAVAILABLE));
            }
            match timeout_at(BODY_PACE.deadline(started, reader.total), self.read_more()).await {
                Ok(Ok(1..)) => {}
                Ok(Ok(_)) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(Err(error)) => return Err(error),
                Err(_) => return Ok(Err(REQUEST_TIMEOUT)),
            }
        }
    }

    /// Sends the output once everything it depends on is durable.
    async fn send(&mut self) -> io::Result<()> {
        if self.outgoing.bytes.is_empty() {
            return Ok(());
        }
        if !self.outgoing.pause.is_zero() {
            sleep(std::mem::take(&mut self.outgoing.pause)).await;
        }
        while let Some((partition, hold)) = self.outgoing.others.pop() {
            self.waiters.of(partition).released(hold).await?;
        }
        let waiters = self.waiters.of(self.outgoing.partition);
        if !waiters.is_settled(self.outgoing.hold) {
            waiters.settled(self.outgoing.hold).await?;
        }
        self.outgoing.hold.dependency = Dependency::ZERO;
        for span in self.outgoing.spans.drain(..) {
            self.peer.end_span(Some(span));
        }
        // Nearly always the socket takes it all at once, and no clock is needed.
        let (socket, output) = (&mut self.socket, &self.outgoing.bytes);
        let first = sent_at_once(output);
        let sent = poll_fn(|context| match Pin::new(&mut *socket).poll_write(context, first) {
            Poll::Pending => Poll::Ready(Ok(0)),
            sent => sent,
        });
        let sent = sent.await?;
        if sent < self.outgoing.bytes.len() {
            let _unsent = input_budget::unsent(self.outgoing.bytes.len(), &self.peer.memory);
            self.outgoing.kept.clear();
            ANSWER_PACE
                .write_all(&mut self.socket, &self.outgoing.bytes[sent..])
                .await?;
        }
        self.socket.flush().await?;
        self.outgoing.bytes.clear();
        self.outgoing.bytes.shrink_to(4 * BUFFER_BYTES);
        self.outgoing.kept.clear();
        Ok(())
    }

    /// Answers a request on a thread that may wait. Earlier answers leave first. Returns false if
    /// that was the last.
    async fn take_long(&mut self, long: Long, writing: Writing, span: Option<UnderWay>) -> io::Result<bool> {
        self.send().await?;
        let (layer, stop) = (self.layer.clone(), self.stop.clone());
        match take_long(layer, long, &self.peer, &self.waiters, self.woken.clone(), stop).await? {
            Err(mut answer) => {
                self.peer.answered(&mut answer);
                self.outgoing.spans.extend(self.peer.note_answer(span, &mut answer));
                self.outgoing.answer(writing, answer);
                Ok(!writing.is_last)
            }
            Ok((status, headers, follower)) => {
                self.peer.permit.authenticated();
                self.peer.end_span(span);
                self.outgoing.begin(writing, status, &headers);
                self.follow(follower, !writing.is_old).await?;
                Ok(!writing.is_last && !writing.is_old)
            }
        }
    }

    /// Sends what a follower has, until it ends, the peer goes or the server stops.
    async fn follow(&mut self, mut follower: Box<dyn Follower>, is_chunked: bool) -> io::Result<()> {
        self.forget_consumed();
        let mut stop = self.stop.clone();
        loop {
            match follower.next() {
                Following::End => break,
                Following::Send(part) => write_part(&part, is_chunked, &mut self.outgoing.bytes),
                Following::Wait(dependency) => self.waiters.of(follower.partition()).durable(dependency).await?,
                Following::Busy => self.waiters.of(follower.partition()).free().await,
                Following::Idle => {
                    self.send().await?;
                    tokio::select! {
                        () = self.woken.notified() => {}
                        _ = stop.wait_for(|stopped| *stopped) => break,
                        read = self.socket.read_buf(&mut self.input) => self.overhear(read?)?,
                    }
                }
            }
            if self.outgoing.bytes.len() >= BUFFER_BYTES {
                self.send().await?;
            }
        }
        if is_chunked {
            self.outgoing.bytes.extend_from_slice(b"0\r\n\r\n");
        }
        self.send().await
    }

    /// A peer that reads a streaming answer sends little; its bytes are kept for later.
    fn overhear(&self, count: usize) -> io::Result<()> {
        match count {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ if self.input.len() > framing::HEAD_BYTES_MAX => Err(io::ErrorKind::InvalidData.into()),
            _ => Ok(()),
        }
    }

    /// Sends what is left and closes. A socket closed with unread input would be reset, and the
    /// peer might not see the answer.
    async fn close(mut self) -> io::Result<Ended<S>> {
        self.send().await?;
        self.socket.shutdown().await?;
        let mut discarded = [0; 4096];
        let drained = async {
            let mut budget = DISCARDED_BYTES_MAX;
            while let Ok(count @ 1..) = self.socket.read(&mut discarded).await {
                budget = budget.saturating_sub(count as u64);
                if budget == 0 {
                    break;
                }
            }
        };
        let _ = timeout(LINGER_TIMEOUT, drained).await;
        Ok(Ended::Closed)
    }
}

/// The request at the start of `input` with its body, which was gathered apart, in its place.
fn with_body(input: &[u8], body: &[u8]) -> Vec<u8> {
    let mut room = [const { std::mem::MaybeUninit::uninit() }; HEADERS_MAX];
    let parsed = framing::parse(input, &mut room);
    let Ok(Some(request)) = parsed else {
        return input.to_vec();
    };
    let (head, behind) = input.split_at(request.head_bytes);
    let mut whole = head.to_vec();
    match request.framing {
        Framing::Length(_) => whole.extend_from_slice(body),
        Framing::Chunked => {
            write_part(body, true, &mut whole);
            whole.extend_from_slice(b"0\r\n\r\n");
        }
    }
    whole.extend_from_slice(behind);
    whole
}

/// A head that arrives in pieces, so that it is parsed once for each of its lines and not once for
/// each piece.
#[derive(Default)]
struct UnfinishedHead {
    /// The bytes of it that were parsed before its end was missing.
    parsed_bytes: usize,
}

impl UnfinishedHead {
    /// Returns false if it is still incomplete, because none of its lines has ended since the last
    /// parse. `input` starts with the head.
    fn may_be_whole(&mut self, input: &[u8]) -> bool {
        let fresh = input.get(self.parsed_bytes..).unwrap_or_default();
        let may_be = self.parsed_bytes == 0 || input.len() >= HEAD_BYTES_MAX || fresh.contains(&b'\n');
        self.parsed_bytes = input.len();
        may_be
    }
}

const REQUEST_TIMEOUT: u16 = 408;
const SERVICE_UNAVAILABLE: u16 = 503;

/// Returns true if the received bytes match the start of HTTP/2 so far.
fn speaks_http2(input: &[u8]) -> bool {
    let seen = input.len().min(HTTP2_PREFACE.len());
    seen > 0 && input[..seen] == HTTP2_PREFACE[..seen]
}

/// Notices a peer that says nothing through a whole turn of one clock, so that a request costs no
/// clock of its own.
struct Silence {
    peer: Peer,
    turn: Pin<Box<tokio::time::Sleep>>,
    is_broken: bool,
}

impl Silence {
    fn new(peer: Peer) -> Silence {
        Silence {
            turn: Box::pin(sleep(peer.idle_timeout())),
            peer,
            is_broken: false,
        }
    }

    fn poll_too_long(&mut self, context: &mut std::task::Context<'_>) -> Poll<()> {
        while self.turn.as_mut().poll(context).is_ready() {
            if !std::mem::take(&mut self.is_broken) {
                return Poll::Ready(());
            }
            let next = Instant::now() + self.peer.idle_timeout();
            self.turn.as_mut().reset(next);
        }
        Poll::Pending
    }
}

/// How the answer to one request is written.
#[derive(Clone, Copy)]
struct Writing {
    is_old: bool,
    is_last: bool,
    is_head: bool,
}

impl Writing {
    /// The connection ends with the answer, because the request is not read to its end.
    fn last_of(request: &framing::Request<'_>) -> Writing {
        Writing {
            is_old: request.is_old,
            is_last: true,
            is_head: request.head.method == "HEAD",
        }
    }
}

/// An answer to a request of HTTP/1.1, as its bytes.
pub struct Written {
    pub bytes: Vec<u8>,
    /// Counts them until they are sent.
    _kept: Option<Reserved>,
}

/// Writes an answer that may leave, outside of a [`Connection`].
pub fn written(mut answer: Answer, is_last: bool) -> Written {
    let kept = answer.kept.take();
    let mut outgoing = Outgoing::default();
    let writing = Writing {
        is_old: false,
        is_last,
        is_head: false,
    };
    outgoing.answer(writing, answer);
    Written {
        bytes: outgoing.bytes,
        _kept: kept,
    }
}

impl Outgoing {
    /// Nothing more is answered before this is sent.
    fn is_due(&self) -> bool {
        self.bytes.len() >= OUTPUT_BYTES_FLUSH || !self.pause.is_zero()
    }

    /// Appends a whole answer.
    fn answer(&mut self, writing: Writing, answer: Answer) -> Next {
        if answer.is_of_the_node && answer.dependency == Dependency::ZERO {
            // Those before it wait for what they rest on.
            if self.bytes.is_empty() {
                self.hold.arrival = Arrival::of_the_node();
            }
        } else {
            self.hold_for(&answer);
        }
        self.pause = self.pause.max(answer.pause);
        write_head(answer.status, &answer.headers, &mut self.bytes);
        self.write_connection(writing.is_old, writing.is_last);
        self.write_body(&answer, !writing.is_head);
        self.kept.extend(answer.kept);
        if writing.is_last { Next::Close } else { Next::Answered }
    }

    /// Notes what an answer rests on.
    fn hold_for(&mut self, answer: &Answer) {
        if answer.partition != self.partition {
            if !self.bytes.is_empty() {
                self.others.push((self.partition, self.hold));
            }
            self.partition = answer.partition;
            self.hold.dependency = Dependency::ZERO;
        }
        self.hold.dependency = self.hold.dependency.max(answer.dependency);
        self.hold.arrival = self.arrivals.of(self.partition);
    }

    /// Appends the head of an answer that lasts until its last chunk, or until the connection
    /// ends.
    fn begin(&mut self, writing: Writing, status: u16, headers: &Headers) {
        write_head(status, headers, &mut self.bytes);
        self.write_connection(writing.is_old, writing.is_last || writing.is_old);
        if !writing.is_old {
            write_header("transfer-encoding", "chunked", &mut self.bytes);
        }
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// Appends an answer that ends the connection, to something that may be no request.
    fn refuse(&mut self, status: u16) {
        let writing = Writing {
            is_old: false,
            is_last: true,
            is_head: false,
        };
        let answer = Answer {
            is_of_the_node: true,
            ..Answer::settled(status, "")
        };
        self.answer(writing, answer);
    }

    fn write_connection(&mut self, is_old: bool, is_last: bool) {
        match (is_old, is_last) {
            (_, true) => write_header("connection", "close", &mut self.bytes),
            (true, false) => write_header("connection", "keep-alive", &mut self.bytes),
            (false, false) => {}
        }
    }

    /// Ends the head, and appends the body unless the request was only for the head.
    fn write_body(&mut self, answer: &Answer, is_wanted: bool) {
        let out = &mut self.bytes;
        if is_bodiless(answer.status) {
            return out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"content-length: ");
        write_decimal(answer.body.len(), out);
        out.extend_from_slice(b"\r\n\r\n");
        if is_wanted {
            out.extend_from_slice(&answer.body);
        }
    }
}

/// The first line and the headers that do not depend on the connection.
fn write_head(status: u16, headers: &Headers, out: &mut Vec<u8>) {
    out.extend_from_slice(b"HTTP/1.1 ");
    write_decimal(status.into(), out);
    out.push(b' ');
    let status_code = hyper::StatusCode::from_u16(status).ok();
    let reason = status_code.and_then(|status| status.canonical_reason());
    out.extend_from_slice(reason.unwrap_or_default().as_bytes());
    out.extend_from_slice(b"\r\n");
    // Values written in the program need no check.
    let is_fit = |value: &Cow<'_, str>| matches!(value, Cow::Borrowed(_)) || is_header_value(value);
    for (name, value) in headers.iter().filter(|(_, value)| is_fit(value)) {
        write_header(name, value, out);
    }
    write_date(out);
}

fn write_header(name: &str, value: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value.as_bytes());
    out.extend_from_slice(b"\r\n");
}

fn write_part(part: &[u8], is_chunked: bool, out: &mut Vec<u8>) {
    // A chunk of nothing would be the last.
    if part.is_empty() {
        return;
    }
    if is_chunked {
        out.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
    }
    out.extend_from_slice(part);
    if is_chunked {
        out.extend_from_slice(b"\r\n");
    }
}

fn write_decimal(number: usize, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut start = digits.len();
    let mut remaining = number;
    loop {
        start -= 1;
        digits[start] = b'0' + (remaining % 10) as u8;
        remaining /= 10;
        if remaining == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[start..]);
}

/// The Date header, formatted once a second.
fn write_date(out: &mut Vec<u8>) {
    thread_local! {
        static WRITTEN: std::cell::RefCell<(u64, String)> = const { std::cell::RefCell::new((0, String::new())) };
    }
    let now = SystemTime::now();
    let seconds = now
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    WRITTEN.with_borrow_mut(|(written, line)| {
        if *written != seconds || line.is_empty() {
            *written = seconds;
            *line = format!("date: {}\r\n", httpdate::fmt_http_date(now));
        }
        out.extend_from_slice(line.as_bytes());
    });
}

#[cfg(test)]
mod tests;
