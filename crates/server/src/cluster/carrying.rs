//! A client's connection that outlives a change of home: it continues at the next home, with the
//! state of its session and the requests that were not executed.
//!
//! ```text
//!   caller (the client's node)                       home
//!     | -- carry LISTENER PEER LENGTH, session ---->  |   layers continue the session
//!     | -- the client's bytes ------------------->    |
//!     | <-- frames of replies --------------------    |
//!     |                                               |   another node becomes home: requests that
//!     | <-- frame WAIT ---------------------------    |   have not begun are left unread
//!     | <-- frame MOVES --------------------------    |
//!     | -- end of the client's bytes ------------>    |
//!     | <-- frame ENDS, session, unexecuted bytes -   |
//!     |
//!     | -- carry ... at the next home, with the session; then the unexecuted bytes
//! ```
//!
//! A frame is a length of four bytes, little-endian, and the bytes; three lengths are signals. The
//! home may be this node itself: then there is no link, and the layers return the connection
//! through [`Carried`]. Nothing is executed twice: a request that the layers have read whole is
//! executed and answered before the connection moves, and all other bytes are returned.
//!
//! A home that ends without these signals is lost: the connection ends.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use quartet_log_replicated::{NodeId, PartitionId};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot, watch};

use super::link::Link;
use super::members::Members;
use super::protocol::NodeRequest;
use super::replica_reads::ReplicaReads;
use crate::connections::stream::Stream;
use crate::layers::parts::Leaving;

/// Time for which a client waits for a home.
pub const PATIENCE: Duration = Duration::from_secs(3);
/// Time during which a former home's answers are accepted after a change of home that was not
/// planned: answers of executed requests may still be on their way.
const FAREWELL: Duration = Duration::from_millis(700);
/// The same for a home that was silent before: its answers are not on their way.
const FAREWELL_OF_SILENT: Duration = Duration::from_millis(100);
/// Time for which a stopping node waits for the replies to the requests that it has forwarded.
const LAST_ANSWERS: Duration = Duration::from_secs(2);
/// Interval between two calls of a home.
pub const CALL_AGAIN: Duration = Duration::from_millis(10);
/// Most bytes of a session.
pub const SESSION_BYTES_MAX: u64 = 512 << 20;
const BUFFER_BYTES: usize = 16 << 10;
/// The lengths that are signals.
const MOVES: u32 = 0;
const ENDS: u32 = u32::MAX;
const WAIT: u32 = u32::MAX - 1;

/// The threads that serve forwarded connections, with any node as home.
pub struct Carriers {
    handles: Vec<Handle>,
    next: AtomicUsize,
    ends: watch::Sender<bool>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Carriers {
    pub fn begin(count: usize) -> io::Result<Arc<Carriers>> {
        let ends = watch::Sender::new(false);
        let (mut handles, mut threads) = (Vec::new(), Vec::new());
        for number in 0..count {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            handles.push(runtime.handle().clone());
            let mut ends = ends.subscribe();
            let thread = std::thread::Builder::new().name(format!("carry-{number}"));
            threads.push(thread.spawn(move || {
                runtime.block_on(async {
                    let _ = ends.wait_for(|ends| *ends).await;
                    let until = Instant::now() + LAST_ANSWERS;
                    let metrics = Handle::current().metrics();
                    while metrics.num_alive_tasks() > 0 && Instant::now() < until {
                        tokio::time::sleep(CALL_AGAIN).await;
                    }
                });
            })?);
        }
        Ok(Arc::new(Carriers {
            handles,
            next: AtomicUsize::new(0),
            ends,
            threads: Mutex::new(threads),
        }))
    }

    pub fn spawn(&self, serving: impl Future<Output = ()> + Send + 'static) {
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        self.handles[next % self.handles.len()].spawn(serving);
    }

    /// Ends the carried connections, after at most `LAST_ANSWERS` for their pending replies.
    pub fn end(&self) {
        self.ends.send_replace(true);
        for thread in self.threads.lock().drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread that passes connections on panicked");
            }
        }
    }
}

/// A session between two homes.
#[derive(Default)]
pub struct Session {
    /// Its state, as its protocol's layer encodes it; empty for a new session.
    pub state: Vec<u8>,
    /// The client's bytes that no home has executed.
    pub input: Vec<u8>,
}

/// The connections that other tasks carry to layers of this process, by the addresses of the
/// carrying end and of the layers' end. A connection is here until its task has said everything to
/// its other side.
#[derive(Default)]
pub struct Carried {
    next: AtomicU64,
    /// Notifies the tasks that the layers end: their callers wait for their connections.
    ending: Notify,
    carrying: Mutex<HashMap<Addresses, Carrying>>,
}

/// Both ends: several connections may have the same address at one of them.
type Addresses = (SocketAddr, SocketAddr);

/// A connection's task.
struct Carrying {
    /// No other task has it, although an address is used again.
    number: u64,
    /// `None` once the layers have left.
    sender: Option<oneshot::Sender<Leaving>>,
}

/// A carried connection's end, with the layers of this process at the other.
pub struct Entered {
    pub stream: TcpStream,
    leaves: oneshot::Receiver<Leaving>,
    place: Place,
}

impl Entered {
    /// The connection, for bytes that are forwarded as they are: no other home continues it.
    pub fn into_stream(self) -> Box<dyn Stream> {
        Box::new(self.stream)
    }
}

/// The entry of a connection among [`Carried`].
struct Place {
    carried: Arc<Carried>,
    addresses: Addresses,
    number: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut carrying = self.carried.carrying.lock();
        if carrying
            .get(&self.addresses)
            .is_some_and(|entry| entry.number == self.number)
        {
            carrying.remove(&self.addresses);
        }
    }
}

impl Carried {
    /// Carries this end of a connection. Call before the layers have the other.
    pub fn enter(self: &Arc<Carried>, stream: TcpStream) -> io::Result<Entered> {
        let (sender, leaves) = oneshot::channel();
        let addresses = (stream.local_addr()?, stream.peer_addr()?);
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let sender = Some(sender);
        self.carrying.lock().insert(addresses, Carrying { number, sender });
        let place = Place {
            carried: self.clone(),
            addresses,
            number,
        };
        Ok(Entered { stream, leaves, place })
    }

    /// Gives a connection that its layers leave to the task that carries it; back if there is none.
    pub fn give(&self, leaving: Leaving) -> Option<Leaving> {
        let Ok(own) = leaving.socket.local_addr() else {
            return Some(leaving);
        };
        let mut carrying = self.carrying.lock();
        let entry = carrying.get_mut(&(leaving.from, own));
        let sender = entry.and_then(|entry| entry.sender.take());
        match sender {
            // A task that has ended needs nothing more.
            Some(sender) => sender.send(leaving).err(),
            None => Some(leaving),
        }
    }

    /// Notifies the callers that the layers of this process end.
    pub fn begin_end(&self) {
        self.ending.notify_waiters();
    }

    pub fn is_empty(&self) -> bool {
        self.carrying.lock().is_empty()
    }
}

/// Enters the layers of this process, if it is home.
pub type Enter = dyn Fn(&'static str, SocketAddr, Vec<u8>) -> Entering + Send + Sync;
pub type Entering = Pin<Box<dyn Future<Output = io::Result<Option<Entered>>> + Send>>;

/// Finds the home of the first partition, which may be this node.
pub struct HomeCaller {
    pub link: Link,
    pub members: Arc<Members>,
    /// Set once the node runs.
    pub enter: OnceLock<Box<Enter>>,
    /// Answers reads while another node is home. Set once the node runs.
    pub reads: OnceLock<ReplicaReads>,
    /// Becomes true when the node ends.
    pub over: watch::Receiver<bool>,
}

/// A home that has admitted a client.
pub enum Reached {
    Here(Entered),
    There(NodeId, Box<dyn Stream>),
}

/// How a carried connection ended.
pub enum Ended {
    /// One side has closed it.
    Closed,
    /// Its home can send no more replies.
    Lost,
    /// It moved, and no home admitted it: its remaining requests were not executed.
    NoHome,
}

impl HomeCaller {
    /// The home, which has the session. `None`: no home admitted the client in time.
    pub async fn reach(&self, listener: &'static str, peer: SocketAddr, state: &[u8]) -> Option<Reached> {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(enter) = self.enter.get()
                && let Ok(Some(entered)) = enter(listener, peer, state.to_vec()).await
            {
                return Some(Reached::Here(entered));
            }
            if let Some((home, member)) = self.members.other_home_and_id(PartitionId(0)) {
                let request = NodeRequest::Carry {
                    listener: listener.to_owned(),
                    peer,
                    bytes: state.len() as u64,
                };
                if let Ok(mut stream) = self.call(home, &member.address, &request).await
                    && stream.write_all(state).await.is_ok()
                    && stream.flush().await.is_ok()
                {
                    return Some(Reached::There(home, stream));
                }
            }
            if Instant::now() >= until || *self.over.borrow() {
                return None;
            }
            tokio::time::sleep(CALL_AGAIN).await;
        }
    }

    /// Calls the home of the first partition. A call of a home that is lost ends once another node
    /// is home.
    pub async fn call(&self, home: NodeId, address: &str, request: &NodeRequest) -> io::Result<Box<dyn Stream>> {
        tokio::select! {
            called = self.link.call(address, request) => called,
            () = self.replaced(PartitionId(0), home) => Err(io::ErrorKind::ConnectionAborted.into()),
        }
    }

    /// Completes when another node than `home` is home of the partition.
    async fn replaced(&self, partition: PartitionId, home: NodeId) {
        let mut homes = self.members.homes();
        let is_another = |homes: &Vec<Option<NodeId>>| {
            let current = homes.get(partition.0 as usize).copied().flatten();
            current.is_some_and(|current| current != home)
        };
        if homes.wait_for(is_another).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Completes when `home` can send no more answers.
    pub async fn farewell(&self, partition: PartitionId, home: NodeId) {
        self.replaced(partition, home).await;
        let was_silent = self.members.is_silent(partition, home, Instant::now());
        tokio::time::sleep(if was_silent { FAREWELL_OF_SILENT } else { FAREWELL }).await;
    }

    /// Carries a client's bytes to the home that has admitted it, and to each next home, until a
    /// side ends the connection. `input` are the bytes that were read before.
    pub async fn carry(
        &self,
        client: impl AsyncRead + AsyncWrite,
        listener: &'static str,
        peer: SocketAddr,
        mut reached: Reached,
        mut input: Vec<u8>,
    ) -> io::Result<Ended> {
        let (mut from_client, mut to_client) = tokio::io::split(client);
        let mut sends = true;
        loop {
            let moved = match reached {
                Reached::Here(entered) => {
                    let sent = Sent::new(&input, &mut sends, &self.over);
                    carry_here(&mut from_client, &mut to_client, sent, entered).await?
                }
                Reached::There(home, stream) => {
                    let sent = Sent::new(&input, &mut sends, &self.over);
                    let is_alive = Notify::new();
                    let carrying = carry_there(&mut from_client, &mut to_client, sent, stream, &is_alive);
                    // A home that says that it ends has longer to return the connection.
                    let farewell = async {
                        tokio::select! {
                            () = self.farewell(PartitionId(0), home) => {}
                            () = is_alive.notified() => tokio::time::sleep(PATIENCE).await,
                        }
                    };
                    tokio::select! {
                        moved = carrying => moved?,
                        () = farewell => return Ok(Ended::Lost),
                    }
                }
            };
            let Some(session) = moved else {
                to_client.shutdown().await?;
                return Ok(Ended::Closed);
            };
            let Some(next) = self.reach(listener, peer, &session.state).await else {
                return Ok(Ended::NoHome);
            };
            (reached, input) = (next, session.input);
        }
    }
}

/// A client's bytes on their way to a home.
struct Sent<'s> {
    /// Bytes that are sent first.
    input: &'s [u8],
    /// The client may send more.
    sends: &'s mut bool,
    /// The connection leaves this home.
    moves: Notify,
    /// Becomes true when nothing more is read from the client.
    over: watch::Receiver<bool>,
}

impl<'s> Sent<'s> {
    fn new(input: &'s [u8], sends: &'s mut bool, over: &watch::Receiver<bool>) -> Sent<'s> {
        Sent {
            input,
            sends,
            moves: Notify::new(),
            over: over.clone(),
        }
    }
}

/// Forwards the client's bytes until the client ends or the connection moves.
async fn ask(
    from_client: &mut (impl AsyncRead + Unpin),
    to_home: &mut (impl AsyncWrite + Unpin),
    input: &[u8],
    sends: &mut bool,
    moves: &Notify,
    mut over: watch::Receiver<bool>,
) -> io::Result<()> {
    to_home.write_all(input).await?;
    to_home.flush().await?;
    let mut buffer = vec![0; BUFFER_BYTES];
    while *sends {
        let count = tokio::select! {
            read = from_client.read(&mut buffer) => read.unwrap_or(0),
            () = moves.notified() => break,
            // The pending replies have time to arrive.
            () = end_of_node(&mut over) => return std::future::pending().await,
        };
        *sends = count > 0;
        to_home.write_all(&buffer[..count]).await?;
        to_home.flush().await?;
    }
    to_home.shutdown().await
}

/// Completes when the node ends.
async fn end_of_node(over: &mut watch::Receiver<bool>) {
    drop(over.wait_for(|over| *over).await);
}

/// Runs both to the end of `answering`; `asking` may end before.
async fn both<T>(
    asking: impl Future<Output = io::Result<()>>,
    answering: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    let (mut asking, mut answering) = (pin!(asking), pin!(answering));
    tokio::select! {
        answered = &mut answering => answered,
        // The bytes that the home has sent before are still read.
        _ = &mut asking => answering.await,
    }
}

/// `None`: the home has ended the connection.
async fn carry_there(
    from_client: &mut (impl AsyncRead + Unpin),
    to_client: &mut (impl AsyncWrite + Unpin),
    sent: Sent<'_>,
    stream: Box<dyn Stream>,
    is_alive: &Notify,
) -> io::Result<Option<Session>> {
    let (mut from_home, mut to_home) = tokio::io::split(stream);
    let Sent {
        input,
        sends,
        moves,
        over,
    } = sent;
    let answering = async {
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            let mut left = match from_home.read_u32_le().await {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
                length => length?,
            };
            match left {
                WAIT => {
                    is_alive.notify_one();
                    continue;
                }
                MOVES => {
                    is_alive.notify_one();
                    moves.notify_one();
                }
                ENDS => return read_session(&mut from_home).await.map(Some),
                _ => {}
            }
            while left > 0 {
                let piece = BUFFER_BYTES.min(left as usize);
                let count = from_home.read(&mut buffer[..piece]).await?;
                if count == 0 {
                    return Ok(None);
                }
                to_client.write_all(&buffer[..count]).await?;
                left -= count as u32;
            }
            to_client.flush().await?;
        }
    };
    let asking = ask(from_client, &mut to_home, input, sends, &moves, over);
    both(asking, answering).await
}

async fn carry_here(
    from_client: &mut (impl AsyncRead + Unpin),
    to_client: &mut (impl AsyncWrite + Unpin),
    sent: Sent<'_>,
    entered: Entered,
) -> io::Result<Option<Session>> {
    let Entered {
        stream,
        mut leaves,
        place: _place,
    } = entered;
    let (mut from_layers, mut to_layers) = stream.into_split();
    let Sent {
        input,
        sends,
        moves,
        over,
    } = sent;
    let answering = async {
        let mut buffer = vec![0; BUFFER_BYTES];
        let mut is_given = true;
        loop {
            tokio::select! {
                leaving = &mut leaves, if is_given => match leaving {
                    Ok(leaving) => {
                        moves.notify_one();
                        let session = taken_back(leaving).await?;
                        tokio::io::copy(&mut from_layers, to_client).await?;
                        to_client.flush().await?;
                        return Ok(Some(session));
                    }
                    Err(_) => is_given = false,
                },
                read = from_layers.read(&mut buffer) => match read? {
                    0 => return Ok(None),
                    count => {
                        to_client.write_all(&buffer[..count]).await?;
                        to_client.flush().await?;
                    }
                },
            }
        }
    };
    let asking = ask(from_client, &mut to_layers, input, sends, &moves, over);
    both(asking, answering).await
}

/// Reads the bytes that the layers have left unread, up to the end of the client's bytes. The
/// layers' end is closed afterwards.
async fn taken_back(leaving: Leaving) -> io::Result<Session> {
    let Leaving {
        socket,
        state,
        mut input,
        ..
    } = leaving;
    let mut socket = TcpStream::from_std(socket)?;
    within_patience(socket.read_to_end(&mut input)).await?;
    Ok(Session { state, input })
}

/// Ends a connection that is not given back in time: its client must not wait for it indefinitely.
async fn within_patience<T>(step: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let timed = tokio::time::timeout(PATIENCE, step).await;
    timed.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Forwards a caller's client to the layers of this process, until one side ends or the layers
/// leave the connection.
pub async fn serve_caller(caller: Box<dyn Stream>, entered: Entered) -> io::Result<()> {
    let Entered {
        stream,
        mut leaves,
        place,
    } = entered;
    let mut ending = pin!(place.carried.ending.notified());
    let (mut from_layers, mut to_layers) = stream.into_split();
    let (mut from_caller, mut to_caller) = tokio::io::split(caller);
    let (mut sends, never, (_going, over)) = (true, Notify::new(), watch::channel(false));
    let answering = async {
        let mut buffer = vec![0; BUFFER_BYTES];
        let (mut is_given, mut ends) = (true, false);
        let leaving = loop {
            tokio::select! {
                leaving = &mut leaves, if is_given => match leaving {
                    Ok(leaving) => break leaving,
                    Err(_) => is_given = false,
                },
                () = &mut ending, if !ends => {
                    ends = true;
                    to_caller.write_u32_le(WAIT).await?;
                    to_caller.flush().await?;
                }
                read = from_layers.read(&mut buffer) => match read? {
                    0 => return to_caller.shutdown().await,
                    count => write_frame(&mut to_caller, &buffer[..count]).await?,
                },
            }
        };
        to_caller.write_u32_le(MOVES).await?;
        to_caller.flush().await?;
        let session = taken_back(leaving).await?;
        loop {
            match from_layers.read(&mut buffer).await? {
                0 => break,
                count => write_frame(&mut to_caller, &buffer[..count]).await?,
            }
        }
        write_session(&mut to_caller, &session).await
    };
    let asking = ask(&mut from_caller, &mut to_layers, &[], &mut sends, &never, over);
    both(asking, answering).await
}

/// Gives a caller's client back without having executed a request: this node is no longer home.
pub async fn give_back(caller: Box<dyn Stream>, state: Vec<u8>) -> io::Result<()> {
    let (mut from_caller, mut to_caller) = tokio::io::split(caller);
    to_caller.write_u32_le(MOVES).await?;
    to_caller.flush().await?;
    let mut input = Vec::new();
    within_patience(from_caller.read_to_end(&mut input)).await?;
    write_session(&mut to_caller, &Session { state, input }).await
}

/// Writes the last frame, and ends the connection.
async fn write_session(to_caller: &mut (impl AsyncWrite + Unpin), session: &Session) -> io::Result<()> {
    to_caller.write_u32_le(ENDS).await?;
    for part in [&session.state, &session.input] {
        to_caller.write_u64_le(part.len() as u64).await?;
        to_caller.write_all(part).await?;
    }
    to_caller.flush().await?;
    to_caller.shutdown().await
}

async fn write_frame(to_caller: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
    to_caller.write_u32_le(bytes.len() as u32).await?;
    to_caller.write_all(bytes).await?;
    to_caller.flush().await
}

async fn read_session(from_home: &mut (impl AsyncRead + Unpin)) -> io::Result<Session> {
    let mut session = Session::default();
    for part in [&mut session.state, &mut session.input] {
        let bytes = from_home.read_u64_le().await?;
        *part = read_counted(from_home, bytes).await?;
    }
    Ok(session)
}

/// Reads `bytes` bytes, and reserves room only for the bytes that have arrived.
pub async fn read_counted(from: &mut (impl AsyncRead + Unpin), bytes: u64) -> io::Result<Vec<u8>> {
    if bytes > SESSION_BYTES_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut read = Vec::new();
    from.take(bytes).read_to_end(&mut read).await?;
    match read.len() as u64 == bytes {
        true => Ok(read),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::net::{TcpListener, TcpSocket};

    use super::*;

    const PORT_OF_THE_SYSTEM: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 0);

    /// A connection from `address` to a port of its own: the end that carries it, and the layers'.
    async fn connection(address: SocketAddr) -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind(PORT_OF_THE_SYSTEM).await.unwrap();
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind(address).unwrap();
        let own = socket.connect(listener.local_addr().unwrap()).await.unwrap();
        (own, listener.accept().await.unwrap().0)
    }

    /// The system gives the port of one connection to another with a different other end. Carried
    /// connections were known only by that address, so the later one hid the earlier: at a
    /// hand-over the layers' end of the earlier went to no task, and its client waited until the
    /// next home closed the connection.
    #[tokio::test]
    async fn each_connection_returns_to_its_own_task() {
        let free = TcpListener::bind(PORT_OF_THE_SYSTEM).await.unwrap();
        let shared = free.local_addr().unwrap();
        drop(free);
        let carried = Arc::<Carried>::default();
        let (first_own, first) = connection(shared).await;
        let (second_own, second) = connection(shared).await;
        let mut entered = [carried.enter(first_own).unwrap(), carried.enter(second_own).unwrap()];
        for (layers_end, name) in [(first, "first"), (second, "second")] {
            let leaving = Leaving {
                listener: "redis",
                peer: shared,
                from: shared,
                socket: layers_end.into_std().unwrap(),
                state: name.into(),
                input: Vec::new(),
                is_new: false,
            };
            assert!(carried.give(leaving).is_none());
        }
        for (entered, name) in entered.iter_mut().zip(["first", "second"]) {
            assert_eq!(entered.leaves.try_recv().unwrap().state, name.as_bytes());
        }
        drop(entered);
        assert!(carried.is_empty());
    }
}
