//! The Redis users of a logical database, the default one too: one row of its system space.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use quartet_engine::{Busy, Engine, ExecuteError, Row, Space};
use quartet_layer_redis::access::acl::UserFile;
use quartet_model::Version;

/// The user of a database's read-only token.
pub const READER: &[u8] = b"default_ro";

pub struct UsersInDatabase {
    engine: Arc<Engine>,
    space: Space,
    /// The version of the row that was read last; `None`: there was none.
    last: Mutex<Option<Version>>,
}

const ROW: &[u8] = b"users";

impl UsersInDatabase {
    pub fn new(engine: Arc<Engine>, space: Space) -> UsersInDatabase {
        UsersInDatabase {
            engine,
            space,
            last: Mutex::default(),
        }
    }

    pub fn has_users(&self) -> Result<bool, Busy> {
        Ok(self.engine.reader(self.space)?.get(ROW).is_some())
    }

    fn row(&self) -> io::Result<Option<Row>> {
        let reader = self.engine.reader(self.space).map_err(io::Error::other)?;
        let row = reader.get_each(&[ROW]).swap_remove(0);
        match reader.is_unreadable() {
            true => Err(unreadable()),
            false => Ok(row),
        }
    }
}

impl UserFile for UsersInDatabase {
    fn read(&self) -> io::Result<Option<String>> {
        let row = self.row()?;
        *self.last.lock() = row.as_ref().map(Row::version);
        let text = row.map(|row| String::from_utf8(row.value().to_vec()).map_err(io::Error::other));
        text.transpose()
    }

    fn is_as_read(&self) -> io::Result<bool> {
        Ok(self.row()?.map(|row| row.version()) == *self.last.lock())
    }

    fn write(&self, text: &str) -> io::Result<()> {
        let written = self.engine.execute_durably(self.space, |tx| {
            tx.set(ROW, text.as_bytes());
            Ok::<(), std::convert::Infallible>(())
        });
        match written.map_err(io::Error::other)? {
            Ok(()) => Ok(()),
            Err(ExecuteError::DiskFull(_)) => Err(io::ErrorKind::StorageFull.into()),
            Err(ExecuteError::TooLarge(_)) => Err(io::ErrorKind::FileTooLarge.into()),
            Err(ExecuteError::Unreadable(_)) => Err(unreadable()),
            Err(ExecuteError::NotHome) => Err(io::Error::other("the log has failed")),
            Err(ExecuteError::Layer(never, _)) => match never {},
        }
    }
}

fn unreadable() -> io::Error {
    io::Error::other("the disk could not be read")
}
