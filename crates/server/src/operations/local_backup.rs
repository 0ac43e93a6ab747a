//! The two ends of a backup taken by the server itself: its own engine, and a target that stops all
//! transfers at the end of the backup.

use std::io;
use std::sync::Weak;
use std::time::{SystemTime, UNIX_EPOCH};

use quartet_backup::{Anchor, BackupError, BackupStart, Session, Source, Target};
use quartet_engine::PartitionId;
use quartet_model::LogSequence;

use crate::operations::backups::{database_names, mark};
use crate::tenants::Tenants;

const STOPPED: &str = "it was stopped";

/// True once the backup is to end.
pub type IsStopped<'s> = &'s (dyn Fn() -> bool + Sync);

pub struct Watched<'s> {
    target: Box<dyn Target>,
    is_stopped: IsStopped<'s>,
}

impl Watched<'_> {
    pub fn new(target: Box<dyn Target>, is_stopped: IsStopped<'_>) -> Watched<'_> {
        Watched { target, is_stopped }
    }

    fn target(&self) -> io::Result<&dyn Target> {
        match (self.is_stopped)() {
            true => Err(io::Error::other(STOPPED)),
            false => Ok(&*self.target),
        }
    }
}

impl Target for Watched<'_> {
    fn list(&self) -> io::Result<Vec<String>> {
        self.target()?.list()
    }

    fn get(&self, name: &str) -> io::Result<Vec<u8>> {
        self.target()?.get(name)
    }

    fn put(&self, name: &str, bytes: Vec<u8>) -> io::Result<()> {
        self.target()?.put(name, bytes)
    }

    fn put_new(&self, name: &str, bytes: Vec<u8>) -> io::Result<()> {
        self.target()?.put_new(name, bytes)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.target()?.remove(name)
    }

    fn is_held(&self) -> bool {
        self.target.is_held()
    }
}

/// An engine of this server.
pub struct LocalSource<'s> {
    tenants: Weak<Tenants>,
    partition: PartitionId,
    session: Option<Session>,
    is_stopped: IsStopped<'s>,
}

impl LocalSource<'_> {
    pub fn new(tenants: Weak<Tenants>, partition: PartitionId, is_stopped: IsStopped<'_>) -> LocalSource<'_> {
        LocalSource {
            tenants,
            partition,
            session: None,
            is_stopped,
        }
    }

    fn session(&mut self) -> Result<&mut Session, BackupError> {
        if (self.is_stopped)() {
            return Err(BackupError::Source(STOPPED.into()));
        }
        self.session
            .as_mut()
            .ok_or_else(|| BackupError::Source("no backup was started".into()))
    }
}

impl Source for LocalSource<'_> {
    fn begin(&mut self, anchor: Option<Anchor>, is_full: bool) -> Result<BackupStart, BackupError> {
        let tenants = self.tenants.upgrade();
        let tenants = tenants.ok_or_else(|| BackupError::Source(STOPPED.into()))?;
        let partitions = &tenants.parts.partitions;
        let engine = partitions.engine(self.partition).clone();
        if partitions.count() > 1 {
            mark(&tenants, self.partition).map_err(BackupError::Source)?;
        }
        let (session, mut description) = Session::begin(engine, anchor, is_full)?;
        description.databases = database_names(&tenants, self.partition);
        self.session = Some(session);
        Ok(description)
    }

    fn rows(&mut self, after: Option<&[u8]>, bytes_max: usize) -> Result<Vec<u8>, BackupError> {
        self.session()?.rows(after, bytes_max)
    }

    fn log(&mut self, from: LogSequence, bytes_max: usize) -> Result<Vec<u8>, BackupError> {
        self.session()?.log(from, bytes_max)
    }

    fn now_micros(&self) -> u64 {
        now_micros()
    }
}

pub fn now_micros() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    since_epoch.map_or(0, |passed| passed.as_micros() as u64)
}
