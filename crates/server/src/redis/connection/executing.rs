//! Executes the requests that have arrived, one batch under the lock after the other.

use std::io;
use std::sync::atomic::Ordering;

use quartet_layer_redis::{Made, Next};

use super::socket::Socket;
use super::{BUFFER_BYTES, Connection, OUTPUT_BYTES_FLUSH, Step};
use crate::connections::durability::Hold;

impl Connection {
    /// Executes every complete received request. Returns what follows; never [`Step::Continue`].
    pub(super) async fn execute(&mut self, socket: &mut impl Socket) -> io::Result<Step> {
        loop {
            match self.execute_batch(socket).await? {
                Step::Continue => {}
                step => return Ok(step),
            }
        }
    }

    /// Executes received requests under one hold of the lock, and the work that they left.
    async fn execute_batch(&mut self, socket: &mut impl Socket) -> io::Result<Step> {
        if let Some(pause) = self.scheduler_handle.pause() {
            tokio::time::sleep(pause).await;
        }
        // The arrival of a request that is executed precedes the hold of requests: a later one
        // has no confirmation before the next home.
        let arrival = self.waiters.arrival(self.layer.space.durability);
        if self.waiters.are_requests_held() {
            return self.wait_until_free(socket).await;
        }
        let turn = self.scheduler_handle.begin();
        self.hold.arrival = arrival;
        let input = &self.input[self.consumed..];
        let received = self.session.receive_in_steps(input, &mut self.output);
        self.scheduler_handle.end(turn);
        self.count_replies();
        self.consumed += received.consumed;
        self.hold.dependency = self.hold.dependency.max(received.dependency);
        self.forget_consumed();
        match received.next {
            Next::More => {}
            Next::Busy => {
                return match self.finish_reply(socket).await? {
                    true => self.wait_until_free(socket).await,
                    false => Ok(Step::Close),
                };
            }
            Next::Moved => return self.enter_database(socket).await,
            Next::Elsewhere {
                database_login,
                request_bytes,
            } => return self.go_elsewhere(socket, &database_login, request_bytes).await,
            Next::After(after) => match self.perform(socket, after).await? {
                Step::Continue => {}
                step => return Ok(step),
            },
            Next::Close => {
                self.finish_reply(socket).await?;
                return Ok(Step::Close);
            }
        }
        if !self.finish_reply(socket).await? {
            return Ok(Step::Close);
        }
        self.next_batch(socket, received.consumed).await
    }

    /// Returns whether more of the input can be executed; `consumed` bytes just were. The replies
    /// are sent first if there are many.
    async fn next_batch(&mut self, socket: &mut impl Socket, consumed: usize) -> io::Result<Step> {
        let waiting_bytes = self.input.len() - self.consumed + self.session.words_bytes();
        if waiting_bytes > self.request_bytes_max() {
            self.replace_output_by("ERR Protocol error: request exceeds the maximum size");
            return Ok(Step::Close);
        }
        if consumed == 0 || self.consumed == self.input.len() || self.session.is_blocked() {
            return Ok(Step::Wait);
        }
        if self.output.len() >= OUTPUT_BYTES_FLUSH {
            self.send(socket).await?;
        }
        // Other connections of this thread get their turn between two locks' worth of a long
        // pipeline.
        tokio::task::yield_now().await;
        Ok(Step::Continue)
    }

    /// Sends the replies that are there, and waits until the partition may be free.
    async fn wait_until_free(&mut self, socket: &mut impl Socket) -> io::Result<Step> {
        self.send(socket).await?;
        self.waiters.free().await;
        if self.session.client().killed.load(Ordering::SeqCst) {
            return Ok(Step::Close);
        }
        if *self.stop.borrow() {
            // The connection leaves, or ends, when it is woken.
            self.connection_waker.signal();
            return Ok(Step::Wait);
        }
        Ok(Step::Continue)
    }

    /// Completes the newest reply. Returns false if the connection must be closed: the replies are
    /// too large, one cannot be completed, or the session ends.
    async fn finish_reply(&mut self, socket: &mut impl Socket) -> io::Result<bool> {
        let is_completed = !self.has_too_much_output() && self.complete_reply(socket).await?;
        Ok(is_completed && !self.session.is_ending())
    }

    /// Makes the parts that the newest reply lacks, and sends them meanwhile. Other connections of
    /// this thread get their turn between two steps. False if the disk did not return something,
    /// and the reply cannot be completed.
    pub(super) async fn complete_reply(&mut self, socket: &mut impl Socket) -> io::Result<bool> {
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

    /// Continues in the logical database that the session now belongs to.
    async fn enter_database(&mut self, socket: &mut impl Socket) -> io::Result<Step> {
        if self.follow_session() {
            // Replies and mail that are here rest on the partition that the session has left.
            while !self.output.is_empty() || self.session.client().has_mail() {
                self.collect_mail();
                self.send(socket).await?;
            }
            self.enter_partition();
        }
        Ok(Step::Continue)
    }

    /// Follows the session into another logical database. Returns true if that is in another
    /// partition.
    pub(super) fn follow_session(&mut self) -> bool {
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
    pub(super) fn enter_partition(&mut self) {
        debug_assert!(self.output.is_empty());
        self.partition = self.scheduler_handle.partition();
        self.waiters = self.thread_waiters.of(self.partition).clone();
        self.hold = Hold::default();
    }

    /// Drops what was executed from the input, and gives back what an unusually large request took.
    pub(super) fn forget_consumed(&mut self) {
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
}
