//! The requests of other nodes, and the clients that they pass on.

use std::net::SocketAddr;
use std::sync::Arc;

use quartet_log_replicated::PartitionId;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::accounts::REPORT_BYTES_MAX;
use super::hand_over::STATE_DIFFERS;
use super::{LOOK_EVERY, NOT_HOME, Shared};
use crate::cluster::carrying::{self, SESSION_BYTES_MAX};
use crate::cluster::clocks;
use crate::cluster::copying;
use crate::cluster::link::{self, Callers, Heard};
use crate::cluster::protocol::NodeRequest;
use crate::connections::stream::{Stream, exchange};

const NO_PARTITION: &str = "no such partition";
/// Most bytes of a push.
const PUSH_BYTES_MAX: u64 = 1 << 20;
/// Bytes that the system keeps each way of a connection within this process.
const PAIR_BUFFER_BYTES: u32 = 128 << 10;

impl Shared {
    /// Speaks with other nodes until this one ends.
    pub(super) fn talk(self: &Arc<Shared>, listener: std::net::TcpListener) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let Ok(runtime) = runtime.inspect_err(|error| tracing::error!(%error, "talking to other nodes")) else {
            return;
        };
        let mut over = self.over.subscribe();
        runtime.block_on(async {
            tokio::select! {
                result = self.clone().answer_nodes(listener) => if let Err(error) = result {
                    tracing::error!(%error, "listening to other nodes");
                },
                () = self.listen_for_homes() => {}
                () = self.follow_clocks() => {}
                _ = over.wait_for(|over| *over) => {}
            }
        });
    }

    async fn answer_nodes(self: Arc<Shared>, listener: std::net::TcpListener) -> std::io::Result<()> {
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let mut callers = Callers::default();
        loop {
            let Ok((socket, _)) = listener.accept().await else {
                tokio::time::sleep(LOOK_EVERY).await;
                continue;
            };
            let shared = self.clone();
            callers.hear(async move |heard| {
                if let Err(error) = shared.answer_node(socket, heard).await {
                    tracing::debug!(%error, "a node's connection ended");
                }
            });
        }
    }

    async fn answer_node(self: Arc<Shared>, socket: TcpStream, heard: Heard) -> std::io::Result<()> {
        let called = self.home.link.hear(socket).await;
        heard.note();
        let (request, mut stream) = called?;
        let has = |partition: PartitionId| self.foundation.partitions.has(partition);
        match request {
            Ok(NodeRequest::Watch(partition)) if has(partition) => self.beat(partition, stream).await,
            Ok(NodeRequest::Forward {
                listener,
                peer,
                partition,
            }) if has(partition) => self.take_client(partition, &listener, peer, stream).await,
            Ok(NodeRequest::Carry { listener, peer, bytes }) if bytes <= SESSION_BYTES_MAX => {
                self.take_carried(&listener, peer, bytes, stream).await
            }
            Ok(NodeRequest::Push {
                partition,
                number,
                bytes,
            }) if has(partition) && bytes <= PUSH_BYTES_MAX => self.hear_push(partition, number, bytes, stream).await,
            Ok(NodeRequest::Count { process, number, bytes }) if bytes <= REPORT_BYTES_MAX => {
                self.hear_report(process, number, bytes, stream).await
            }
            Ok(NodeRequest::HandOver { partition, node }) if has(partition) => {
                self.hear_hand_over(partition, node, stream).await
            }
            Ok(NodeRequest::Copy(partition)) if has(partition) && self.state().is_in_doubt(partition) => {
                link::refuse(stream.as_mut(), STATE_DIFFERS).await
            }
            Ok(NodeRequest::Copy(partition)) if has(partition) => {
                copying::send(self.foundation.partitions.engine(partition).clone(), stream).await
            }
            Ok(NodeRequest::Clock) => clocks::tell(stream).await,
            Ok(NodeRequest::MayTakeOver) => self.hear_may_take_over(stream).await,
            Ok(NodeRequest::TakeOver(partition)) if has(partition) => {
                self.state().is_handed(partition);
                link::accept(stream.as_mut()).await
            }
            Ok(NodeRequest::Carry { .. } | NodeRequest::Count { .. }) => {
                link::refuse(stream.as_mut(), "too large").await
            }
            Ok(NodeRequest::Push { bytes, .. }) if bytes > PUSH_BYTES_MAX => {
                link::refuse(stream.as_mut(), "too large").await
            }
            Ok(_) => link::refuse(stream.as_mut(), NO_PARTITION).await,
            Err(unknown) => link::refuse(stream.as_mut(), &unknown.to_string()).await,
        }
    }

    /// Admits a client forwarded by another node, if this node is home of the partition.
    async fn take_client(
        &self,
        partition: PartitionId,
        listener: &str,
        peer: SocketAddr,
        mut stream: Box<dyn Stream>,
    ) -> std::io::Result<()> {
        let Some(way) = self.way(partition) else {
            return link::refuse(stream.as_mut(), "not home").await;
        };
        let (mut own, theirs) = pair().await?;
        if !way.entrances.admit(listener, theirs, peer).await? {
            // A protocol may have words for that.
            let mut refusal = Vec::new();
            own.read_to_end(&mut refusal).await?;
            if refusal.is_empty() {
                return link::refuse(stream.as_mut(), "no place").await;
            }
            link::accept(stream.as_mut()).await?;
            stream.write_all(&refusal).await?;
            return stream.shutdown().await;
        }
        drop(way);
        link::accept(stream.as_mut()).await?;
        exchange(stream, own).await
    }

    /// Admits a client that another node carries here, if this node is home.
    async fn take_carried(
        &self,
        listener: &str,
        peer: SocketAddr,
        bytes: u64,
        mut stream: Box<dyn Stream>,
    ) -> std::io::Result<()> {
        if self.way(PartitionId(0)).is_none() {
            return link::refuse(stream.as_mut(), NOT_HOME).await;
        }
        link::accept(stream.as_mut()).await?;
        let state = carrying::read_counted(&mut stream, bytes).await?;
        match self.enter_carried(listener, peer, &state).await? {
            Some(entered) => carrying::serve_caller(stream, entered).await,
            None => carrying::give_back(stream, state).await,
        }
    }

    /// Admits a client that continues here, with the state of its session.
    pub(super) async fn enter_carried(
        &self,
        listener: &str,
        peer: SocketAddr,
        state: &[u8],
    ) -> std::io::Result<Option<carrying::Entered>> {
        let Some(way) = self.way(PartitionId(0)) else {
            return Ok(None);
        };
        let (own, theirs) = pair().await?;
        let entered = self.carried.enter(own)?;
        // One without a place reads what its protocol says to that.
        way.entrances
            .admit_carried(listener, theirs, peer, state.to_vec())
            .await?;
        Ok(Some(entered))
    }

    /// Admits a client of this node for a database in a partition with layers of its own.
    pub(super) async fn enter(
        &self,
        partition: PartitionId,
        listener: &str,
        peer: SocketAddr,
    ) -> std::io::Result<Option<Box<dyn Stream>>> {
        let Some(way) = self.way(partition) else {
            return Ok(None);
        };
        let (own, theirs) = pair().await?;
        // One without a place reads what its protocol says to that.
        way.entrances.admit(listener, theirs, peer).await?;
        Ok(Some(Box::new(own)))
    }
}

/// The two ends of a connection within this process. The system buffers little of it: a client that
/// reads no replies must be noticed as soon as a direct client of this node.
async fn pair() -> std::io::Result<(TcpStream, TcpStream)> {
    let socket = || -> std::io::Result<TcpSocket> {
        let socket = TcpSocket::new_v4()?;
        socket.set_send_buffer_size(PAIR_BUFFER_BYTES)?;
        socket.set_recv_buffer_size(PAIR_BUFFER_BYTES)?;
        Ok(socket)
    };
    let listening = socket()?;
    listening.bind((std::net::Ipv4Addr::LOCALHOST, 0).into())?;
    let listener = listening.listen(16)?;
    let own = socket()?.connect(listener.local_addr()?).await?;
    loop {
        // Another process may have been quicker.
        let (theirs, peer) = listener.accept().await?;
        if peer == own.local_addr()? {
            return Ok((own, theirs));
        }
    }
}
