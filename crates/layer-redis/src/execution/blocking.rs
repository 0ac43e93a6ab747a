//! Serves clients that wait for a key, once a transaction has changed it.

use crate::command::errors;
use crate::command::{Command, WRITE};
use crate::connections::blocking::Asked;
use crate::connections::blocking::Block;
use crate::connections::clients::ClientState;
use crate::execution::call::{Call, answer_error, call};
use crate::handler::outcome::Outcome;
use crate::keyspace::{Keyspace, name_of_row};
use crate::layer::Redis;
use quartet_engine::PartitionGuard;
use quartet_wire_resp::{Limits, Parsed, Parser, Reply};
use std::sync::Arc;

impl Redis {
    /// Lets the client wait. `request` is its command for the repeated call.
    pub fn wait(
        &self,
        partition: &mut PartitionGuard<'_>,
        client: &ClientState,
        command: &'static Command,
        request: Arc<[u8]>,
        block: Block,
    ) {
        self.connections
            .blocking
            .add(partition, self.space, client, command, request, block);
    }

    /// Ends the wait without an element, at its deadline or by CLIENT UNBLOCK. False if the client
    /// does not wait.
    pub fn end_wait(&self, partition: &mut PartitionGuard<'_>, client_id: u64, error: Option<&str>) -> bool {
        let Some(waiter) = self.connections.blocking.remove(partition, client_id) else {
            return false;
        };
        let mut bytes = Vec::new();
        let mut reply = Reply::new(&mut bytes, waiter.protocol);
        match error {
            Some(error) => reply.error(error),
            None => reply.null_array(),
        }
        self.observation
            .statistics
            .wait_ended(self.table.index(waiter.command), error);
        // That there was nothing to take may rest on what is not durable yet.
        waiter
            .client
            .post(&bytes, partition.latest_dependency(self.space), true);
        true
    }

    /// Serves the clients that wait for keys changed since the last call. Called with the lock
    /// held, after each transaction.
    #[inline]
    pub fn serve_blocked(&self, partition: &mut PartitionGuard<'_>) {
        while self.connections.blocking.has_work() {
            for (client_id, error) in self.connections.blocking.take_ends() {
                self.end_wait(partition, client_id, error);
            }
            let Some(row) = self.connections.blocking.next_row() else {
                return;
            };
            self.serve_key(partition, &row);
        }
    }

    /// Serves clients whose scheduled time has passed. Called about ten times a second.
    pub fn serve_due(&self) {
        let now_ms = self.engine.now_micros() / 1000;
        self.connections.blocking.ask_due(now_ms);
        if self.connections.blocking.has_work()
            && let Ok(mut partition) = self.partition_in_time()
        {
            self.serve_blocked(&mut partition);
            self.send_outbox();
        }
    }

    fn serve_key(&self, partition: &mut PartitionGuard<'_>, row: &[u8]) {
        let blocking = &self.connections.blocking;
        let name = name_of_row(row);
        let (mut turn, mut is_there) = (0, None);
        while blocking.has_waiter(row, is_there == Some(false)) {
            let is_there_now = *is_there.get_or_insert_with(|| exists(partition, self, row));
            let Some(waiting) = blocking.next_waiting(&self.access.users, row, turn, !is_there_now) else {
                break;
            };
            turn = waiting.turn;
            let client_id = waiting.client.shared.id;
            let mut bytes = Vec::new();
            if let Some(dependency) = retry(partition, self, waiting, &name, &mut bytes)
                && let Some(waiter) = blocking.remove(partition, client_id)
            {
                waiter.client.post(&bytes, dependency, true);
                self.send_outbox();
                // Once it was removed, no further client is called as for an existing key, even if
                // a command has created it again.
                is_there = is_there.filter(|is_there| !is_there);
            }
        }
        // The served clients' own work made the row ready once more.
        if is_there == Some(false) && !blocking.has_waiter(row, true) {
            blocking.is_done_with(row);
        }
    }
}

/// Calls a waiting command again, because the key `changed`. `None`: it keeps waiting, as most
/// commands do while the key is of another kind.
fn retry(
    partition: &mut PartitionGuard<'_>,
    layer: &Redis,
    waiting: Asked,
    changed: &[u8],
    bytes: &mut Vec<u8>,
) -> Option<quartet_engine::Dependency> {
    let Asked {
        command,
        request,
        even_if_gone,
        mut client,
        ..
    } = waiting;
    let mut parser = Parser::new();
    let Ok(Parsed::Request { .. }) = parser.parse(&request, &Limits::unlimited()) else {
        return None;
    };
    let arguments = parser.arguments(&request);
    // So may the server's part have.
    if layer.replication.is_replica() && (command.has(WRITE) || layer.replication.is_partial()) {
        Reply::new(bytes, client.protocol).error(errors::UNBLOCKED);
        return Some(quartet_engine::Dependency::ZERO);
    }
    // The rules may have changed while it waited.
    if let Err(denial) = client.user.check(command, arguments) {
        let text = denial.text(command);
        layer.observation.statistics.error_sent(text.as_bytes());
        Reply::new(bytes, client.protocol).error(&text);
        return Some(quartet_engine::Dependency::ZERO);
    }
    let retry = Call {
        command,
        arguments,
        retry_for: Some(changed),
    };
    let ended = call(partition, layer, &mut client, &retry, bytes);
    match ended.outcome {
        Ok(Outcome::Done) => {}
        Ok(Outcome::Wait(block)) => {
            let client_id = client.shared.id;
            layer.connections.blocking.ask_again(client_id, block.again_at_ms);
            return None;
        }
        Ok(_) => return None,
        // As most commands do while the key is of another kind.
        Err(error) if error.text == errors::WRONG_TYPE && !error.ends_wait && !even_if_gone => return None,
        Err(error) => answer_error(layer, &error, &mut Reply::new(bytes, client.protocol)),
    }
    Some(ended.dependency)
}

fn exists(partition: &mut PartitionGuard<'_>, layer: &Redis, row: &[u8]) -> bool {
    let now_ms = partition.now_micros() / 1000;
    let exists = partition.execute(layer.space, |tx| -> Result<bool, ()> {
        let (db, changes) = (row[1], &layer.changes);
        Ok(Keyspace {
            tx,
            db,
            now_ms,
            changes,
        }
        .find(&name_of_row(row))
        .is_some())
    });
    exists.is_ok_and(|(exists, _)| exists)
}
