//! The end of MIGRATE: keys that the other server has taken are removed here, and the command is
//! answered.

use quartet_engine::{Dependency, PartitionGuard};
use quartet_wire_resp::{Args, Reply, Value};

use crate::command::migration::{Broken, Migration, Sent};
use crate::commands::serialization::payload;
use crate::connections::clients::ClientState;
use crate::handler::context::Context;
use crate::handler::groups::Groups;
use crate::layer::Redis;

impl Migration {
    /// Removes what has arrived, and answers.
    fn end(
        &self,
        layer: &Redis,
        partition: &mut PartitionGuard<'_>,
        client: &ClientState,
        replies: &[Value],
        broken: Option<Broken>,
        reply: &mut Reply<'_>,
    ) -> Dependency {
        let (preliminary, restored) = replies.split_at(replies.len().min(self.preliminary_count()));
        let refusal = preliminary.iter().find_map(error_of);
        let is_taken = |reply: &&Value| refusal.is_none() && error_of(reply).is_none();
        let restored_keys = self.sent.iter().zip(restored).filter(|(_, reply)| is_taken(reply));
        let restored_keys: Vec<&Sent> = restored_keys.map(|(sent, _)| sent).collect();
        let (changed, dependency) = match self.keeps_keys {
            true => (0, Dependency::ZERO),
            false => self.remove(layer, partition, client, &restored_keys),
        };
        let error = refusal.or_else(|| restored.iter().find_map(error_of));
        let text = match (error, broken) {
            (Some(error), _) => format!("ERR Target instance replied with error: {error}"),
            (None, Some(broken)) => broken.text().into(),
            (None, None) if changed > 0 => {
                format!(
                    "ERR {changed} of the keys changed while they were migrated, and stay; what the target has of them is older"
                )
            }
            (None, None) => {
                reply.ok();
                return dependency;
            }
        };
        layer.observation.statistics.error_sent(text.as_bytes());
        reply.error(&text);
        dependency
    }

    /// Removes keys in one transaction. Returns how many were left because they are no longer what
    /// was sent.
    fn remove(
        &self,
        layer: &Redis,
        partition: &mut PartitionGuard<'_>,
        client: &ClientState,
        restored_keys: &[&Sent],
    ) -> (usize, Dependency) {
        let now_ms = partition.now_micros() / 1000;
        let mut client = ClientState::new(client.shared.clone(), true, client.user.clone());
        client.db = self.db;
        let mut ignored = Vec::new();
        let outcome = partition.execute(layer.space, |tx| {
            let reply = Reply::new(&mut ignored, quartet_wire_resp::Protocol::Resp2);
            let mut context = Context {
                tx,
                client: &mut client,
                groups: Groups::of(layer),
                reply,
                now_ms,
                in_exec: true,
                retry_for: None,
            };
            let changed = restored_keys
                .iter()
                .filter(|sent| !self.remove_key(&mut context, sent))
                .count();
            layer.follow_changes(context.tx, now_ms);
            self.tell(layer, &context);
            Ok::<usize, ()>(changed)
        });
        match outcome {
            Ok((changed, dependency)) => {
                layer.outbox.commit(dependency);
                layer.replication.commit(dependency);
                layer.send_outbox();
                layer.serve_blocked(partition);
                (changed, dependency)
            }
            Err(_) => {
                layer.changes.take();
                layer.roll_modules_back();
                (restored_keys.len(), Dependency::ZERO)
            }
        }
    }

    /// Returns false if the key has changed meanwhile. A key that was removed needs no removal.
    fn remove_key(&self, context: &mut Context<'_, '_>, sent: &Sent) -> bool {
        let Some(entry) = context.keys().find(&sent.name) else {
            return true;
        };
        let is_same = entry.expiry_ms == sent.expiry_ms
            && payload(context, &entry).is_ok_and(|now| now == self.requests[sent.payload.clone()]);
        if is_same {
            context.keys().remove(&sent.name);
        }
        is_same
    }

    fn tell(&self, layer: &Redis, context: &Context<'_, '_>) {
        let changes = context.changes().take();
        let mut words = Args::new();
        words.gather([b"migrate"].iter());
        let arguments = words.of(b"");
        let command = context.table().find_of(arguments).expect("the command of this file");
        layer.notify(Some((command, arguments)), &changes);
        layer.invalidate(Some(context.client.shared.id), &changes);
        layer.gather_removed(&changes);
    }
}

/// The text of an error reply.
fn error_of(reply: &Value) -> Option<String> {
    match reply {
        Value::Error(text) => Some(String::from_utf8_lossy(text).into_owned()),
        _ => None,
    }
}

impl Redis {
    /// Ends a migration after its exchange. `None`: a script holds the lock; call again.
    pub fn end_migration(
        &self,
        migration: &Migration,
        client: &ClientState,
        replies: &[Value],
        broken: Option<Broken>,
        out: &mut Vec<u8>,
    ) -> Option<Dependency> {
        let mut partition = self.partition_in_time().ok()?;
        let mut reply = Reply::new(out, client.protocol);
        Some(migration.end(self, &mut partition, client, replies, broken, &mut reply))
    }
}
