//! One TCP connection, shared by all transactions of a database, and re-established whenever it is
//! lost.
//!
//! A caller appends a frame to the output; the driver, one task, sends the gathered frames and
//! hands out the replies. Read versions requested before the driver's next turn share one request.
//!
//! Requests in progress when a connection is lost fail with `CONNECTION_FAILED`, except read
//! versions, which wait for the next connection. Versions belong to a connection: the generation
//! counts them.
//!
//! All connections of a client have one session. The server admits a new connection when it has
//! ended the previous one, so once there is a connection again, all commits that were in flight
//! have been decided.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use quartet_wire_keyvalue::{
    ErrorCode, FRAME_BYTES_MAX, Hello, Malformed, PREAMBLE, PROTOCOL_VERSION, Reply, Request, Welcome, next_frame,
};
use rustc_hash::FxHashMap;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot, watch};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::{Cluster, TlsSettings, USER_KEYS_END, tls};

const RETRY_MIN: Duration = Duration::from_millis(10);
const RETRY_MAX: Duration = Duration::from_secs(1);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const BUFFER_BYTES: usize = 64 << 10;

/// Why there is no reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub code: ErrorCode,
    pub detail: Vec<u8>,
}

impl From<ErrorCode> for Failure {
    fn from(code: ErrorCode) -> Failure {
        Failure {
            code,
            detail: Vec::new(),
        }
    }
}

/// Why a read has failed.
pub(crate) fn code_of_read(failure: Failure) -> ErrorCode {
    match failure.code {
        // Reads in flight are lost with the connection; a new attempt waits for the next one.
        ErrorCode::CONNECTION_FAILED => ErrorCode::TRANSACTION_TOO_OLD,
        code => code,
    }
}

/// Takes a reply's body. Called by the driver, so it must be quick.
pub(crate) type Complete = Box<dyn FnOnce(Result<&[u8], Failure>) + Send>;

/// A version that the server keeps readable for this client, until the last clone of the `Arc` is
/// dropped.
pub(crate) struct OpenVersion {
    pub version: u64,
    generation: u64,
    connection: Arc<Connection>,
}

impl Drop for OpenVersion {
    fn drop(&mut self) {
        self.connection.release(self.version, self.generation);
    }
}

pub(crate) type VersionReply = Result<Arc<OpenVersion>, ErrorCode>;
/// Takes a version, under the same rule.
pub(crate) type TakeVersion = Box<dyn FnOnce(VersionReply) + Send>;

pub(crate) struct Connection {
    state: Mutex<State>,
    wake: Notify,
    /// The number of the current or last connection; and whether it is up.
    up: watch::Sender<(u64, bool)>,
    pub cluster: Cluster,
    tls: TlsSettings,
    session: [u8; 16],
    /// The runtime of the driver and of long work.
    pub runtime: Handle,
}

#[derive(Default)]
struct State {
    /// Frames that wait to be sent.
    outgoing: Vec<u8>,
    next_id: u32,
    pending: FxHashMap<u32, Pending>,
    /// The request for a read version among `outgoing`.
    unsent_read_version: Option<u32>,
    /// Waiters for a read version while there is no connection.
    parked: Vec<TakeVersion>,
    generation: u64,
    is_up: bool,
    is_closed: bool,
    /// The driver waits, and looks at `outgoing` when it is woken.
    is_driver_asleep: bool,
}

/// Cancels a request when it is dropped.
struct CancelOnDrop<'c> {
    connection: &'c Connection,
    id: Option<u32>,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.connection.cancel(id);
        }
    }
}

enum Pending {
    Reply(Complete),
    Version(Vec<TakeVersion>),
}

/// Fails all waiters when the driver ends, for any reason, including the runtime's end.
struct DriverEnds(Arc<Connection>);

impl Drop for DriverEnds {
    fn drop(&mut self) {
        self.0.state.lock().is_closed = true;
        self.0.went_down();
        self.0.refuse_parked(ErrorCode::BROKEN_PROMISE);
    }
}

impl Connection {
    pub fn new(cluster: Cluster, tls: TlsSettings, runtime: Handle) -> Arc<Connection> {
        let mut session = [0; 16];
        // Without randomness there is no session, and a lost connection may be served a moment
        // longer.
        let _ = getrandom::fill(&mut session);
        Arc::new(Connection {
            state: Mutex::default(),
            wake: Notify::new(),
            up: watch::Sender::new((0, false)),
            cluster,
            tls,
            session,
            runtime,
        })
    }

    /// Sends requests of the connection that `version` was given by: all of them, or none.
    pub fn read_all<'r>(
        &self,
        version: &OpenVersion,
        requests: impl Iterator<Item = (Request<'r>, Complete)>,
    ) -> Result<(), ErrorCode> {
        let mut state = self.state.lock();
        state.check(Some(version.generation))?;
        for (request, complete) in requests {
            state.put(&request, Pending::Reply(complete));
        }
        self.wake_driver(state);
        Ok(())
    }

    /// Sends a request, of the connection that gave out a version if there is a generation. Returns
    /// its number.
    pub fn send(&self, generation: Option<u64>, request: &Request<'_>, complete: Complete) -> Result<u32, ErrorCode> {
        let mut state = self.state.lock();
        state.check(generation)?;
        let id = state.put(request, Pending::Reply(complete));
        self.wake_driver(state);
        Ok(id)
    }

    /// The same, as a future of the reply's body.
    pub fn ask(&self, request: &Request<'_>) -> impl Future<Output = Result<Vec<u8>, Failure>> + Send + use<> {
        self.ask_in(None, request)
    }

    pub fn ask_at(
        &self,
        version: &OpenVersion,
        request: &Request<'_>,
    ) -> impl Future<Output = Result<Vec<u8>, Failure>> + Send + use<> {
        self.ask_in(Some(version.generation), request)
    }

    fn ask_in(
        &self,
        generation: Option<u64>,
        request: &Request<'_>,
    ) -> impl Future<Output = Result<Vec<u8>, Failure>> + Send + use<> {
        let (sender, receiver) = oneshot::channel();
        let sent = self.send(generation, request, answer_to(sender));
        async move {
            sent?;
            received(receiver).await
        }
    }

    /// A version to read at, of everything that was acknowledged before this call.
    pub fn read_version(&self, take: TakeVersion) {
        let mut state = self.state.lock();
        if state.is_closed {
            drop(state);
            return take(Err(ErrorCode::BROKEN_PROMISE));
        }
        if !state.is_up {
            return state.parked.push(take);
        }
        let unsent = state.unsent_read_version;
        if let Some(Pending::Version(waiting)) = unsent.and_then(|id| state.pending.get_mut(&id)) {
            return waiting.push(take);
        }
        let id = state.put(&Request::ReadVersion, Pending::Version(vec![take]));
        state.unsent_read_version = Some(id);
        self.wake_driver(state);
    }

    /// Requests the version itself, or the first later version that the server has kept.
    pub fn open_version(&self, version: u64, take: TakeVersion) {
        let mut state = self.state.lock();
        if !state.is_up {
            // The next connection's server may differ; it decides by itself.
            drop(state);
            return take(Err(ErrorCode::TRANSACTION_TOO_OLD));
        }
        state.put(&Request::OpenVersion { version }, Pending::Version(vec![take]));
        self.wake_driver(state);
    }

    /// Wakes the driver if it sleeps: before it sleeps it checks for output.
    fn wake_driver(&self, mut state: MutexGuard<'_, State>) {
        let is_asleep = std::mem::take(&mut state.is_driver_asleep);
        drop(state);
        if is_asleep {
            self.wake.notify_one();
        }
    }

    /// Sent with the next output: the server releases it by itself in the end.
    fn release(&self, version: u64, generation: u64) {
        let mut state = self.state.lock();
        if state.is_up && state.generation == generation {
            let id = state.new_id();
            Request::Release { version }.put(id, &mut state.outgoing);
        }
    }

    /// Removes a request that has no waiter.
    pub fn cancel(&self, id: u32) {
        let mut state = self.state.lock();
        let forgotten = state.pending.remove(&id);
        if forgotten.is_some() {
            let own_id = state.new_id();
            Request::Cancel { id }.put(own_id, &mut state.outgoing);
        }
        self.wake_driver(state);
    }

    /// Completes once the value of `key` is not `value`. Dropped before that, it is cancelled.
    pub async fn watch(&self, key: &[u8], value: Option<&[u8]>) -> Result<(), ErrorCode> {
        let (sender, receiver) = oneshot::channel();
        let request = Request::Watch {
            // The transaction has read the key, so it may.
            system: key.starts_with(USER_KEYS_END),
            key,
            value,
        };
        let id = self.send(None, &request, answer_to(sender))?;
        let mut cancelled = CancelOnDrop {
            connection: self,
            id: Some(id),
        };
        let fired = received(receiver).await;
        cancelled.id = None;
        fired.map(|_| ()).map_err(|failure| failure.code)
    }

    pub fn is_connected(&self) -> bool {
        self.state.lock().is_up
    }

    /// Completes once there is a connection; false if there never will be.
    pub async fn is_up(&self) -> bool {
        let mut up = self.up.subscribe();
        up.wait_for(|(_, is_up)| *is_up).await.is_ok()
    }

    /// Ends the driver. Requests in progress fail.
    pub fn close(&self) {
        self.state.lock().is_closed = true;
        self.wake.notify_one();
    }

    /// Connects, serves, and reconnects, until closed. A driver that is dropped before its first
    /// poll ends, too.
    pub fn drive(self: Arc<Connection>) -> impl Future<Output = ()> + Send {
        let ends = DriverEnds(self.clone());
        async move {
            self.connect_and_serve().await;
            drop(ends);
        }
    }

    async fn connect_and_serve(self: &Arc<Connection>) {
        let mut pause = RETRY_MIN;
        let mut turn = 0;
        let connector = match self.cluster.tls {
            true => self
                .tls
                .clone()
                .or_environment()
                .and_then(|tls| tls.connector())
                .map(Some),
            false => Ok(None),
        };
        while !self.state.lock().is_closed {
            let address = &self.cluster.addresses[turn % self.cluster.addresses.len()];
            turn += 1;
            let connecting = async {
                let connector = connector.as_ref().map_err(|code| NoConnection::Refused(*code))?;
                self.connect(address, connector.as_ref()).await
            };
            match tokio::time::timeout(CONNECT_TIMEOUT, connecting).await {
                Ok(Ok((transport, input))) => {
                    pause = RETRY_MIN;
                    self.came_up();
                    // For any reason of the end, the next connection follows.
                    let _ = match transport {
                        Transport::Clear(mut socket) => {
                            let (reader, writer) = socket.split();
                            self.serve(reader, writer, input).await
                        }
                        Transport::Encrypted(stream) => {
                            let (reader, writer) = tokio::io::split(stream);
                            self.serve(reader, writer, input).await
                        }
                    };
                    self.went_down();
                }
                Ok(Err(NoConnection::Refused(code))) => {
                    self.refuse_parked(code);
                    self.pause(&mut pause).await;
                }
                Ok(Err(NoConnection::Lost)) | Err(_) => self.pause(&mut pause).await,
            }
        }
    }

    async fn pause(&self, pause: &mut Duration) {
        // Closing wakes; a new request does not hasten the next attempt to connect.
        let _ = tokio::time::timeout(*pause, self.closed()).await;
        *pause = (*pause * 2).min(RETRY_MAX);
    }

    async fn closed(&self) {
        while !self.state.lock().is_closed {
            self.wake.notified().await;
        }
    }

    fn came_up(self: &Arc<Connection>) {
        let mut state = self.state.lock();
        state.generation += 1;
        state.is_up = true;
        state.is_driver_asleep = false;
        state.outgoing.clear();
        state.unsent_read_version = None;
        let parked = std::mem::take(&mut state.parked);
        if !parked.is_empty() {
            state.put(&Request::ReadVersion, Pending::Version(parked));
        }
        let generation = state.generation;
        drop(state);
        self.up.send_replace((generation, true));
    }

    fn went_down(&self) {
        let mut state = self.state.lock();
        state.is_up = false;
        state.unsent_read_version = None;
        state.outgoing = Vec::new();
        let pending = std::mem::take(&mut state.pending);
        let (generation, is_closed) = (state.generation, state.is_closed);
        drop(state);
        self.up.send_replace((generation, false));
        let code = match is_closed {
            true => ErrorCode::BROKEN_PROMISE,
            false => ErrorCode::CONNECTION_FAILED,
        };
        for (_, pending) in pending {
            match pending {
                Pending::Reply(complete) => complete(Err(code.into())),
                Pending::Version(waiting) if is_closed => refuse_all(waiting, ErrorCode::BROKEN_PROMISE),
                Pending::Version(waiting) => self.state.lock().parked.extend(waiting),
            }
        }
    }

    fn refuse_parked(&self, code: ErrorCode) {
        let parked = std::mem::take(&mut self.state.lock().parked);
        refuse_all(parked, code);
    }

    async fn serve(
        self: &Arc<Connection>,
        mut reader: impl AsyncRead + Unpin,
        mut writer: impl AsyncWrite + Unpin,
        mut input: Vec<u8>,
    ) -> std::io::Result<()> {
        let (mut sending, mut sent) = (Vec::with_capacity(BUFFER_BYTES), 0);
        // TLS keeps a part of the written bytes until it is flushed.
        let mut is_flushed = true;
        loop {
            let consumed = self.hand_out(&input).map_err(|_| std::io::ErrorKind::InvalidData)?;
            input.drain(..consumed);
            if sent == sending.len() {
                sending.clear();
                sent = 0;
                let mut state = self.state.lock();
                if state.is_closed {
                    return Ok(());
                }
                std::mem::swap(&mut state.outgoing, &mut sending);
                state.unsent_read_version = None;
                state.is_driver_asleep = sending.is_empty();
            }
            if input.capacity() - input.len() < BUFFER_BYTES / 4 {
                input.reserve(BUFFER_BYTES.max(input.len()));
            }
            let may_write = sent < sending.len() || !is_flushed;
            let writing = async {
                match sent < sending.len() {
                    true => writer.write(&sending[sent..]).await,
                    false => writer.flush().await.map(|()| 0),
                }
            };
            tokio::select! {
                biased;
                written = writing, if may_write => {
                    let written = written?;
                    sent += written;
                    is_flushed = !self.cluster.tls || written == 0;
                }
                read = reader.read_buf(&mut input) => {
                    if read? == 0 {
                        return Ok(());
                    }
                }
                () = self.wake.notified(), if sending.is_empty() => {}
            }
        }
    }

    /// Passes replies to their waiters. Returns the number of processed bytes of `input`.
    fn hand_out(self: &Arc<Connection>, input: &[u8]) -> Result<usize, Malformed> {
        let mut arrived = Vec::new();
        let consumed = self.state.lock().take_arrived(input, &mut arrived);
        for (pending, reply) in arrived {
            match pending {
                Pending::Reply(complete) => complete(reply),
                Pending::Version(waiting) => self.give_version(reply, waiting),
            }
        }
        consumed
    }

    fn give_version(self: &Arc<Connection>, reply: Result<&[u8], Failure>, waiting: Vec<TakeVersion>) {
        let version = reply
            .map_err(|failure| failure.code)
            .and_then(|body| Reply::number(body).map_err(|_| ErrorCode::INTERNAL_ERROR));
        let generation = self.state.lock().generation;
        let opened = version.map(|version| {
            Arc::new(OpenVersion {
                version,
                generation,
                connection: self.clone(),
            })
        });
        waiting.into_iter().for_each(|take| take(opened.clone()));
    }
}

impl State {
    /// Why nothing can be sent, or nothing that belongs to an earlier connection.
    fn check(&self, generation: Option<u64>) -> Result<(), ErrorCode> {
        match generation {
            // Promises of an earlier connection are void.
            Some(generation) if generation != self.generation || !self.is_up => Err(ErrorCode::TRANSACTION_TOO_OLD),
            None if !self.is_up => Err(ErrorCode::CONNECTION_FAILED),
            _ => Ok(()),
        }
    }

    /// Moves to `arrived` the requests whose replies are in `input`, up to the first malformed
    /// frame.
    fn take_arrived<'i>(
        &mut self,
        input: &'i [u8],
        arrived: &mut Vec<(Pending, Result<&'i [u8], Failure>)>,
    ) -> Result<usize, Malformed> {
        self.is_driver_asleep = false;
        let mut consumed = 0;
        while let Some(frame) = next_frame(&input[consumed..], FRAME_BYTES_MAX)? {
            let reply = match Reply::parse(&frame)? {
                Reply::Done(body) => Ok(body),
                Reply::Failed { code, detail } => Err(Failure {
                    code,
                    detail: detail.to_vec(),
                }),
            };
            consumed += frame.bytes;
            // A cancelled request has no waiter.
            arrived.extend(self.pending.remove(&frame.id).map(|pending| (pending, reply)));
        }
        Ok(consumed)
    }

    fn put(&mut self, request: &Request<'_>, pending: Pending) -> u32 {
        let id = self.new_id();
        request.put(id, &mut self.outgoing);
        self.pending.insert(id, pending);
        id
    }

    fn new_id(&mut self) -> u32 {
        self.next_id = self.next_id.wrapping_add(1);
        self.next_id
    }
}

fn answer_to(sender: oneshot::Sender<Result<Vec<u8>, Failure>>) -> Complete {
    Box::new(move |reply| {
        // The caller may have been dropped.
        let _ = sender.send(reply.map(<[u8]>::to_vec));
    })
}

async fn received(receiver: oneshot::Receiver<Result<Vec<u8>, Failure>>) -> Result<Vec<u8>, Failure> {
    receiver.await.unwrap_or_else(|_| Err(ErrorCode::BROKEN_PROMISE.into()))
}

fn refuse_all(waiting: Vec<TakeVersion>, code: ErrorCode) {
    waiting.into_iter().for_each(|take| take(Err(code)));
}

enum NoConnection {
    /// No server answers, or none with this protocol.
    Lost,
    Refused(ErrorCode),
}

impl From<std::io::Error> for NoConnection {
    fn from(_: std::io::Error) -> NoConnection {
        NoConnection::Lost
    }
}

impl From<Malformed> for NoConnection {
    fn from(_: Malformed) -> NoConnection {
        NoConnection::Lost
    }
}

enum Transport {
    Clear(TcpStream),
    Encrypted(Box<TlsStream<TcpStream>>),
}

impl Connection {
    /// Connects and greets. Also returns the bytes that arrived after the answer.
    async fn connect(
        &self,
        address: &str,
        connector: Option<&TlsConnector>,
    ) -> Result<(Transport, Vec<u8>), NoConnection> {
        let mut socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        let Some(connector) = connector else {
            let input = self.greet(&mut socket).await?;
            return Ok((Transport::Clear(socket), input));
        };
        let name = tls::server_name(address).ok_or(NoConnection::Refused(ErrorCode::TLS_ERROR))?;
        let mut stream = Box::new(connector.connect(name, socket).await?);
        let input = self.greet(&mut stream).await?;
        Ok((Transport::Encrypted(stream), input))
    }

    async fn greet(&self, socket: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> Result<Vec<u8>, NoConnection> {
        let mut greeting = PREAMBLE.to_vec();
        let hello = Hello {
            protocol_version: PROTOCOL_VERSION,
            session: self.session,
            token: self.cluster.credential.as_bytes(),
        };
        Request::Hello(hello).put(0, &mut greeting);
        socket.write_all(&greeting).await?;
        socket.flush().await?;
        let mut input = Vec::with_capacity(BUFFER_BYTES);
        loop {
            if socket.read_buf(&mut input).await? == 0 {
                return Err(NoConnection::Lost);
            }
            let Some(frame) = next_frame(&input, FRAME_BYTES_MAX)? else {
                continue;
            };
            match Reply::parse(&frame)? {
                Reply::Done(body) => Welcome::parse(body)?,
                Reply::Failed { code, .. } => return Err(NoConnection::Refused(code)),
            };
            let consumed = frame.bytes;
            input.drain(..consumed);
            return Ok(input);
        }
    }
}
