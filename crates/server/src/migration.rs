//! MIGRATE's conversation with the other server: its requests out, its replies in.
//!
//! A connection for each migration: one that is kept would have to be watched, and saves one round trip. Nothing of what the
//! other side says is believed beyond what a reply is, and no more of it is kept than a limit.

use std::future::Future;
use std::io;
use std::time::Duration;

use quartet_layer_redis::commands::migration::{Broken, Migration};
use quartet_wire_resp::{Value, decode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A reply to AUTH, SELECT or RESTORE is a line.
const UNREAD_BYTES_MAX: usize = 64 << 10;
const READ_BYTES: usize = 4 << 10;

/// The replies that came, and why there are not as many as requests.
pub async fn talk(migration: &Migration) -> (Vec<Value>, Option<Broken>) {
    let mut replies = Vec::new();
    let broken = exchange(migration, &mut replies).await.err();
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
