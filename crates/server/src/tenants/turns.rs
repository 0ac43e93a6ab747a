//! Whose turn it is: measures what a database executes, and makes one that has had more than its
//! share wait.
//!
//! While there is only the default database, taking a turn is one load.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use quartet_engine::PartitionId;
use quartet_tenancy::{Database, Share, Turns};

use crate::tenants::Tenants;

/// Takes turns for one connection, or one request, of a database; `None` is the default one.
#[derive(Clone)]
pub struct FairShare {
    tenants: Arc<Tenants>,
    database: Option<Arc<Database>>,
}

/// Interval at which a connection checks for the end of its database's long turn.
const LONG_TURN_RETRY: Duration = Duration::from_millis(2);

/// A turn that takes long; it ends when this is dropped.
pub struct LongTurn(Option<Arc<Database>>);

impl Drop for LongTurn {
    fn drop(&mut self) {
        if let Some(database) = &self.0 {
            database.turns.end_long();
        }
    }
}

/// The start of a turn, in microseconds; `None`: no other database wants a turn, and it is not
/// measured.
pub type Turn = Option<u64>;

impl FairShare {
    pub fn new(tenants: Arc<Tenants>, database: Option<Arc<Database>>) -> FairShare {
        FairShare { tenants, database }
    }

    /// Notes that the connection continues in another database.
    pub fn moved(&mut self, database: Option<Arc<Database>>) {
        self.database = database;
    }

    pub fn tenants(&self) -> &Arc<Tenants> {
        &self.tenants
    }

    /// `None` is the default one.
    pub fn database(&self) -> Option<&Database> {
        self.database.as_deref()
    }

    pub fn begin(&self) -> Turn {
        if self.tenants.catalogue.is_empty() {
            return None;
        }
        let now_micros = self.tenants.parts.engine.now_micros();
        if self.database.is_none() {
            self.tenants.active_micros.store(now_micros, Ordering::Relaxed);
        }
        self.share().is_contended().then_some(now_micros)
    }

    pub fn end(&self, turn: Turn) {
        if let Some(started_micros) = turn {
            let now_micros = self.tenants.parts.engine.now_micros();
            self.share().took_turn(self.turns(), started_micros, now_micros);
        }
    }

    /// Waits for the start of a long turn: the only one of its database, and after all debts are
    /// paid. The default database's turns belong to the operator, and start at once.
    pub async fn begin_long(&self) -> LongTurn {
        if self.database.is_none() {
            return LongTurn(None);
        }
        loop {
            if let Some(pause) = self.pause() {
                tokio::time::sleep(pause).await;
            } else if self.turns().begin_long() {
                return LongTurn(self.database.clone());
            } else {
                tokio::time::sleep(LONG_TURN_RETRY).await;
            }
        }
    }

    /// The wait before the next turn.
    pub fn pause(&self) -> Option<Duration> {
        if self.tenants.catalogue.is_empty() || !self.share().is_contended() {
            return None;
        }
        let micros = self.turns().pause_micros(self.tenants.parts.engine.now_micros());
        (micros > 0).then(|| Duration::from_micros(micros))
    }

    /// Does some work as one turn.
    pub fn take<T>(&self, work: impl FnOnce() -> T) -> T {
        let turn = self.begin();
        let done = work();
        self.end(turn);
        done
    }

    /// The partition of its database.
    #[inline]
    pub fn partition(&self) -> PartitionId {
        self.database
            .as_ref()
            .map_or(PartitionId(0), |database| database.partition())
    }

    fn share(&self) -> &Share {
        &self.tenants.shares[self.tenants.parts.partitions.place(self.partition())]
    }

    fn turns(&self) -> &Turns {
        match &self.database {
            Some(database) => &database.turns,
            None => &self.tenants.turns,
        }
    }
}
