//! One Redis connection: the loop between its socket and its session.
//!
//! Per readiness one read, all complete requests executed, one write. The read buffer grows as
//! bytes arrive, never by an announced length. A peer that sends without reading is read from while
//! its replies are unsent, up to a limit: many clients send a whole pipeline before they read the
//! first reply. Nothing of that is executed before the replies have left. A connection that has
//! been idle for a while holds no buffers at all.

mod after;
mod executing;
mod other_home;
mod sending;
mod socket;

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use quartet_engine::{Busy, PartitionId};
use quartet_layer_redis::{Client, Counted, Redis, Session};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use self::socket::Socket;
use super::{Conversations, REST_AFTER, Takes};
use crate::connections::durability::{DurableWaiters, Hold, ThreadWaiters};
use crate::connections::handoff::{Arrival, IoThread};
use crate::connections::tls::{TlsEntrance, Transport};
use crate::connections::waker::ConnectionWaker;
use crate::layers::parts::WayOut;
use crate::limits::connection_limit::Permit;
use crate::limits::unauthenticated_input::StrangerInput;
use crate::settings::Settings;
use crate::tenants::Tenants;
use crate::tenants::turns::FairShare;

/// Size that a connection's buffers shrink back to once they are empty.
const BUFFER_BYTES: usize = 16 * 1024;
/// Replies larger than this are sent before the next request is executed.
const OUTPUT_BYTES_FLUSH: usize = 1 << 20;
/// Interval at which WAIT checks the number of replicas.
const REPLICA_LOOK: Duration = Duration::from_millis(5);
/// Requests that took less are answered together with those of other connections. Waking a peer
/// takes about a tenth of it.
const BRIEF: Duration = Duration::from_micros(40);
/// Time limit of TLS's closing.
const FAREWELL_TIMEOUT: Duration = Duration::from_secs(1);

/// A connection on its way to its I/O thread. The layer knows it from the moment of its acceptance,
/// so any later list of clients contains it.
pub(super) struct Accepted {
    pub(super) socket: std::net::TcpStream,
    pub(super) peer: SocketAddr,
    /// The other end of the socket, which may be a node that passes the client on.
    pub(super) from: SocketAddr,
    /// The state of a session that has left another home; empty for a new one.
    pub(super) state: Vec<u8>,
    pub(super) way_out: WayOut,
    pub(super) client: Arc<Client>,
    pub(super) connection_waker: Arc<ConnectionWaker>,
    pub(super) permit: Permit,
    pub(super) stranger_input: StrangerInput,
    pub(super) tls: Option<TlsEntrance>,
    pub(super) takes: Takes,
    pub(super) layer: Arc<Redis>,
    pub(super) conversations: Arc<Conversations>,
    pub(super) tenants: Arc<Tenants>,
    pub(super) settings: Arc<Settings>,
}

impl Arrival for Accepted {
    fn start(self: Box<Self>, thread: &IoThread, tasks: &mut JoinSet<()>) {
        let serving = serve(*self, thread.waiters.clone(), thread.stop.clone());
        tasks.spawn(thread.turns.with(serving));
    }
}

/// Serves a connection until either side closes it. A disconnected peer is no event; everything
/// else was answered on the wire.
async fn serve(accepted: Accepted, waiters: ThreadWaiters, stop: watch::Receiver<bool>) {
    let _ = serve_opened(accepted, waiters, stop).await;
}

async fn serve_opened(accepted: Accepted, waiters: ThreadWaiters, stop: watch::Receiver<bool>) -> io::Result<()> {
    let (layer, settings) = (accepted.layer, accepted.settings);
    let must_authenticate_by = Instant::now() + settings.connections.authentication_timeout;
    let session = match accepted.state.as_slice() {
        [] => Session::new(layer.clone(), accepted.client),
        state => match arrived(&layer, &accepted.client, state, &stop).await {
            Some(session) => session,
            None => return Ok(()),
        },
    };
    let mut connection = Connection {
        session,
        peer: accepted.peer,
        from: accepted.from,
        way_out: accepted.way_out,
        memory: Counted::new(layer.connections.clients.memory.clone(), 0),
        layer,
        conversations: accepted.conversations,
        scheduler_handle: FairShare::new(accepted.tenants, None),
        settings,
        waiters: waiters.of(PartitionId(0)).clone(),
        partition: PartitionId(0),
        thread_waiters: waiters,
        stop,
        connection_waker: accepted.connection_waker,
        permit: accepted.permit,
        stranger_input: accepted.stranger_input,
        input: Vec::new(),
        consumed: 0,
        output: Vec::new(),
        is_resting: false,
        hold: Hold::default(),
    };
    if !accepted.state.is_empty() {
        connection.follow_session();
        connection.enter_partition();
        // Mail may be sent before the first request: it belongs to this home's term.
        connection.hold.arrival = connection.waiters.arrival(connection.layer.space.durability);
    }
    let socket = TcpStream::from_std(accepted.socket)?;
    // A session from another home is clear text, and its client may never send a first byte.
    let tls = accepted.tls.filter(|_| accepted.state.is_empty());
    let opening = open(socket, tls, accepted.takes);
    match connection.wait_for(opening, must_authenticate_by).await? {
        Transport::Clear(socket) => connection.run(socket, must_authenticate_by).await,
        Transport::Encrypted(stream) => connection.run(stream, must_authenticate_by).await,
    }
}

/// Continues a session that has left another home. `None`: what it needs is not there any more.
async fn arrived(
    layer: &Arc<Redis>,
    client: &Arc<Client>,
    state: &[u8],
    stop: &watch::Receiver<bool>,
) -> Option<Session> {
    while !*stop.borrow() {
        match Session::arrive(layer, client.clone(), state) {
            Ok(session) => return session,
            Err(Busy) => tokio::time::sleep(REPLICA_LOOK).await,
        }
    }
    None
}

/// Finds out whether the peer wants TLS. A connection that needs no password may wait for its first
/// byte indefinitely.
async fn open(socket: TcpStream, tls: Option<TlsEntrance>, takes: Takes) -> io::Result<Transport> {
    match tls {
        None if takes == Takes::TlsOnly => Err(io::ErrorKind::ConnectionRefused.into()),
        None => Ok(Transport::Clear(socket)),
        Some(tls) if takes == Takes::TlsOnly || tls.is_asked_for(&socket).await? => {
            Ok(Transport::Encrypted(tls.shake_hands(socket).await?))
        }
        Some(_) => Ok(Transport::Clear(socket)),
    }
}

/// A connection without its socket, which is of one kind or the other.
struct Connection {
    session: Session,
    /// The layer of the logical database that the connection is in.
    layer: Arc<Redis>,
    conversations: Arc<Conversations>,
    scheduler_handle: FairShare,
    settings: Arc<Settings>,
    /// Those for the partition of the database.
    waiters: DurableWaiters,
    /// That one.
    partition: PartitionId,
    thread_waiters: ThreadWaiters,
    stop: watch::Receiver<bool>,
    connection_waker: Arc<ConnectionWaker>,
    permit: Permit,
    /// The peer's input before it has authenticated.
    stranger_input: StrangerInput,
    /// The size of its buffers and its queue.
    memory: Counted,
    input: Vec<u8>,
    /// Bytes of `input` that are done with.
    consumed: usize,
    output: Vec<u8>,
    /// It has no buffers, and looks whether there is something to read before it takes one.
    is_resting: bool,
    /// The output may be sent on this condition.
    hold: Hold,
    peer: SocketAddr,
    /// The other end of the socket.
    from: SocketAddr,
    way_out: WayOut,
}

/// The next step of a connection.
enum Step {
    /// Executes further received requests.
    Continue,
    /// Waits for the next event.
    Wait,
    /// Leaves for the next home, where this request is received first: its wait was cut short.
    Leave { request: Vec<u8> },
    /// Sends the replies and closes.
    Close,
}

/// Why the loop woke up.
#[derive(Clone, Copy)]
enum Event {
    Input(usize),
    /// A resting connection has something to read.
    Readable,
    /// Another thread left something: mail, or a request to end the connection.
    Rung,
    Deadline,
    /// The peer has said nothing, or not its password, for too long.
    Silence,
}

impl Connection {
    /// Waits for the transport, unless the connection is killed, the server stops, or an
    /// unauthenticated peer takes too long.
    async fn wait_for(
        &mut self,
        opening: impl Future<Output = io::Result<Transport>>,
        must_authenticate_by: Instant,
    ) -> io::Result<Transport> {
        let mut opening = pin!(opening);
        let owes_password = !self.session.is_authenticated();
        let mut too_late = pin!(owes_password.then(|| tokio::time::sleep_until(must_authenticate_by)));
        poll_fn(|context| {
            if let Poll::Ready(opened) = opening.as_mut().poll(context) {
                return Poll::Ready(opened);
            }
            while self.connection_waker.poll_signalled(context).is_ready() {
                if self.session.client().killed.load(Ordering::SeqCst) || *self.stop.borrow() {
                    return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
                }
            }
            match too_late.as_mut().as_pin_mut().map(|sleep| sleep.poll(context)) {
                Some(Poll::Ready(())) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
                _ => Poll::Pending,
            }
        })
        .await
    }

    async fn run(mut self, mut socket: impl Socket, must_authenticate_by: Instant) -> io::Result<()> {
        loop {
            let event = self.wait(&mut socket, must_authenticate_by).await?;
            let began = Instant::now();
            match event {
                Event::Input(0) | Event::Silence => return Ok(()),
                Event::Input(count) => {
                    self.note_input(count);
                    self.note_buffers();
                }
                Event::Readable => {
                    self.is_resting = false;
                    continue;
                }
                Event::Rung if *self.stop.borrow() => return self.leave(socket, None).await,
                Event::Rung => {
                    self.collect_mail();
                    self.rest_if_idle();
                }
                Event::Deadline => {
                    self.session.time_out();
                    self.collect_mail();
                }
            }
            // Mail needs no turn of its own: its sender has had one.
            let is_mail_alone = matches!(event, Event::Rung) && self.consumed == self.input.len();
            let step = match is_mail_alone {
                true => Step::Wait,
                false => self.execute(&mut socket).await?,
            };
            if self.permit.is_stranger() && !self.may_stay_a_stranger() {
                return Ok(());
            }
            if self.has_too_much_output() {
                return Ok(());
            }
            self.note_buffers();
            if !is_mail_alone && !self.waiters.is_alone() && began.elapsed() < BRIEF {
                // All requests that have arrived on this thread are executed, then all replies
                // leave: the peer wakes once for many, writes of many wait for one sync, and code
                // and data stay in the caches. A reply that took longer leaves at once: its peer
                // can continue in parallel with this thread.
                tokio::task::yield_now().await;
            }
            self.send(&mut socket).await?;
            let is_killed = self.session.client().killed.load(Ordering::SeqCst);
            match step {
                Step::Close => return farewell(socket).await,
                _ if is_killed => return farewell(socket).await,
                Step::Leave { request } => return self.leave(socket, Some(request)).await,
                Step::Continue | Step::Wait => {}
            }
        }
    }

    /// Sleeps until there is something to do. A blocked session is still read from, to notice that
    /// its peer left.
    async fn wait(&mut self, socket: &mut impl Socket, must_authenticate_by: Instant) -> io::Result<Event> {
        let (deadline, event) = match self.session.deadline_ms() {
            Some(deadline_ms) => (Some(self.instant(deadline_ms)), Event::Deadline),
            None => (self.silence_ends(must_authenticate_by), Event::Silence),
        };
        if !self.is_resting && self.input.capacity() - self.input.len() < BUFFER_BYTES / 4 {
            self.input.reserve(BUFFER_BYTES.max(self.input.len()));
        }
        let may_read = !self.session.is_blocked() || self.input.len() < self.request_bytes_max();
        let (input, is_resting) = (&mut self.input, self.is_resting);
        let mut arrival = pin!(async move {
            if is_resting {
                socket.arrival().await.map(|()| Event::Readable)
            } else {
                socket.read_buf(input).await.map(Event::Input)
            }
        });
        let connection_waker = &self.connection_waker;
        let mut sleep = pin!(deadline.map(tokio::time::sleep_until));
        // Once for every request, so nothing is registered that is not needed: most connections
        // have no deadline.
        poll_fn(|context| {
            if may_read && let Poll::Ready(arrived) = arrival.as_mut().poll(context) {
                return Poll::Ready(arrived);
            }
            if connection_waker.poll_signalled(context).is_ready() {
                return Poll::Ready(Ok(Event::Rung));
            }
            let sleep = sleep.as_mut().as_pin_mut();
            match sleep.map(|sleep| sleep.poll(context)) {
                Some(Poll::Ready(())) => Poll::Ready(Ok(event)),
                _ => Poll::Pending,
            }
        })
        .await
    }

    fn instant(&self, time_ms: u64) -> Instant {
        let now_ms = self.layer.engine.now_micros() / 1000;
        Instant::now() + Duration::from_millis(time_ms.saturating_sub(now_ms))
    }

    /// The time at which a silent peer is disconnected: an unauthenticated peer, or any peer if
    /// `timeout` is set.
    fn silence_ends(&self, must_authenticate_by: Instant) -> Option<Instant> {
        if !self.session.is_authenticated() {
            return Some(must_authenticate_by);
        }
        let seconds = self.layer.config.timeout.load(Ordering::Relaxed) as u64;
        if seconds == 0 || self.session.may_idle() {
            return None;
        }
        let active_micros = self.session.client().last_active_micros.load(Ordering::Relaxed);
        Some(self.instant(active_micros / 1000 + seconds * 1000))
    }

    fn note_input(&self, count: usize) {
        let statistics = &self.layer.observation.statistics;
        statistics.bytes_read.fetch_add(count as u64, Ordering::Relaxed);
        statistics.reads.fetch_add(1, Ordering::Relaxed);
        // Every command notes when it ran; only a limit on silence needs to know of parts of
        // commands.
        if self.layer.config.timeout.load(Ordering::Relaxed) > 0 {
            let active = &self.session.client().last_active_micros;
            active.store(self.layer.engine.now_micros(), Ordering::Relaxed);
        }
    }

    /// Publishes the sizes of the buffers to other threads.
    fn note_buffers(&mut self) {
        let buffers = &self.session.client().buffers;
        let input = self.input.len() - self.consumed;
        buffers.input.store(input, Ordering::Relaxed);
        let free = self.input.capacity() - self.input.len();
        buffers.input_free.store(free, Ordering::Relaxed);
        buffers.output.store(self.output.len(), Ordering::Relaxed);
        let queue = buffers.queue.load(Ordering::Relaxed);
        let words = self.session.words_bytes();
        self.memory
            .set_roughly(self.input.capacity() + words + self.output.capacity() + queue);
        buffers.owned.store(self.memory.bytes(), Ordering::Relaxed);
    }

    /// Takes over the counting of replies that are not small.
    fn count_replies(&mut self) {
        if let Some(unsent) = self.session.take_unsent() {
            self.note_buffers();
            drop(unsent);
        }
    }

    /// Gives the buffers back if the peer has been silent for a while. Ten thousand idle
    /// connections would hold on to 160 MB.
    fn rest_if_idle(&mut self) {
        let active_micros = self.session.client().last_active_micros.load(Ordering::Relaxed);
        let idle_micros = self.layer.engine.now_micros().saturating_sub(active_micros);
        let is_empty = self.input.len() == self.consumed && self.output.is_empty();
        if is_empty && idle_micros >= REST_AFTER.as_micros() as u64 {
            (self.input, self.output, self.consumed) = (Vec::new(), Vec::new(), 0);
            self.session.rest();
            self.note_buffers();
            self.is_resting = true;
        }
    }

    /// Returns true if an unauthenticated peer is within its limit of bytes. An authenticated peer
    /// is no longer limited.
    fn may_stay_a_stranger(&mut self) -> bool {
        if self.session.is_authenticated() {
            self.permit.authenticated();
            return self.stranger_input.set(0);
        }
        self.stranger_input.set(self.input.len() - self.consumed)
    }

    fn request_bytes_max(&self) -> usize {
        self.layer.config.client_query_buffer_limit.load(Ordering::Relaxed) as usize
    }

    fn collect_mail(&mut self) {
        let dependency = self.session.drain_mailbox(&mut self.output);
        self.hold.dependency = self.hold.dependency.max(dependency);
        if self.session.client().has_mail() {
            // The rest is for when this is sent.
            self.connection_waker.signal();
        }
    }
}

async fn farewell(mut socket: impl Socket) -> io::Result<()> {
    tokio::time::timeout(FAREWELL_TIMEOUT, socket.shutdown()).await?
}

/// Makes room for more input, if the process has memory for it.
fn has_room_to_read(input: &mut Vec<u8>, memory: &mut Counted) -> bool {
    if input.capacity() - input.len() >= BUFFER_BYTES / 4 {
        return true;
    }
    let more = BUFFER_BYTES.max(input.len());
    let has_room = memory.try_set(memory.bytes() + more);
    if has_room {
        input.reserve_exact(more);
    }
    has_room
}
