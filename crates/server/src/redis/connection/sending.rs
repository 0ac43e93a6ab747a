//! Sends replies once what they depend on is durable, at the pace of the peer.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use quartet_engine::Dependency;
use tokio::io::AsyncReadExt;

use super::socket::Socket;
use super::{BUFFER_BYTES, Connection, has_room_to_read};
use crate::limits::transfer_deadline::{OUTPUT_BYTES_PER_SECOND_MIN, Pace, sent_at_once};

impl Connection {
    /// Sends the output once everything it depends on is durable.
    pub(super) async fn send(&mut self, socket: &mut impl Socket) -> io::Result<()> {
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
    /// too much is waiting for it. Its requests are read on meanwhile, as it may be sending all of
    /// them before it reads.
    pub(super) async fn send_slowly(&mut self, socket: &mut impl Socket, sent: usize) -> io::Result<()> {
        let pace = Pace {
            timeout: self.stall_timeout(),
            bytes_per_second: OUTPUT_BYTES_PER_SECOND_MIN,
        };
        let input_bytes_max = self.input_bytes_while_sending_max();
        let (connection_waker, client) = (&self.connection_waker, self.session.client());
        let mut signalled = false;
        let mut killed = pin!(poll_fn(|context| {
            while connection_waker.poll_signalled(context).is_ready() {
                signalled = true;
                if client.killed.load(Ordering::SeqCst) {
                    return Poll::Ready(());
                }
            }
            Poll::Pending
        }));
        let (mut receiving, mut sending) = tokio::io::split(socket);
        let output = &self.output[sent..];
        let mut writing = pin!(pace.write_all(&mut sending, output));
        let (input, memory, mut arrived_bytes, mut is_read) = (&mut self.input, &mut self.memory, 0, true);
        let written = loop {
            is_read &= input.len() < input_bytes_max && has_room_to_read(input, memory);
            let arrived = tokio::select! {
                written = &mut writing => break written,
                () = &mut killed => break Err(io::ErrorKind::ConnectionAborted.into()),
                arrived = receiving.read_buf(&mut *input), if is_read => arrived,
            };
            match arrived {
                Ok(count) if count > 0 => arrived_bytes += count,
                // It sends nothing more, and may read on.
                _ => is_read = false,
            }
        };
        if let Err(error) = &written
            && error.kind() == io::ErrorKind::TimedOut
        {
            let (address, unsent) = (&client.address, output.len());
            tracing::warn!(%address, unsent, "closed a Redis connection that leaves its replies unread");
        }
        // Mail that was left meanwhile is still to be fetched.
        if signalled {
            self.connection_waker.signal();
        }
        if arrived_bytes > 0 {
            self.note_input(arrived_bytes);
        }
        written
    }

    /// Time for which the peer may leave replies unread.
    pub(super) fn stall_timeout(&self) -> Duration {
        let number = |field: &std::sync::atomic::AtomicI64| field.load(Ordering::Relaxed) as u64;
        let config = &self.layer.config;
        let soft = number(&config.output_bytes_soft);
        if soft > 0 && self.output.len() as u64 > soft {
            let soft_timeout = Duration::from_secs(number(&config.output_soft_seconds));
            return soft_timeout.min(self.settings.connections.output_stall_timeout);
        }
        self.settings.connections.output_stall_timeout
    }

    /// Bytes of requests that are read while replies are unsent. A peer that sends more without
    /// reading waits.
    pub(super) fn input_bytes_while_sending_max(&self) -> usize {
        let reply_bytes_max = self.layer.reply_memory_max() as usize;
        self.consumed + self.request_bytes_max().min(reply_bytes_max)
    }

    /// The replies exceed the hard limit of `client-output-buffer-limit`: the connection closes and
    /// sends none of them.
    pub(super) fn has_too_much_output(&self) -> bool {
        let bytes_max = self.layer.config.output_bytes_max();
        bytes_max.is_some_and(|bytes_max| self.output.len() + self.session.lacking_bytes() > bytes_max)
    }
}
