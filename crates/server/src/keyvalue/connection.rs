//! One connection of the key-value protocol: the loop between its socket and its session.
//!
//! Per readiness one read, all complete requests answered, one write. Replies that depend on
//! non-durable versions wait in a queue of their own, so that others overtake them; the connection
//! continues to answer requests meanwhile.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use quartet_engine::{Arrival, Busy, Dependency, Durability, Engine, PartitionId, Reserved, Settled};
use quartet_layer_keyvalue::{Answered, Session, first_requests};
use quartet_tenancy::{Charge, Database};
use quartet_wire_keyvalue::{ErrorCode, Hello, PREAMBLE, Reply, Request, UNAUTHENTICATED_FRAME_BYTES_MAX, next_frame};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Notify, watch};
use tokio::time::Duration;

use super::measuring;
use super::takeover::SlotGuard;
use super::{KeyValueEndpoint, LISTENER};
use crate::connections::durability::{DurableWaiters, Hold, ThreadWaiters};
use crate::connections::stream::{Stream, clear_socket, exchange};
use crate::connections::tls::{TlsEntrance, Transport};
use crate::layers::parts::{Leaving, WayOut};
use crate::limits::connection_limit::Permit;
use crate::limits::transfer_deadline::write_in_turns;
use crate::tenants::admission_control;
use crate::tenants::turns::FairShare;

/// Replaces the user: a wrong credential has none.
const USER: &[u8] = b"";
const BUFFER_BYTES: usize = 64 << 10;
/// A larger buffer is given back once it is empty.
const BUFFER_BYTES_KEPT: usize = 1 << 20;
/// The peer is not read from while it leaves this much unread, or waiting to become durable.
const OUTPUT_BYTES_MAX: usize = 4 << 20;
/// Other connections of the thread get their turn after this much of replies.
const TURN_BYTES: usize = 256 << 10;
/// Bytes of a connection beyond which its memory counts in the process's budget.
const UNCOUNTED_BYTES: usize = 2 * BUFFER_BYTES;
/// Time between retries of a request that found the lock held for long.
const BUSY_RETRY: Duration = Duration::from_millis(5);

/// The state of a session that goes along: that the client is greeted.
const CARRIED: &[u8] = b"greeted";

/// Time limit for the proof that this node is home before it refuses a credential.
const CONFIRMED_WITHIN: Duration = Duration::from_secs(3);

/// A socket on its way to its I/O thread.
pub struct KeyValueAccepted {
    pub socket: std::net::TcpStream,
    pub peer: SocketAddr,
    /// The other end of the socket, which may be a node that passes the client on.
    pub from: SocketAddr,
    /// The client was greeted at another home, and sends its greeting once more.
    pub is_carried: bool,
    pub way_out: WayOut,
    pub tls: Option<TlsEntrance>,
    pub permit: Permit,
    pub database_login: Arc<KeyValueEndpoint>,
    pub evicted: Arc<Notify>,
}

/// Serves a connection to its end, which is early if its place is needed and the peer is not yet
/// authenticated.
pub async fn serve(accepted: KeyValueAccepted, waiters: ThreadWaiters, mut stop: watch::Receiver<bool>) {
    let KeyValueAccepted {
        socket,
        peer,
        from,
        is_carried,
        way_out,
        tls,
        permit,
        database_login,
        evicted,
    } = accepted;
    let exit = Exit { peer, from, way_out };
    let Ok(socket) = TcpStream::from_std(socket) else {
        return;
    };
    let timeout = database_login.authentication_timeout;
    let opening = async {
        match Transport::open(socket, tls).await? {
            Transport::Clear(socket) => {
                let greeted = greet(socket, peer, is_carried, &database_login).await?;
                Ok::<_, io::Error>(Ok(greeted))
            }
            Transport::Encrypted(stream) => Ok(Err(greet(*stream, peer, is_carried, &database_login).await?)),
        }
    };
    let greeted = tokio::select! {
        greeted = tokio::time::timeout(timeout, opening) => greeted,
        () = evicted.notified() => return,
        _ = stop.wait_for(|stops| *stops) => return,
    };
    permit.authenticated();
    match greeted {
        Ok(Ok(Ok(clear))) => serve_greeted(clear, exit, &database_login, waiters, stop).await,
        Ok(Ok(Err(encrypted))) => serve_greeted(encrypted, exit, &database_login, waiters, stop).await,
        Ok(Err(_)) | Err(_) => {}
    }
}

/// The way of a connection to the next home.
struct Exit {
    peer: SocketAddr,
    from: SocketAddr,
    way_out: WayOut,
}

async fn serve_greeted<S: Stream + 'static>(
    greeted: Greeted<S>,
    exit: Exit,
    database_login: &KeyValueEndpoint,
    waiters: ThreadWaiters,
    mut stop: watch::Receiver<bool>,
) {
    match greeted {
        Greeted::Here(arrived, seated) => serve_arrived(*arrived, seated, exit, database_login, waiters, stop).await,
        Greeted::Elsewhere(partition, socket, input) => tokio::select! {
            // How it ends, the peer sees.
            _ = pass_on(partition, socket, &input, exit.peer, database_login, &waiters) => {}
            _ = stop.wait_for(|stops| *stops) => {}
        },
    }
}

/// Forwards a peer to the home of its database. `input` has been received from it.
///
/// Another home of the catalogue may know better where the database is, so the first answer, which
/// may be a refusal, leaves only if this node is home still.
async fn pass_on(
    partition: PartitionId,
    mut socket: impl AsyncRead + AsyncWrite + Unpin,
    input: &[u8],
    peer: SocketAddr,
    database_login: &KeyValueEndpoint,
    waiters: &ThreadWaiters,
) -> io::Result<()> {
    let first = waiters.of(PartitionId(0));
    let arrival = first.arrival(Durability::Always);
    let nodes = database_login.tenants.parts.nodes.as_ref().and_then(Weak::upgrade);
    let nodes = nodes.ok_or(io::ErrorKind::NotConnected)?;
    let mut home = nodes.call(partition, LISTENER, peer).await?;
    home.write_all(input).await?;
    home.flush().await?;
    let mut answer = Vec::new();
    home.read_buf(&mut answer).await?;
    first.shown_home(arrival).await?;
    socket.write_all(&answer).await?;
    socket.flush().await?;
    exchange(socket, home).await
}

/// Serves a peer until it disconnects, or until its session continues over another connection.
async fn serve_arrived<S: Stream + 'static>(
    arrived: Arrived<S>,
    seated: SlotGuard,
    exit: Exit,
    database_login: &KeyValueEndpoint,
    waiters: ThreadWaiters,
    stop: watch::Receiver<bool>,
) {
    let partition = arrived.database.as_ref().map(|(_, database)| database.partition());
    let waiters = waiters.of(partition.unwrap_or_default()).clone();
    let running = Connection::new(arrived, database_login, waiters, stop).run(exit);
    // Requests in progress end with `running`: between two of its steps, so each request was
    // answered wholly or not at all. A disconnected peer is no event; everything else was answered
    // on the wire.
    tokio::select! {
        _ = running => {}
        () = seated.asked_to_leave() => {}
    }
}

/// A peer after its greeting was received.
enum Greeted<S> {
    Here(Box<Arrived<S>>, SlotGuard),
    /// Another node is home of its database, in this partition. With the received input.
    Elsewhere(PartitionId, S, Vec<u8>),
}

/// A peer who has shown who it is.
struct Arrived<S> {
    socket: S,
    session: Session,
    /// The count of its moves, and the database.
    database: Option<(u64, Arc<Database>)>,
    /// The preamble and the greeting.
    greeting: Vec<u8>,
    /// The bytes after its greeting.
    input: Vec<u8>,
    output: Vec<u8>,
    woken: Arc<Notify>,
}

/// Reads the preamble and the greeting, which are small, and opens the database that the credential
/// is for.
async fn greet<S: AsyncRead + AsyncWrite + Unpin>(
    mut socket: S,
    peer: SocketAddr,
    is_carried: bool,
    database_login: &KeyValueEndpoint,
) -> io::Result<Greeted<S>> {
    let refuse = || io::Error::from(io::ErrorKind::InvalidData);
    let mut input = Vec::with_capacity(1024);
    loop {
        if socket.read_buf(&mut input).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let length = input.len().min(PREAMBLE.len());
        if input[..length] != PREAMBLE[..length] {
            return Err(refuse());
        }
        let Some(frames) = input.get(PREAMBLE.len()..) else {
            continue;
        };
        let Some(frame) = next_frame(frames, UNAUTHENTICATED_FRAME_BYTES_MAX).map_err(|_| refuse())? else {
            continue;
        };
        let Ok(Request::Hello(hello)) = Request::parse(&frame) else {
            return Err(refuse());
        };
        if let Some(partition) = database_login.elsewhere(hello.token) {
            return Ok(Greeted::Elsewhere(partition, socket, input));
        }
        let arrival = database_login.tenants.parts.engine.arrival(Durability::Always);
        let entered = loop {
            match enter(database_login, &hello) {
                Ok(entered) => break entered,
                Err(Busy) => tokio::time::sleep(BUSY_RETRY).await,
            }
        };
        let Some((mut session, database, woken)) = entered else {
            return Err(refuse_credential(socket, peer, frame.id, database_login, arrival).await);
        };
        let seated = database_login.takeovers.sit(hello.session).await;
        let mut output = Vec::new();
        session.answer(frame.id, &Request::Hello(hello), &mut output);
        if is_carried {
            output.clear();
        }
        let greeting = input.drain(..PREAMBLE.len() + frame.bytes).collect();
        let arrived = Arrived {
            greeting,
            socket,
            session,
            database,
            input,
            output,
            woken,
        };
        return Ok(Greeted::Here(Box::new(arrived), seated));
    }
}

/// Answers a greeting with an unknown credential, after the delay of wrong passwords. Returns the
/// error with which the connection ends.
async fn refuse_credential(
    mut socket: impl AsyncWrite + Unpin,
    peer: SocketAddr,
    request_id: u32,
    database_login: &KeyValueEndpoint,
    arrival: Arrival,
) -> io::Error {
    let engine = &database_login.tenants.parts.engine;
    let delay_micros = database_login.login_guard.failed(peer.ip(), USER, engine.now_micros());
    tokio::time::sleep(Duration::from_micros(delay_micros)).await;
    if !is_confirmed(engine, arrival).await {
        return io::ErrorKind::NotConnected.into();
    }
    let mut refusal = Vec::new();
    Reply::put_failure(
        &mut refusal,
        request_id,
        ErrorCode::PERMISSION_DENIED,
        b"unknown credential",
    );
    let sent = async {
        socket.write_all(&refusal).await?;
        socket.shutdown().await
    };
    match sent.await {
        Ok(()) => io::ErrorKind::PermissionDenied.into(),
        Err(error) => error,
    }
}

/// Waits until this node was shown to be home after the arrival: only a home refuses credentials.
/// Returns false if it is not, or if nothing shows it for [`CONFIRMED_WITHIN`].
async fn is_confirmed(engine: &Engine, arrival: Arrival) -> bool {
    let confirmed = async {
        // At a node that is not home, an answer without a dependency waits for nothing.
        while engine.is_home() {
            match engine.settled(Dependency::ZERO, arrival) {
                Settled::Yes => return true,
                Settled::Lost => return false,
                Settled::NotYet => tokio::time::sleep(BUSY_RETRY).await,
            }
        }
        false
    };
    tokio::time::timeout(CONFIRMED_WITHIN, confirmed).await.unwrap_or(false)
}

/// A session, its database with how often that had been moved, and what wakes its connection.
type Begun = (Session, Option<(u64, Arc<Database>)>, Arc<Notify>);

fn enter(database_login: &KeyValueEndpoint, hello: &Hello<'_>) -> Result<Option<Begun>, Busy> {
    let Some(opened) = database_login.open(hello.token)? else {
        return Ok(None);
    };
    let woken = Arc::new(Notify::new());
    let wake = woken.clone();
    let session = Session::new(opened.layer, opened.may_write, Arc::new(move || wake.notify_one()));
    Ok(Some((session, opened.database, woken)))
}

struct Connection<S> {
    socket: S,
    session: Session,
    greeting: Vec<u8>,
    database: Option<Arc<Database>>,
    /// The count of the database's moves: the session belongs to its partition at that time.
    moves: u64,
    /// The database has left that partition: the connection ends once its replies have left.
    is_ending: bool,
    scheduler_handle: FairShare,
    waiters: DurableWaiters,
    stop: watch::Receiver<bool>,
    woken: Arc<Notify>,
    output_stall_timeout: Duration,
    input: Vec<u8>,
    /// Bytes of `input` that are done with.
    consumed: usize,
    output: Vec<u8>,
    unsettled: Unsettled,
    /// Time spent on the replies before the start of their sync.
    gathered_micros: u64,
    /// The flusher is at making everything up to here durable.
    overlapped: Dependency,
    /// The size of all of these, as far as it is much.
    reserved: Reserved,
    /// The next request found the lock held for long.
    is_busy: bool,
}

/// Replies that wait until they may leave, oldest first.
#[derive(Default)]
struct Unsettled {
    bytes: VecDeque<u8>,
    /// The hold of each, and its length.
    replies: VecDeque<(Hold, usize)>,
}

impl Unsettled {
    fn push(&mut self, reply: &[u8], hold: Hold) {
        self.bytes.extend(reply);
        self.replies.push_back((hold, reply.len()));
    }

    fn first(&self) -> Option<Hold> {
        self.replies.front().map(|(hold, _)| *hold)
    }

    fn last(&self) -> Option<Dependency> {
        self.replies.back().map(|(hold, _)| hold.dependency)
    }

    /// Moves to `output` what may leave. A reply stays while one before it does.
    fn settle(&mut self, waiters: &DurableWaiters, output: &mut Vec<u8>) {
        while let Some(&(hold, length)) = self.replies.front()
            && waiters.is_settled(hold)
        {
            output.extend(self.bytes.drain(..length));
            self.replies.pop_front();
        }
        if self.bytes.is_empty() && self.bytes.capacity() > BUFFER_BYTES_KEPT {
            self.bytes = VecDeque::new();
        }
    }
}

enum Event {
    Input(usize),
    /// Something that was waited for has become durable, a watched key was written, or the lock may
    /// be free.
    Woken,
    Stop,
}

impl<S: Stream + 'static> Connection<S> {
    fn new(
        arrived: Arrived<S>,
        database_login: &KeyValueEndpoint,
        waiters: DurableWaiters,
        stop: watch::Receiver<bool>,
    ) -> Self {
        let engine = &database_login.tenants.parts.engine;
        let moves = arrived.database.as_ref().map_or(0, |(moves, _)| *moves);
        let database = arrived.database.map(|(_, database)| database);
        Connection {
            socket: arrived.socket,
            greeting: arrived.greeting,
            reserved: Reserved::new(engine.memory().clone()),
            session: arrived.session,
            scheduler_handle: FairShare::new(database_login.tenants.clone(), database.clone()),
            database,
            moves,
            is_ending: false,
            waiters,
            stop,
            woken: arrived.woken,
            output_stall_timeout: database_login.output_stall_timeout,
            input: arrived.input,
            consumed: 0,
            output: arrived.output,
            unsettled: Unsettled::default(),
            gathered_micros: 0,
            overlapped: Dependency::ZERO,
            is_busy: false,
        }
    }

    async fn run(mut self, exit: Exit) -> io::Result<()> {
        loop {
            let more = self.is_full() || self.answer_requests()?;
            if !self.is_ending {
                self.tell_watches();
            }
            self.unsettled.settle(&self.waiters, &mut self.output);
            self.overlap();
            self.count_kept()?;
            self.send().await?;
            if self.is_ending && self.unsettled.bytes.is_empty() {
                return Ok(());
            }
            if let Some(pause) = self.scheduler_handle.pause() {
                tokio::time::sleep(pause).await;
            }
            if more && !self.is_full() {
                tokio::task::yield_now().await;
                continue;
            }
            match self.wait().await? {
                Event::Input(0) => return Ok(()),
                Event::Stop => return self.leave(exit).await,
                Event::Input(_) | Event::Woken => {}
            }
        }
    }

    /// The layer ends. Executed requests are answered; then the connection continues at the next
    /// home, with its watches, or ends.
    async fn leave(mut self, exit: Exit) -> io::Result<()> {
        let Some(nodes) = exit.way_out.open() else {
            return Ok(());
        };
        while let Some(hold) = self.unsettled.first() {
            self.waiters.released(hold).await?;
            self.unsettled.settle(&self.waiters, &mut self.output);
        }
        self.send().await?;
        let mut input = std::mem::take(&mut self.greeting);
        input.extend(self.session.watch_requests());
        input.extend_from_slice(&self.input[self.consumed..]);
        let Some(socket) = clear_socket(self.socket) else {
            return Ok(());
        };
        nodes.carry(Leaving {
            listener: exit.way_out.listener,
            peer: exit.peer,
            from: exit.from,
            socket,
            state: CARRIED.to_vec(),
            input,
            is_new: false,
        });
        Ok(())
    }

    async fn wait(&mut self) -> io::Result<Event> {
        let waiting = self.unsettled.bytes.len() + self.output.len();
        let may_read = waiting < OUTPUT_BYTES_MAX && !self.is_busy && !self.is_ending;
        if self.input.capacity() - self.input.len() < BUFFER_BYTES / 4 {
            self.input.reserve(BUFFER_BYTES.max(self.input.len()));
            self.count_kept()?;
        }
        let (is_busy, waiters, overlapped) = (self.is_busy, &self.waiters, self.overlapped);
        let unsettled = self.unsettled.first();
        let settled = async {
            match unsettled {
                None => Ok(()),
                Some(hold) if hold.dependency <= overlapped => waiters.released(hold).await,
                Some(hold) => waiters.settled(hold).await,
            }
        };
        tokio::select! {
            biased;
            read = self.socket.read_buf(&mut self.input), if may_read => read.map(Event::Input),
            () = self.woken.notified() => Ok(Event::Woken),
            settled = settled, if unsettled.is_some() => Ok(settled.map(|()| Event::Woken)?),
            () = tokio::time::sleep(BUSY_RETRY), if is_busy => Ok(Event::Woken),
            _ = self.stop.changed() => Ok(Event::Stop),
        }
    }

    /// Answers whole requests for one turn. True if there are more.
    fn answer_requests(&mut self) -> io::Result<bool> {
        let entered = match &self.database {
            None => None,
            Some(database) => {
                let Ok(entered) = self.scheduler_handle.tenants().enter(database) else {
                    // It leaves for another partition, or stays.
                    self.is_busy = true;
                    return Ok(false);
                };
                Some(entered.ok_or(io::ErrorKind::ConnectionAborted)?)
            }
        };
        // Checked after the request has entered: from then on the database does not leave.
        self.is_ending = self
            .database
            .as_ref()
            .is_some_and(|database| database.moves() != self.moves);
        if self.is_ending {
            self.is_busy = false;
            return Ok(false);
        }
        let turn = self.scheduler_handle.begin();
        let answered = self.answer_turn();
        self.session.end_batch();
        self.scheduler_handle.end(turn);
        drop(entered);
        self.forget_consumed();
        answered
    }

    fn answer_turn(&mut self) -> io::Result<bool> {
        self.is_busy = false;
        let arrival = self.waiters.arrival(self.session.durability());
        self.session.begin_batch();
        let (mut answered_bytes, frame_bytes_max) = (0, self.session.frame_bytes_max());
        let tenants = self.scheduler_handle.tenants().clone();
        let mut started_micros = tenants.parts.engine.now_micros();
        loop {
            let together = first_requests(&self.input[self.consumed..], frame_bytes_max);
            let together = together.map_err(|_| io::ErrorKind::InvalidData)?;
            if together.is_empty() {
                return Ok(false);
            }
            self.session.look_ahead(&together);
            for (frame, request) in &together {
                let before = self.output.len();
                let admitted = self.admit(request, frame.bytes, started_micros);
                let answered = match admitted {
                    Err(code) => {
                        Reply::put_failure(&mut self.output, frame.id, code, b"");
                        Answered::Reply(Dependency::ZERO)
                    }
                    Ok(_) => self.session.answer(frame.id, request, &mut self.output),
                };
                if answered == Answered::Busy {
                    // It is counted at its retry.
                    if let (Some(database), Ok(Some(_))) = (&self.database, admitted) {
                        database.meter.take_back_command(started_micros);
                    }
                    self.output.truncate(before);
                    self.is_busy = true;
                    return Ok(false);
                }
                self.consumed += frame.bytes;
                answered_bytes += self.output.len() - before;
                let now_micros = tenants.parts.engine.now_micros();
                let micros = now_micros.saturating_sub(started_micros);
                measuring::note(&tenants.parts, self.database.as_deref(), request, micros);
                started_micros = now_micros;
                if let Some(database) = &self.database {
                    database.meter.charge(admitted.ok().flatten().unwrap_or_default());
                    database.meter.transferred(frame.bytes, self.output.len() - before);
                }
                if let Answered::Reply(dependency) = answered
                    && let hold = (Hold { dependency, arrival })
                    && !self.waiters.is_settled(hold)
                {
                    self.unsettled.push(&self.output[before..], hold);
                    self.output.truncate(before);
                    self.gathered_micros += micros;
                }
                if answered_bytes >= TURN_BYTES {
                    return Ok(true);
                }
            }
        }
    }

    /// Checks a request against the quotas of its database, if there are several databases, and
    /// counts it. Returns its cost; a request without work costs nothing and is not counted.
    fn admit(&self, request: &Request<'_>, bytes: usize, now_micros: u64) -> Result<Option<Charge>, ErrorCode> {
        let Some(database) = &self.database else {
            return Ok(None);
        };
        let charge = match request {
            Request::Release { .. } | Request::Cancel { .. } => return Ok(None),
            Request::Commit(_) => Charge::WRITE,
            _ => Charge::READ,
        };
        let engine = self.scheduler_handle.tenants().parts.engine_of(database);
        let is_full = matches!(request, Request::Commit(commit) if commit.grows())
            && admission_control::has_no_room(database, engine).is_some();
        if is_full {
            database.meter.refuse();
        }
        if is_full || admission_control::admit(database, bytes, now_micros).is_err() {
            return Err(ErrorCode::OPERATION_FAILED);
        }
        Ok(Some(charge))
    }

    fn tell_watches(&mut self) {
        if !self.session.is_touched() {
            return;
        }
        let Some(fired) = self.session.fired() else {
            self.is_busy = true;
            return;
        };
        let arrival = self.waiters.arrival(self.session.durability());
        for (id, dependency) in fired {
            let mut reply = Vec::new();
            Reply::put_empty(&mut reply, id);
            self.unsettled.push(&reply, Hold { dependency, arrival });
        }
    }

    /// Lets what has gathered become durable while more is answered, if it is much.
    fn overlap(&mut self) {
        let Some(last) = self.unsettled.last() else {
            self.gathered_micros = 0;
            return;
        };
        if self.gathered_micros > 0 && self.waiters.overlaps(self.gathered_micros, last) {
            self.overlapped = last;
            self.gathered_micros = 0;
        }
    }

    /// Returns true if the replies that wait to become durable are too large to answer more before
    /// some have left.
    fn is_full(&self) -> bool {
        self.unsettled.bytes.len() >= OUTPUT_BYTES_MAX
    }

    /// Ends the connection if there is no room for what it keeps.
    fn count_kept(&mut self) -> io::Result<()> {
        let buffer_bytes = self.input.capacity() + self.output.capacity() + self.unsettled.bytes.capacity();
        let counted = if buffer_bytes > UNCOUNTED_BYTES {
            buffer_bytes as u64
        } else {
            0
        };
        let has_room = counted == self.reserved.bytes() || self.reserved.try_set(counted);
        has_room.then_some(()).ok_or(io::ErrorKind::OutOfMemory.into())
    }

    fn forget_consumed(&mut self) {
        if self.consumed == self.input.len() {
            self.input.clear();
            self.consumed = 0;
            if self.input.capacity() > BUFFER_BYTES_KEPT {
                self.input = Vec::new();
            }
        } else if self.consumed >= BUFFER_BYTES_KEPT {
            self.input.drain(..self.consumed);
            self.consumed = 0;
        }
    }

    async fn send(&mut self) -> io::Result<()> {
        if self.output.is_empty() {
            return Ok(());
        }
        let sending = async {
            write_in_turns(&mut self.socket, &self.output).await?;
            self.socket.flush().await
        };
        tokio::time::timeout(self.output_stall_timeout, sending).await??;
        self.output.clear();
        if self.output.capacity() > BUFFER_BYTES_KEPT {
            self.output = Vec::new();
        }
        Ok(())
    }
}
