//! One Redis connection: the loop between its socket and its session.
//!
//! Per readiness one read, all complete requests executed, one write. The read buffer grows as
//! bytes arrive, never by an announced length; a peer that sends without reading is not read from
//! while its replies are unsent. A connection that has been idle for a while holds no buffers at
//! all.

pub(crate) mod migration;
pub(crate) mod opening;
pub(crate) mod rdb_file;
pub(crate) mod replica_of;
pub(crate) mod replicas;
pub(crate) mod sentinel;
pub(crate) mod users;

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::Duration;

use quartet_engine::{Dependency, Durability, PartitionId};
use quartet_layer_redis::After;
use quartet_layer_redis::Client;
use quartet_layer_redis::Counted;
use quartet_layer_redis::DatabaseLogin;
use quartet_layer_redis::Deferred;
use quartet_layer_redis::LongRun;
use quartet_layer_redis::Made;
use quartet_layer_redis::command::migration::{Broken, Migration};
use quartet_layer_redis::replication::ReplicaRequest;
use quartet_layer_redis::{Redis, Session};
use quartet_wire_resp::{Protocol, Reply};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::connections::accept::{Admitting, Entrance};
use crate::connections::durability::{DurableWaiters, Hold, ThreadWaiters};
use crate::connections::handoff::{Arrival, IoThread};
use crate::connections::stream::exchange;
use crate::connections::tls::{Encrypted, Speaks, Tls, TlsEntrance, Transport};
use crate::connections::waker::{ConnectionWaker, ThreadWaker};
use crate::limits::connection_limit::{ConnectionLimit, Permit, Place};
use crate::limits::transfer_deadline::{OUTPUT_BYTES_PER_SECOND_MIN, Pace, sent_at_once};
use crate::limits::unauthenticated_input::{StrangerBytes, StrangerInput};
use crate::redis::migration::Migrations;
use crate::redis::replica_of::ReplicaOf;
use crate::redis::replicas::Serving;
use crate::settings::Settings;
use crate::tenants::Tenants;
use crate::tenants::turns::FairShare;

/// Size that a connection's buffers shrink back to once they are empty.
const BUFFER_BYTES: usize = 16 * 1024;
/// Replies larger than this are sent before the next request is executed.
const OUTPUT_BYTES_FLUSH: usize = 1 << 20;
/// Time for which a migration waits for a script that holds the lock before it checks again.
const BUSY_RETRY: Duration = Duration::from_millis(20);
/// Interval at which WAIT checks the number of replicas.
const REPLICA_LOOK: Duration = Duration::from_millis(5);
/// A connection that was silent for so long gives its buffers back until it speaks again.
const REST_AFTER: Duration = Duration::from_secs(2);
/// Requests that took less are answered together with those of other connections. Waking a peer
/// takes about a tenth of it.
const BRIEF: Duration = Duration::from_micros(40);
/// Time limit of TLS's closing.
const FAREWELL_TIMEOUT: Duration = Duration::from_secs(1);

/// Makes the connections that are idle give their buffers back, and closes listeners that have not
/// read for too long.
pub fn tidy(layer: &Redis) {
    let rest_micros = REST_AFTER.as_micros() as u64;
    let now_micros = layer.engine.now_micros();
    layer
        .connections
        .clients
        .wake_idle(now_micros.saturating_sub(rest_micros));
    layer.enforce_soft_limits();
}

/// The protocols that the peers of a listener may speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// Clear text, and TLS beside it if there is a certificate.
    Both,
    TlsOnly,
}

/// With other servers of Redis' protocol.
#[derive(Default)]
pub struct Conversations {
    pub migrations: Migrations,
    /// The server that the default database is a replica of.
    pub replica_of: ReplicaOf,
}

/// The way in for clients that another home passes on.
pub const LISTENER: &str = "redis";

/// The answer to a client whose database currently has no home; clients retry.
const NO_HOME: &[u8] = b"-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.\r\n";

/// The answer to a client for which there is no place.
pub const NO_PLACE: &[u8] = b"-ERR max number of clients reached\r\n";

/// The way into Redis' layer.
pub struct RespEntrance {
    /// For the default database.
    pub layer: Arc<Redis>,
    pub conversations: Arc<Conversations>,
    pub tenants: Arc<Tenants>,
    pub settings: Arc<Settings>,
    pub limit: Arc<ConnectionLimit>,
    pub stranger_bytes: Arc<StrangerBytes>,
    pub tls: Arc<Tls>,
    pub takes: Takes,
}

impl Entrance for RespEntrance {
    fn admit<'e>(&'e self, socket: TcpStream, peer: SocketAddr, thread_waker: &'e Arc<ThreadWaker>) -> Admitting<'e> {
        Box::pin(async move {
            let Some(permit) = self.permit().await else {
                self.refuse(&socket);
                return Ok(None);
            };
            let accepted = self.accepted(socket, peer, permit, thread_waker.clone())?;
            Ok(Some(Box::new(accepted) as Box<dyn Arrival>))
        })
    }

    /// All connections check `stop` when woken.
    fn closed(&self) {
        self.layer.connections.clients.wake_all();
        self.tenants.wake_all();
    }
}

impl RespEntrance {
    async fn permit(&self) -> Option<Permit> {
        let connections = self.layer.connections.clients.count() + self.tenants.redis_connections();
        let connections_max = self.layer.config.maxclients.load(Ordering::Relaxed) as usize;
        match connections < connections_max {
            true => self.limit.admit(Place::Any).await,
            false => None,
        }
    }

    fn refuse(&self, socket: &TcpStream) {
        let statistics = &self.layer.observation.statistics;
        statistics.connections_rejected.fetch_add(1, Ordering::Relaxed);
        if self.takes == Takes::Both {
            // The peer may not be reading; it gets the error if its socket takes it at once.
            let _ = socket.try_write(NO_PLACE);
        }
    }

    fn accepted(
        &self,
        socket: TcpStream,
        peer: SocketAddr,
        permit: Permit,
        thread_waker: Arc<ThreadWaker>,
    ) -> io::Result<Accepted> {
        socket.set_nodelay(true)?;
        let (address, local) = (peer.to_string(), socket.local_addr()?.to_string());
        let connection_waker = Arc::new(ConnectionWaker::of(thread_waker));
        let waker = connection_waker.clone();
        let now_micros = self.layer.engine.now_micros();
        let clients = &self.layer.connections.clients;
        let client = clients.connect(address, local, now_micros, Arc::new(move || waker.signal()));
        if !self.layer.access.users.are_all_welcome() {
            let client = client.clone();
            permit.is_of_stranger(move || client.kill());
        }
        Ok(Accepted {
            socket: socket.into_std()?,
            client,
            connection_waker,
            permit,
            stranger_input: self.stranger_bytes.input(peer.ip()),
            tls: self.tls.entrance(Speaks::Other, peer.ip()),
            takes: self.takes,
            layer: self.layer.clone(),
            conversations: self.conversations.clone(),
            tenants: self.tenants.clone(),
            settings: self.settings.clone(),
        })
    }
}

/// A connection on its way to its I/O thread. The layer knows it from the moment of its acceptance,
/// so any later list of clients contains it.
struct Accepted {
    socket: std::net::TcpStream,
    client: Arc<Client>,
    connection_waker: Arc<ConnectionWaker>,
    permit: Permit,
    stranger_input: StrangerInput,
    tls: Option<TlsEntrance>,
    takes: Takes,
    layer: Arc<Redis>,
    conversations: Arc<Conversations>,
    tenants: Arc<Tenants>,
    settings: Arc<Settings>,
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
    let mut connection = Connection {
        session: Session::new(layer.clone(), accepted.client),
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
    let socket = TcpStream::from_std(accepted.socket)?;
    let opening = open(socket, accepted.tls, accepted.takes);
    match connection.wait_for(opening, must_authenticate_by).await? {
        Transport::Clear(socket) => connection.run(socket, must_authenticate_by).await,
        Transport::Encrypted(stream) => connection.run(stream, must_authenticate_by).await,
    }
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

/// Reads until the first reply of a home is whole. Returns its length.
async fn first_reply(home: &mut (impl AsyncRead + Unpin), replies: &mut Vec<u8>) -> io::Result<usize> {
    loop {
        match quartet_wire_resp::skip(replies) {
            Ok(Some(bytes)) => return Ok(bytes),
            Ok(None) => {}
            Err(_) => return Err(io::ErrorKind::InvalidData.into()),
        }
        if home.read_buf(replies).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// The transport of a connection.
trait Socket: AsyncRead + AsyncWrite + Unpin {
    /// Completes when there may be something to read; takes no buffer for it.
    fn arrival(&self) -> impl Future<Output = io::Result<()>>;

    /// Writes what can be written at once.
    fn write_now(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// The socket once more, for a thread of its own; none if what it carries is encrypted.
    fn again(&self) -> io::Result<Option<OwnedFd>>;
}

impl Socket for TcpStream {
    #[inline]
    fn arrival(&self) -> impl Future<Output = io::Result<()>> {
        self.readable()
    }

    #[inline]
    fn write_now(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.try_write(bytes)
    }

    fn again(&self) -> io::Result<Option<OwnedFd>> {
        self.as_fd().try_clone_to_owned().map(Some)
    }
}

impl Socket for Encrypted {
    fn arrival(&self) -> impl Future<Output = io::Result<()>> {
        // Called when a read has found nothing, so nothing that has arrived is waiting to be
        // decrypted.
        self.get_ref().0.socket().readable()
    }

    /// Encrypted bytes have to be flushed, which may have to wait.
    fn write_now(&mut self, _: &[u8]) -> io::Result<usize> {
        Ok(0)
    }

    fn again(&self) -> io::Result<Option<OwnedFd>> {
        Ok(None)
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
                Event::Rung if *self.stop.borrow() => return Ok(()),
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
            let close = !is_mail_alone && self.execute(&mut socket).await?;
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
            if close || self.session.client().killed.load(Ordering::SeqCst) {
                return tokio::time::timeout(FAREWELL_TIMEOUT, socket.shutdown()).await?;
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
        self.memory
            .set_roughly(self.input.capacity() + self.session.words_bytes() + self.output.capacity() + queue);
    }

    /// Gives the buffers back if the peer has been silent for a while. Ten thousand idle
    /// connections would hold on to 160 MB.
    fn rest_if_idle(&mut self) {
        let active_micros = self.session.client().last_active_micros.load(Ordering::Relaxed);
        let idle_micros = self.layer.engine.now_micros().saturating_sub(active_micros);
        let is_empty = self.input.len() == self.consumed && self.output.is_empty();
        if is_empty && idle_micros >= REST_AFTER.as_micros() as u64 {
            (self.input, self.output, self.consumed) = (Vec::new(), Vec::new(), 0);
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

    /// The replies exceed the hard limit of `client-output-buffer-limit`: the connection closes and
    /// sends none of them.
    fn has_too_much_output(&self) -> bool {
        let bytes_max = self.layer.config.output_bytes_max();
        bytes_max.is_some_and(|bytes_max| self.output.len() + self.session.lacking_bytes() > bytes_max)
    }

    /// Time for which the peer may leave replies unread.
    fn stall_timeout(&self) -> Duration {
        let number = |field: &std::sync::atomic::AtomicI64| field.load(Ordering::Relaxed) as u64;
        let config = &self.layer.config;
        let soft = number(&config.output_bytes_soft);
        if soft > 0 && self.output.len() as u64 > soft {
            let soft_timeout = Duration::from_secs(number(&config.output_soft_seconds));
            return soft_timeout.min(self.settings.connections.output_stall_timeout);
        }
        self.settings.connections.output_stall_timeout
    }

    fn collect_mail(&mut self) {
        let dependency = self.session.drain_mailbox(&mut self.output);
        self.hold.dependency = self.hold.dependency.max(dependency);
        if self.session.client().has_mail() {
            // The rest is for when this is sent.
            self.connection_waker.signal();
        }
    }

    /// Executes every complete received request. Returns true if the connection must be closed.
    async fn execute(&mut self, socket: &mut impl Socket) -> io::Result<bool> {
        loop {
            if let Some(pause) = self.scheduler_handle.pause() {
                tokio::time::sleep(pause).await;
            }
            let turn = self.scheduler_handle.begin();
            self.hold.arrival = self.waiters.arrival(self.layer.space.durability);
            let input = &self.input[self.consumed..];
            let received = self.session.receive_in_steps(input, &mut self.output);
            self.scheduler_handle.end(turn);
            self.consumed += received.consumed;
            self.hold.dependency = self.hold.dependency.max(received.dependency);
            if let Some((database_login, request_bytes)) = received.elsewhere {
                if self.go_elsewhere(socket, &database_login, request_bytes).await? {
                    return Ok(true);
                }
                continue;
            }
            if received.moved && self.follow_session() {
                // Replies and mail that are here rest on the partition that the session has left.
                while !self.output.is_empty() || self.session.client().has_mail() {
                    self.collect_mail();
                    self.send(socket).await?;
                }
                self.enter_partition();
                continue;
            }
            if received.moved && received.consumed == 0 {
                continue;
            }
            self.forget_consumed();
            match received.after {
                Some(After::Deferred(Deferred::Replicate(request))) => {
                    return self.serve_replica(socket, *request).await.map(|()| true);
                }
                Some(After::LongRun(run)) => self.run_long(socket, run).await,
                Some(after) => self.perform(after).await,
                None => {}
            }
            let is_over = received.close || self.session.is_ending();
            if self.has_too_much_output() || !self.complete_reply(socket).await? || is_over {
                return Ok(true);
            }
            if received.is_busy {
                self.send(socket).await?;
                self.waiters.free().await;
                if *self.stop.borrow() || self.session.client().killed.load(Ordering::SeqCst) {
                    return Ok(true);
                }
                continue;
            }
            let waiting_bytes = self.input.len() - self.consumed + self.session.words_bytes();
            if waiting_bytes > self.request_bytes_max() {
                self.replace_output_by("ERR Protocol error: request exceeds the maximum size");
                return Ok(true);
            }
            if received.consumed == 0 || self.consumed == self.input.len() || self.session.is_blocked() {
                return Ok(false);
            }
            if self.output.len() >= OUTPUT_BYTES_FLUSH {
                self.send(socket).await?;
            }
            // Other connections of this thread get their turn between two locks' worth of a long
            // pipeline.
            tokio::task::yield_now().await;
        }
    }

    /// Makes the parts that the newest reply lacks, and sends them meanwhile. Other connections of
    /// this thread get their turn between two steps. False if the disk did not return something,
    /// and the reply cannot be completed.
    async fn complete_reply(&mut self, socket: &mut impl Socket) -> io::Result<bool> {
        while self.session.lacks_parts() {
            if self.output.len() >= OUTPUT_BYTES_FLUSH {
                self.send(socket).await?;
            }
            tokio::task::yield_now().await;
            let turn = self.scheduler_handle.begin();
            let made = self.session.complete(&mut self.output);
            self.scheduler_handle.end(turn);
            if made == Made::Unreadable {
                self.output.clear();
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Forwards the connection to the home of another database's partition, which checks the
    /// credentials in the next request. False: they are wrong, the request is answered, and the
    /// connection remains. Otherwise it has ended.
    async fn go_elsewhere(
        &mut self,
        socket: &mut impl Socket,
        database_login: &DatabaseLogin,
        request_bytes: usize,
    ) -> io::Result<bool> {
        while !self.output.is_empty() || self.session.client().has_mail() {
            self.collect_mail();
            self.send(socket).await?;
        }
        // Subscriptions and the like cannot go along.
        if self.session.client().is_bound() {
            return Ok(true);
        }
        let tenants = self.scheduler_handle.tenants();
        let database = tenants.catalogue.numbered(database_login.database);
        let partition = database.and_then(|database| tenants.elsewhere(&database));
        let nodes = tenants.parts.nodes.as_ref().and_then(Weak::upgrade);
        let peer = self.session.client().address.parse();
        let (Some(partition), Some(nodes), Ok(peer)) = (partition, nodes, peer) else {
            return Ok(true);
        };
        // Another home of the catalogue may have newer information about the database's partition:
        // a refusal is sent only if this node is still home, at any durability.
        let arrival = self.waiters.arrival(Durability::Always);
        let introduction = self.session.introduction(database_login);
        let (request, behind) = self.input[self.consumed..].split_at(request_bytes);
        let (output, permit) = (&mut self.output, &self.permit);
        let conversing = async {
            let Ok(mut home) = nodes.call(partition, LISTENER, peer).await else {
                socket.write_all(NO_HOME).await?;
                return Ok(true);
            };
            let mut replies = Vec::new();
            if !introduction.is_empty() {
                home.write_all(&introduction).await?;
                home.flush().await?;
                let bytes = first_reply(&mut home, &mut replies).await?;
                replies.drain(..bytes);
            }
            home.write_all(request).await?;
            home.flush().await?;
            first_reply(&mut home, &mut replies).await?;
            if replies.starts_with(b"-") {
                output.append(&mut replies);
                return Ok(false);
            }
            permit.authenticated();
            socket.write_all(&replies).await?;
            socket.flush().await?;
            home.write_all(behind).await?;
            home.flush().await?;
            exchange(socket, home).await.map(|()| true)
        };
        let (connection_waker, client, mut stop) = (&self.connection_waker, self.session.client(), self.stop.clone());
        let killed = poll_fn(|context| {
            while connection_waker.poll_signalled(context).is_ready() {
                if client.killed.load(Ordering::SeqCst) {
                    return Poll::Ready(());
                }
            }
            Poll::Pending
        });
        let is_over = tokio::select! {
            conversed = conversing => conversed?,
            () = killed => true,
            _ = stop.wait_for(|stops| *stops) => true,
        };
        if !is_over {
            self.consumed += request_bytes;
            self.hold.arrival = arrival;
        }
        Ok(is_over)
    }

    /// Follows the session into another logical database. Returns true if that is in another
    /// partition.
    fn follow_session(&mut self) -> bool {
        self.layer = self.session.layer().clone();
        let database = self
            .scheduler_handle
            .tenants()
            .catalogue
            .numbered(self.layer.space.database);
        self.scheduler_handle.moved(database);
        self.partition != self.scheduler_handle.partition()
    }

    /// From here on replies depend on the partition of the session's database. No reply is waiting.
    fn enter_partition(&mut self) {
        debug_assert!(self.output.is_empty());
        self.partition = self.scheduler_handle.partition();
        self.waiters = self.thread_waiters.of(self.partition).clone();
        self.hold = Hold::default();
    }

    /// Drops what was executed from the input, and gives back what an unusually large request took.
    fn forget_consumed(&mut self) {
        if self.consumed == self.input.len() {
            self.input.clear();
            self.consumed = 0;
            if self.input.capacity() > 16 * BUFFER_BYTES {
                self.input = Vec::new();
            }
        } else if self.consumed >= 64 * BUFFER_BYTES {
            self.input.drain(..self.consumed);
            self.consumed = 0;
        }
    }

    /// Sends the output once everything it depends on is durable.
    async fn send(&mut self, socket: &mut impl Socket) -> io::Result<()> {
        if self.output.is_empty() {
            return Ok(());
        }
        if !self.waiters.is_settled(self.hold) {
            self.waiters.settled(self.hold).await?;
        }
        // Nearly always the socket takes it all at once, and no timer is needed.
        let sent = match socket.write_now(sent_at_once(&self.output)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            sent => sent?,
        };
        if sent < self.output.len() {
            self.send_slowly(socket, sent).await?;
        }
        let statistics = &self.layer.observation.statistics;
        let written = self.output.len() as u64;
        statistics.bytes_written.fetch_add(written, Ordering::Relaxed);
        statistics.writes.fetch_add(1, Ordering::Relaxed);
        self.output.clear();
        self.session.client().buffers.output.store(0, Ordering::Relaxed);
        if self.output.capacity() > 16 * BUFFER_BYTES {
            self.output = Vec::new();
        }
        self.hold.dependency = Dependency::ZERO;
        Ok(())
    }

    /// The socket did not take all at once, because it is much or because the peer has not read
    /// enough. The peer is given time, unless the connection is killed meanwhile, perhaps because
    /// too much is waiting for it.
    async fn send_slowly(&mut self, socket: &mut impl Socket, sent: usize) -> io::Result<()> {
        let pace = Pace {
            timeout: self.stall_timeout(),
            bytes_per_second: OUTPUT_BYTES_PER_SECOND_MIN,
        };
        let (connection_waker, client) = (&self.connection_waker, self.session.client());
        let mut signalled = false;
        let killed = poll_fn(|context| {
            while connection_waker.poll_signalled(context).is_ready() {
                signalled = true;
                if client.killed.load(Ordering::SeqCst) {
                    return Poll::Ready(());
                }
            }
            Poll::Pending
        });
        let written = tokio::select! {
            written = pace.write_all(socket, &self.output[sent..]) => written,
            () = killed => Err(io::ErrorKind::ConnectionAborted.into()),
        };
        // Mail that was left meanwhile is still to be fetched.
        if signalled {
            self.connection_waker.signal();
        }
        written
    }

    /// Runs a request where it may take long. Input that arrives meanwhile is read as far as there
    /// is room, to notice that the peer has left: a command that runs for it alone then ends.
    async fn run_long(&mut self, socket: &mut impl Socket, mut run: Box<LongRun>) {
        let long_turn = self.scheduler_handle.begin_long().await;
        let turn = self.scheduler_handle.begin();
        let mut running = tokio::task::spawn_blocking(move || {
            run.run();
            run
        });
        self.input.reserve(BUFFER_BYTES);
        let mut is_read = true;
        let ended = loop {
            let arrived = tokio::select! {
                ended = &mut running => break ended,
                arrived = socket.read_buf(&mut self.input), if is_read => arrived,
            };
            match arrived {
                Ok(0) | Err(_) => {
                    self.session.client().is_gone.store(true, Ordering::SeqCst);
                    is_read = false;
                }
                Ok(count) => {
                    self.note_input(count);
                    is_read = self.input.len() < self.input.capacity();
                }
            }
        };
        if let Ok(run) = ended {
            let dependency = self.session.take_back(*run, &mut self.output);
            self.hold.dependency = self.hold.dependency.max(dependency);
        }
        self.scheduler_handle.end(turn);
        drop(long_turn);
    }

    /// Work that a command left for after the lock. Its OK is the last reply in the output.
    async fn perform(&mut self, after: After) {
        match after {
            After::Deferred(Deferred::Checkpoint) => {
                let layer = self.layer.clone();
                let saved = tokio::task::spawn_blocking(move || save(&layer)).await;
                if let Ok(Err(text)) = saved {
                    self.replace_ok_by(&text);
                }
            }
            After::Deferred(Deferred::SaveUsers) => {
                let layer = self.layer.clone();
                let saved = tokio::task::spawn_blocking(move || layer.save_users()).await;
                if let Ok(Err(text)) = saved {
                    self.replace_ok_by(&text);
                }
            }
            After::Deferred(Deferred::LoadUsers) => {
                let (layer, own) = (self.layer.clone(), self.session.client().id);
                match tokio::task::spawn_blocking(move || layer.reload_users(own)).await {
                    Ok(Ok(true)) => self.session.end_after_replies(),
                    Ok(Err(text)) => self.replace_ok_by(&text),
                    _ => {}
                }
            }
            After::Deferred(Deferred::RewriteConfig) => {
                let layer = self.layer.clone();
                let written = tokio::task::spawn_blocking(move || layer.rewrite_config()).await;
                if let Ok(Err(text)) = written {
                    self.replace_ok_by(&text);
                }
            }
            After::Deferred(Deferred::ChangeTls(changes)) => {
                let layer = self.layer.clone();
                let changed = tokio::task::spawn_blocking(move || layer.change_tls(changes)).await;
                if let Ok(Err(text)) = changed {
                    self.replace_ok_by(&text);
                }
            }
            After::Deferred(Deferred::Shutdown) => (self.layer.process.shutdown)(),
            After::LongRun(_) => unreachable!("it watches the socket"),
            After::Sleep { micros } => tokio::time::sleep(Duration::from_micros(micros)).await,
            After::Deferred(Deferred::Migrate(migration)) => self.migrate(Arc::from(migration)).await,
            After::Deferred(Deferred::Replicate(_)) => unreachable!("it needs the socket"),
            After::Deferred(Deferred::AwaitReplicas { count, timeout_ms }) => {
                self.await_replicas(count, timeout_ms).await
            }
            After::Deferred(Deferred::ReplicaOf(source)) => {
                let (layer, conversations) = (self.layer.clone(), self.conversations.clone());
                let changing = move || conversations.replica_of.change(&layer, source);
                if let Ok(Err(text)) = tokio::task::spawn_blocking(changing).await {
                    self.replace_ok_by(&text);
                }
            }
            After::Deferred(Deferred::SaveInBackground) => {
                self.layer.engine.checkpoint_in_background();
                rdb_file::write_in_background(self.layer.clone());
            }
        }
    }

    /// Keys sent to another server cannot be rolled back, so they wait until they are durable here.
    async fn migrate(&mut self, migration: Arc<Migration>) {
        if self.waiters.released(self.hold).await.is_err() {
            // Nothing is sent to any target; the connection ends when its replies would be sent.
            return;
        }
        let (mut stop, conversations) = (self.stop.clone(), self.conversations.clone());
        let migrations = &conversations.migrations;
        let (replies, broken) = tokio::select! {
            conversation = migrations.talk(migration.clone()) => conversation,
            _ = stop.wait_for(|stops| *stops) => (Vec::new(), Some(Broken::Reading)),
        };
        loop {
            let ended = self
                .session
                .end_migration(&migration, &replies, broken, &mut self.output);
            match ended {
                Some(dependency) => return self.hold.dependency = self.hold.dependency.max(dependency),
                None => tokio::time::sleep(BUSY_RETRY).await,
            }
        }
    }

    /// The connection is a replica's until it ends. Its socket is written from a thread of its own.
    async fn serve_replica(&mut self, socket: &mut impl Socket, request: ReplicaRequest) -> io::Result<()> {
        let Some(again) = socket.again()? else {
            self.replace_output_by("ERR replicas are served over connections without TLS only");
            return Ok(());
        };
        self.send(socket).await?;
        let serving = Serving {
            layer: self.layer.clone(),
            client: self.session.client().clone(),
            request,
            stall_timeout: self.settings.connections.output_stall_timeout,
            stop: self.stop.clone(),
        };
        // Not one of the threads for what takes long: those are few, and this lasts.
        let (ended, over) = oneshot::channel();
        std::thread::Builder::new().name("replica".into()).spawn(move || {
            serving.run(again.into());
            let _ = ended.send(());
        })?;
        let _ = over.await;
        Ok(())
    }

    /// Answers the number of replicas that have all commits up to the request. Zero as the time is
    /// none.
    async fn await_replicas(&mut self, count: u64, timeout_ms: u64) {
        if self.waiters.released(self.hold).await.is_err() {
            return;
        }
        let (layer, started) = (self.layer.clone(), Instant::now());
        let position = layer.replication.end();
        layer.replication.ask();
        let is_over = || timeout_ms > 0 && started.elapsed().as_millis() as u64 >= timeout_ms;
        while layer.replicas_at(position) < count
            && !is_over()
            && !*self.stop.borrow()
            && !self.session.client().killed.load(Ordering::SeqCst)
        {
            tokio::time::sleep(REPLICA_LOOK).await;
        }
        Reply::new(&mut self.output, Protocol::Resp2).integer(layer.replicas_at(position) as i64);
    }

    fn replace_ok_by(&mut self, error: &str) {
        let ok = b"+OK\r\n".len();
        self.output.truncate(self.output.len().saturating_sub(ok));
        Reply::new(&mut self.output, Protocol::Resp2).error(error);
    }

    fn replace_output_by(&mut self, error: &str) {
        Reply::new(&mut self.output, Protocol::Resp2).error(error);
    }
}

/// Writes a checkpoint, and the RDB file next to it if configured. Blocks while it does. The error
/// is a reply.
pub fn save(layer: &Redis) -> Result<(), String> {
    let written = layer.engine.checkpoint();
    written.map_err(|_| "ERR the checkpoint failed; see the server's log".to_owned())?;
    layer.write_rdb_file()
}
