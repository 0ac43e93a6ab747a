//! MIGRATE's conversations with other servers: requests out, replies in.
//!
//! They use a thread of their own, started with the first migration, with few more for name
//! resolution: a target that does not respond, or whose name does not resolve, delays only the
//! connection that requested the migration. A connection for each migration: a kept connection
//! would need supervision, and saves one round trip. Nothing that the other side sends is trusted
//! beyond the format of a reply, and only a limited part of it is kept.

use std::future::Future;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use quartet_layer_redis::command::migration::{Broken, Migration};
use quartet_wire_resp::{Value, decode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, mpsc, oneshot};

use crate::limits::transfer_deadline::Pace;

/// A reply to AUTH, SELECT or RESTORE is a line.
const UNREAD_BYTES_MAX: usize = 64 << 10;
const READ_BYTES: usize = 4 << 10;
/// Conversations at once; others wait for their turn within their time.
const AT_ONCE: usize = 16;
/// Threads that resolve names.
const NAME_THREADS: usize = 2;
/// The least rate of a conversation as a whole.
const BYTES_PER_SECOND: u64 = 256 << 10;

/// The thread of conversations.
#[derive(Default)]
pub struct Migrations {
    /// To the thread, once it is started; `None`: it could not be.
    jobs: OnceLock<Option<mpsc::UnboundedSender<Job>>>,
}

struct Job {
    migration: Arc<Migration>,
    ended: oneshot::Sender<Conversation>,
}

/// The received replies, and the reason why there are fewer than requests.
pub type Conversation = (Vec<Value>, Option<Broken>);

impl Migrations {
    pub async fn talk(&self, migration: Arc<Migration>) -> Conversation {
        let (ended, conversation) = oneshot::channel();
        let jobs = self.jobs.get_or_init(start);
        let is_sent = jobs
            .as_ref()
            .is_some_and(|jobs| jobs.send(Job { migration, ended }).is_ok());
        match conversation.await {
            Ok(conversation) if is_sent => conversation,
            _ => (Vec::new(), Some(Broken::Connecting)),
        }
    }
}

/// Starts the thread; it ends when all senders are dropped, and aborts the migrations in progress.
fn start() -> Option<mpsc::UnboundedSender<Job>> {
    let (jobs, queue) = mpsc::unbounded_channel();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(NAME_THREADS)
        .enable_all()
        .build();
    let started = runtime.and_then(|runtime| {
        std::thread::Builder::new().name("migrations".into()).spawn(move || {
            runtime.block_on(serve(queue));
            runtime.shutdown_background();
        })
    });
    started
        .inspect_err(|error| tracing::error!(%error, "starting the thread of migrations"))
        .ok()
        .map(|_| jobs)
}

async fn serve(mut queue: mpsc::UnboundedReceiver<Job>) {
    let turns = Arc::new(Semaphore::new(AT_ONCE));
    while let Some(Job { migration, ended }) = queue.recv().await {
        let turns = turns.clone();
        tokio::spawn(async move {
            // The client may have disconnected.
            let _ = ended.send(talk(&migration, &turns).await);
        });
    }
}

async fn talk(migration: &Migration, turns: &Semaphore) -> Conversation {
    let mut replies = Vec::new();
    let pace = Pace {
        timeout: Duration::from_millis(migration.timeout_ms),
        bytes_per_second: BYTES_PER_SECOND,
    };
    let deadline = pace.deadline(tokio::time::Instant::now(), migration.requests.len() as u64);
    let conversation = async {
        let _turn = turns.acquire().await.map_err(|_| Broken::Connecting)?;
        exchange(migration, &mut replies).await
    };
    let broken = match tokio::time::timeout_at(deadline, conversation).await {
        Ok(exchanged) => exchanged.err(),
        Err(_) => Some(Broken::Reading),
    };
    (replies, broken)
}

async fn exchange(migration: &Migration, replies: &mut Vec<Value>) -> Result<(), Broken> {
    let timeout = Duration::from_millis(migration.timeout_ms);
    let connecting = TcpStream::connect((migration.host.as_str(), migration.port));
    let mut socket = match tokio::time::timeout(timeout, connecting).await {
        Ok(Ok(socket)) => socket,
        // Redis learns that it was refused when it writes.
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => return Err(Broken::Writing),
        _ => return Err(Broken::Connecting),
    };
    let writing = socket.write_all(&migration.requests);
    within(timeout, writing).await.ok_or(Broken::Writing)?;
    let mut unread = Vec::new();
    while replies.len() < migration.reply_count() {
        match decode(&unread) {
            Ok(Some((reply, consumed))) => {
                replies.push(reply);
                unread.drain(..consumed);
            }
            Ok(None) if unread.len() < UNREAD_BYTES_MAX => {
                unread.reserve(READ_BYTES);
                let read = within(timeout, socket.read_buf(&mut unread)).await;
                read.filter(|&count| count > 0).ok_or(Broken::Reading)?;
            }
            _ => return Err(Broken::Reading),
        }
    }
    Ok(())
}

async fn within<T>(timeout: Duration, step: impl Future<Output = io::Result<T>>) -> Option<T> {
    tokio::time::timeout(timeout, step).await.ok()?.ok()
}
