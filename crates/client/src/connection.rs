//! One TCP connection, shared by all transactions of a database, and made anew whenever it is lost.
//!
//! Whoever asks appends a frame to what waits to be sent; the driver, one task, sends what has gathered and hands out the
//! replies. Read versions that are asked for while the driver has not yet come round share one request.
//!
//! What was under way when a connection is lost fails with `CONNECTION_FAILED`, except read versions, which wait for the next
//! connection. Versions belong to a connection: the generation counts them.
//!
//! All connections of a client have one session. The server lets a new one in when it has ended the one before, so whoever
//! waits until there is a connection again knows that what was under way has been decided.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use quartet_wire_keyvalue::{
    ErrorCode, FRAME_BYTES_MAX, Hello, Malformed, PREAMBLE, PROTOCOL_VERSION, Reply, Request, Welcome, next_frame,
};
use rustc_hash::FxHashMap;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
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

/// Takes a reply's body. Called by the driver, so it must be quick.
pub(crate) type Complete = Box<dyn FnOnce(Result<&[u8], Failure>) + Send>;

/// A version that the server keeps readable for us, until the last clone of the `Arc` is gone.
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

pub(crate) struct Connection {
    state: Mutex<State>,
    wake: Notify,
    /// The number of the connection that is up, or of the last one; and whether it is up.
    up: watch::Sender<(u64, bool)>,
    pub cluster: Cluster,
    tls: TlsSettings,
    session: [u8; 16],
}

#[derive(Default)]
struct State {
    /// Frames that wait to be sent.
    outgoing: Vec<u8>,
    next_id: u32,
    pending: FxHashMap<u32, Pending>,
    /// The request for a read version among `outgoing`.
    unsent_read_version: Option<u32>,
    /// Who waits for a read version while there is no connection.
    parked: Vec<oneshot::Sender<VersionReply>>,
    generation: u64,
    is_up: bool,
    is_closed: bool,
}

/// A request that nobody waits for once this is dropped.
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
    Version(Vec<oneshot::Sender<VersionReply>>),
}

impl Connection {
    pub fn new(cluster: Cluster, tls: TlsSettings) -> Arc<Connection> {
        let mut session = [0; 16];
        // Without randomness there is no session, and a lost connection may be served a moment longer.
        let _ = getrandom::fill(&mut session);
        Arc::new(Connection {
            state: Mutex::default(),
            wake: Notify::new(),
            up: watch::Sender::new((0, false)),
            cluster,
            tls,
            session,
        })
    }

    /// Sends a request of the connection that `version` was given by.
    pub fn read(&self, version: &OpenVersion, request: &Request<'_>, complete: Complete) {
        self.send_in(Some(version.generation), request, complete);
    }

    /// Sends a request that belongs to no version. Returns its number.
    pub fn send(&self, request: &Request<'_>, complete: Complete) -> Option<u32> {
        self.send_in(None, request, complete)
    }

    fn send_in(&self, generation: Option<u64>, request: &Request<'_>, complete: Complete) -> Option<u32> {
        let mut state = self.state.lock();
        let refusal = match generation {
            // What was promised by an earlier connection is gone.
            Some(generation) if generation != state.generation || !state.is_up => Some(ErrorCode::TRANSACTION_TOO_OLD),
            None if !state.is_up => Some(ErrorCode::CONNECTION_FAILED),
            _ => None,
        };
        if let Some(code) = refusal {
            drop(state);
            complete(Err(code.into()));
            return None;
        }
        let id = state.new_id();
        request.put(id, &mut state.outgoing);
        state.pending.insert(id, Pending::Reply(complete));
        drop(state);
        self.wake.notify_one();
        Some(id)
    }

    /// The same, as a future of the reply's body.
    pub fn ask(&self, request: &Request<'_>) -> impl Future<Output = Result<Vec<u8>, Failure>> + Send + use<> {
        let (sender, receiver) = oneshot::channel();
        self.send(request, answer_to(sender));
        received(receiver)
    }

    pub fn ask_at(
        &self,
        version: &OpenVersion,
        request: &Request<'_>,
    ) -> impl Future<Output = Result<Vec<u8>, Failure>> + Send + use<> {
        let (sender, receiver) = oneshot::channel();
        self.read(version, request, answer_to(sender));
        received(receiver)
    }

    /// A version to read at, of everything that was acknowledged before this call.
    pub fn read_version(&self) -> oneshot::Receiver<VersionReply> {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.state.lock();
        if !state.is_up {
            state.parked.push(sender);
            return receiver;
        }
        let id = match state.unsent_read_version {
            Some(id) => id,
            None => {
                let id = state.new_id();
                Request::ReadVersion.put(id, &mut state.outgoing);
                state.unsent_read_version = Some(id);
                state.pending.insert(id, Pending::Version(Vec::new()));
                id
            }
        };
        if let Some(Pending::Version(waiting)) = state.pending.get_mut(&id) {
            waiting.push(sender);
        }
        drop(state);
        self.wake.notify_one();
        receiver
    }

    /// The version itself, or the first one after it that the server has kept.
    pub fn open_version(&self, version: u64) -> oneshot::Receiver<VersionReply> {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.state.lock();
        if !state.is_up {
            // The next connection's server may be another one, but it will know by itself.
            drop(state);
            let _ = sender.send(Err(ErrorCode::TRANSACTION_TOO_OLD));
            return receiver;
        }
        let id = state.new_id();
        Request::OpenVersion { version }.put(id, &mut state.outgoing);
        state.pending.insert(id, Pending::Version(vec![sender]));
        drop(state);
        self.wake.notify_one();
        receiver
    }

    /// It leaves with what is sent next: the server lets go by itself in the end.
    fn release(&self, version: u64, generation: u64) {
        let mut state = self.state.lock();
        if state.is_up && state.generation == generation {
            let id = state.new_id();
            Request::Release { version }.put(id, &mut state.outgoing);
        }
    }

    /// Forgets a request whose reply nobody waits for any more.
    pub fn cancel(&self, id: u32) {
        let mut state = self.state.lock();
        if state.pending.remove(&id).is_some() {
            let own_id = state.new_id();
            Request::Cancel { id }.put(own_id, &mut state.outgoing);
        }
        drop(state);
        self.wake.notify_one();
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
        let id = self.send(&request, answer_to(sender));
        let mut cancelled = CancelOnDrop { connection: self, id };
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

    /// Ends the driver. What is under way fails.
    pub fn close(&self) {
        self.state.lock().is_closed = true;
        self.wake.notify_one();
    }

    /// Connects, serves, and connects again, until closed.
    pub async fn drive(self: Arc<Connection>) {
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
                    // Whatever ended it, the next connection follows.
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
        self.refuse_parked(ErrorCode::BROKEN_PROMISE);
    }

    async fn pause(&self, pause: &mut Duration) {
        // Closing wakes; being asked for something does not hurry anybody who waits for a server.
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
        state.outgoing.clear();
        state.unsent_read_version = None;
        let parked = std::mem::take(&mut state.parked);
        if !parked.is_empty() {
            let id = state.new_id();
            Request::ReadVersion.put(id, &mut state.outgoing);
            state.pending.insert(id, Pending::Version(parked));
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
        for (_, pending) in pending {
            match pending {
                Pending::Reply(complete) => complete(Err(ErrorCode::CONNECTION_FAILED.into())),
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
        // TLS keeps a part of what was written until it is told to send it.
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

    /// Gives replies to those who wait for them. Returns how many bytes of `input` are done with.
    fn hand_out(self: &Arc<Connection>, input: &[u8]) -> Result<usize, Malformed> {
        let mut consumed = 0;
        while let Some(frame) = next_frame(&input[consumed..], FRAME_BYTES_MAX)? {
            consumed += frame.bytes;
            let reply = Reply::parse(&frame)?;
            let body = match reply {
                Reply::Done(body) => Ok(body),
                Reply::Failed { code, detail } => Err(Failure {
                    code,
                    detail: detail.to_vec(),
                }),
            };
            // Nobody waits for what was cancelled.
            let pending = self.state.lock().pending.remove(&frame.id);
            match pending {
                Some(Pending::Reply(complete)) => complete(body),
                Some(Pending::Version(waiting)) => self.give_version(body, waiting)?,
                None => {}
            }
        }
        Ok(consumed)
    }

    fn give_version(
        self: &Arc<Connection>,
        body: Result<&[u8], Failure>,
        waiting: Vec<oneshot::Sender<VersionReply>>,
    ) -> Result<(), Malformed> {
        let reply = match body {
            Ok(body) => Ok(Arc::new(OpenVersion {
                version: Reply::number(body)?,
                generation: self.state.lock().generation,
                connection: self.clone(),
            })),
            Err(failure) => Err(failure.code),
        };
        for sender in waiting {
            // Whoever asked may have gone.
            let _ = sender.send(reply.clone());
        }
        Ok(())
    }
}

impl State {
    fn new_id(&mut self) -> u32 {
        self.next_id = self.next_id.wrapping_add(1);
        self.next_id
    }
}

fn answer_to(sender: oneshot::Sender<Result<Vec<u8>, Failure>>) -> Complete {
    Box::new(move |reply| {
        // Whoever asked may have gone.
        let _ = sender.send(reply.map(<[u8]>::to_vec));
    })
}

async fn received(receiver: oneshot::Receiver<Result<Vec<u8>, Failure>>) -> Result<Vec<u8>, Failure> {
    receiver.await.unwrap_or_else(|_| Err(ErrorCode::BROKEN_PROMISE.into()))
}

fn refuse_all(waiting: Vec<oneshot::Sender<VersionReply>>, code: ErrorCode) {
    for sender in waiting {
        // Whoever asked may have gone.
        let _ = sender.send(Err(code));
    }
}

enum NoConnection {
    /// Nobody answers, or not in this protocol.
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
    /// Connects and greets. Also returns what arrived behind the answer.
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
