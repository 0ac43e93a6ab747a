//! The outcome of a command that was not refused: it has answered, or something is left to be done
//! that its handler cannot do by itself.

use quartet_wire_resp::{Reply, encode_command};

use crate::access::database_login::DatabaseLogin;
use crate::command::migration::Migration;
use crate::config::Change;
use crate::connections::blocking::Block;
use crate::replication::ReplicaRequest;

/// The outcome of a command that was not refused. The effects of [`Outcome::Done`] and
/// [`Outcome::Wait`] stay; all others leave nothing in the transaction. Each command moves one, so
/// the rare and large parts are boxed.
#[derive(Debug)]
pub enum Outcome {
    /// The reply is written.
    Done,
    /// No reply yet: call again when one of the keys changes. Inside EXEC it replies immediately.
    Wait(Box<Block>),
    /// Work to be done after the lock is released, before the reply.
    After(Deferred),
    /// Wrong passwords preceded this one: receive the request again after this time.
    Retry { after_micros: u64 },
    /// A script takes too long for the thread that runs it: run the request where it may take
    /// long.
    RunLong,
    /// The credentials open another logical database: the connection continues there, with this
    /// request.
    SwitchDatabase(Box<DatabaseLogin>),
}

/// Work that needs the engine without the partition's lock.
pub enum Deferred {
    /// Write a checkpoint and answer OK when it is on disk.
    Checkpoint,
    /// Write the users down with [`Redis::save_users`](crate::Redis::save_users) and answer OK when
    /// that is done.
    SaveUsers,
    /// Replace the users by those kept with
    /// [`Redis::reload_users`](crate::Redis::reload_users) and answer OK when that is done.
    LoadUsers,
    /// Write the parameters that were changed to the configuration file with
    /// [`Redis::rewrite_config`](crate::Redis::rewrite_config) and answer OK when that is done.
    RewriteConfig,
    /// Use another certificate with [`Redis::change_tls`](crate::Redis::change_tls), keep these
    /// parameters, of which some are about it, and answer OK when that is done.
    ChangeTls(Vec<Change>),
    /// Shut the server down.
    Shutdown,
    /// Talk to another server, and hand what it said to
    /// [`Session::end_migration`](crate::Session::end_migration). No OK is written yet.
    Migrate(Box<Migration>),
    /// The connection is a replica from now on. No OK is written.
    Replicate(Box<ReplicaRequest>),
    /// Waits for replicas, and replies how many have the committed writes. No OK is written.
    AwaitReplicas(ReplicaWait),
    /// Be a replica of the server at this host and port, or of none, and answer OK when that is
    /// written down.
    ReplicaOf(Option<(String, u16)>),
    /// Start writing a checkpoint, and the RDB file beside it.
    SaveInBackground,
}

/// The wait of WAIT or WAITAOF until this many replicas have the committed writes, or until the
/// timeout in milliseconds; a timeout of zero is none.
#[derive(Clone, Copy)]
pub struct ReplicaWait {
    pub count: u64,
    pub timeout_ms: u64,
    /// WAITAOF: the writes must be on the replicas' disks.
    pub disks: Option<Disks>,
}

/// Whether WAITAOF waits for this server's disk as well.
#[derive(Clone, Copy)]
pub struct Disks {
    pub with_own: bool,
}

impl ReplicaWait {
    /// The same request with another timeout.
    pub fn request(&self, timeout_ms: u64) -> Vec<u8> {
        let (count, timeout_ms) = (self.count.to_string(), timeout_ms.to_string());
        let mut request = Vec::new();
        match self.disks {
            None => encode_command(&["WAIT", &count, &timeout_ms], &mut request),
            Some(disks) => {
                let own = if disks.with_own { "1" } else { "0" };
                encode_command(&["WAITAOF", own, &count, &timeout_ms], &mut request);
            }
        }
        request
    }

    /// Writes the answer: the number of replicas, with `own` in front of it for WAITAOF.
    pub fn reply(&self, own: bool, replicas: u64, reply: &mut Reply<'_>) {
        if self.disks.is_some() {
            reply.array(2);
            reply.integer(own.into());
        }
        reply.integer(i64::try_from(replicas).unwrap_or(i64::MAX));
    }
}

impl std::fmt::Debug for Deferred {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Deferred::Checkpoint => "Checkpoint",
            Deferred::SaveUsers => "SaveUsers",
            Deferred::LoadUsers => "LoadUsers",
            Deferred::RewriteConfig => "RewriteConfig",
            Deferred::ChangeTls(_) => "ChangeTls",
            Deferred::Shutdown => "Shutdown",
            Deferred::Migrate(_) => "Migrate",
            Deferred::Replicate(_) => "Replicate",
            Deferred::AwaitReplicas(_) => "AwaitReplicas",
            Deferred::ReplicaOf(_) => "ReplicaOf",
            Deferred::SaveInBackground => "SaveInBackground",
        })
    }
}
