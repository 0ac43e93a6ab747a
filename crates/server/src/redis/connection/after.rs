//! The work that a command leaves for after the lock.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use quartet_engine::Durability;
use quartet_layer_redis::command::migration::{Broken, Migration};
use quartet_layer_redis::replication::ReplicaRequest;
use quartet_layer_redis::{After, Deferred, LongRun, Redis, ReplicaWait};
use quartet_wire_resp::{Protocol, Reply};
use tokio::io::AsyncReadExt;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::socket::Socket;
use super::{BUFFER_BYTES, Connection, REPLICA_LOOK, Step};
use crate::redis::replicas::Serving;
use crate::redis::{rdb_file, save};

/// Time for which a migration waits for a script that holds the lock before it checks again.
const BUSY_RETRY: Duration = Duration::from_millis(20);

impl Connection {
    /// Runs a request where it may take long. Input that arrives meanwhile is read as far as there
    /// is room, to notice that the peer has left: a command that runs for it alone then ends.
    async fn run_long(&mut self, socket: &mut impl Socket, mut run: Box<LongRun>) {
        let long_turn = self.scheduler_handle.begin_long().await;
        let turn = self.scheduler_handle.begin();
        let mut running = tokio::task::spawn_blocking(move || {
            run.run();
            run
        });
        self.input.reserve(BUFFER_BYTES);
        let mut is_read = true;
        let ended = loop {
            let arrived = tokio::select! {
                ended = &mut running => break ended,
                arrived = socket.read_buf(&mut self.input), if is_read => arrived,
            };
            match arrived {
                Ok(0) | Err(_) => {
                    self.session.client().is_gone.store(true, Ordering::SeqCst);
                    is_read = false;
                }
                Ok(count) => {
                    self.note_input(count);
                    is_read = self.input.len() < self.input.capacity();
                }
            }
        };
        if let Ok(run) = ended {
            let dependency = self.session.take_back(*run, &mut self.output);
            self.count_replies();
            self.hold.dependency = self.hold.dependency.max(dependency);
        }
        self.scheduler_handle.end(turn);
        drop(long_turn);
    }

    /// Does the work that a command left for after the lock.
    pub(super) async fn perform(&mut self, socket: &mut impl Socket, after: After) -> io::Result<Step> {
        match after {
            After::LongRun(run) => self.run_long(socket, run).await,
            After::Sleep { micros } => tokio::time::sleep(Duration::from_micros(micros)).await,
            After::Deferred(Deferred::Replicate(request)) => {
                self.serve_replica(socket, *request).await?;
                return Ok(Step::Close);
            }
            After::Deferred(Deferred::AwaitReplicas(wait)) => return Ok(self.await_replicas(wait).await),
            After::Deferred(deferred) => self.perform_deferred(deferred).await,
        }
        Ok(Step::Continue)
    }

    /// Does a command's own remaining work. Its OK is the last reply in the output.
    async fn perform_deferred(&mut self, deferred: Deferred) {
        match deferred {
            Deferred::Checkpoint => self.work(|layer| save(layer)).await,
            Deferred::SaveUsers => self.work(|layer| layer.save_users()).await,
            Deferred::LoadUsers => {
                let (layer, own) = (self.layer.clone(), self.session.client().id);
                match tokio::task::spawn_blocking(move || layer.reload_users(own)).await {
                    Ok(Ok(true)) => self.session.end_after_replies(),
                    Ok(Err(text)) => self.replace_ok_by(&text),
                    _ => {}
                }
            }
            Deferred::RewriteConfig => self.work(|layer| layer.rewrite_config()).await,
            Deferred::ChangeTls(changes) => self.work(move |layer| layer.change_tls(changes)).await,
            Deferred::Shutdown => (self.layer.process.shutdown)(),
            Deferred::Migrate(migration) => self.migrate(Arc::from(migration)).await,
            Deferred::Replicate(_) | Deferred::AwaitReplicas(_) => unreachable!("they bring their own step"),
            Deferred::ReplicaOf(source) => {
                let conversations = self.conversations.clone();
                self.work(move |layer| conversations.replica_of.change(layer, source))
                    .await
            }
            Deferred::SaveInBackground => {
                self.layer.engine.checkpoint_in_background();
                rdb_file::write_in_background(self.layer.clone());
            }
        }
    }

    /// Runs work of the layer on a thread that may block. Its error replaces the OK.
    async fn work(&mut self, work: impl FnOnce(&Arc<Redis>) -> Result<(), String> + Send + 'static) {
        let layer = self.layer.clone();
        if let Ok(Err(text)) = tokio::task::spawn_blocking(move || work(&layer)).await {
            self.replace_ok_by(&text);
        }
    }

    /// Keys sent to another server cannot be rolled back, so they wait until they are durable here.
    async fn migrate(&mut self, migration: Arc<Migration>) {
        if self.waiters.released(self.hold).await.is_err() {
            // Nothing is sent to any target; the connection ends when its replies would be sent.
            return;
        }
        let (mut stop, conversations) = (self.stop.clone(), self.conversations.clone());
        let migrations = &conversations.migrations;
        let (replies, broken) = tokio::select! {
            conversation = migrations.talk(migration.clone()) => conversation,
            _ = stop.wait_for(|stops| *stops) => (Vec::new(), Some(Broken::Reading)),
        };
        loop {
            let ended = self
                .session
                .end_migration(&migration, &replies, broken, &mut self.output);
            match ended {
                Some(dependency) => return self.hold.dependency = self.hold.dependency.max(dependency),
                None => tokio::time::sleep(BUSY_RETRY).await,
            }
        }
    }

    /// The connection is a replica's until it ends. Its socket is written from a thread of its own.
    async fn serve_replica(&mut self, socket: &mut impl Socket, request: ReplicaRequest) -> io::Result<()> {
        let Some(again) = socket.again()? else {
            self.replace_output_by("ERR replicas are served over connections without TLS only");
            return Ok(());
        };
        self.send(socket).await?;
        let serving = Serving {
            layer: self.layer.clone(),
            client: self.session.client().clone(),
            request,
            stall_timeout: self.settings.connections.output_stall_timeout,
            stop: self.stop.clone(),
        };
        // Not one of the threads for what takes long: those are few, and this lasts.
        let (ended, over) = oneshot::channel();
        std::thread::Builder::new().name("replica".into()).spawn(move || {
            serving.run(again.into());
            let _ = ended.send(());
        })?;
        let _ = over.await;
        Ok(())
    }

    /// Replies how many replicas have all commits up to the request. If this home ends first, the
    /// wait continues at the next home, for its remaining time.
    async fn await_replicas(&mut self, wait: ReplicaWait) -> Step {
        if self.waiters.released(self.hold).await.is_err() {
            return Step::Continue;
        }
        let (layer, started) = (self.layer.clone(), Instant::now());
        let position = layer.replication.end();
        layer.replication.ask();
        let with_own = wait.disks.is_some_and(|disks| disks.with_own);
        // Replies sent under `always` have waited for the disk.
        let is_always = layer.space.durability == Durability::Always;
        let latest = || Some(layer.engine.read_in_time().ok()?.last_version());
        let mut commits = latest();
        let mut is_own = || {
            commits = commits.or_else(latest);
            is_always || commits.is_some_and(|commits| layer.engine.is_durable(commits))
        };
        let replicas = || layer.replicas_at(position, wait.disks.is_some());
        let is_over = || wait.timeout_ms > 0 && started.elapsed().as_millis() as u64 >= wait.timeout_ms;
        while (replicas() < wait.count || with_own && !is_own())
            && !is_over()
            && !*self.stop.borrow()
            && !self.session.client().killed.load(Ordering::SeqCst)
        {
            tokio::time::sleep(REPLICA_LOOK).await;
        }
        if *self.stop.borrow() && !is_over() && self.way_out.open().is_some() {
            let spent_ms = started.elapsed().as_millis() as u64;
            let left_ms = if wait.timeout_ms > 0 {
                (wait.timeout_ms - spent_ms).max(1)
            } else {
                0
            };
            return Step::Leave {
                request: wait.request(left_ms),
            };
        }
        let own = wait.disks.is_some() && is_own();
        wait.reply(own, replicas(), &mut Reply::new(&mut self.output, Protocol::Resp2));
        Step::Continue
    }

    fn replace_ok_by(&mut self, error: &str) {
        let ok = b"+OK\r\n".len();
        self.output.truncate(self.output.len().saturating_sub(ok));
        Reply::new(&mut self.output, Protocol::Resp2).error(error);
    }

    pub(super) fn replace_output_by(&mut self, error: &str) {
        Reply::new(&mut self.output, Protocol::Resp2).error(error);
    }
}
