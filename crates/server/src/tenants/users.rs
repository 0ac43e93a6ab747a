//! The Redis users of a logical database, the default one too: one row of its system space.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use quartet_engine::{Busy, Engine, ExecuteError, Space};
use quartet_layer_redis::access::acl::UserFile;

/// The user of a database's read-only token.
pub const READER: &[u8] = b"default_ro";

pub struct UsersInDatabase {
    engine: Arc<Engine>,
    space: Space,
    /// The text that was read last.
    last: Mutex<Option<String>>,
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

    fn text(&self) -> io::Result<Option<String>> {
        let reader = self.engine.reader(self.space).map_err(io::Error::other)?;
        let text = reader.get(ROW);
        if reader.is_unreadable() {
            return Err(unreadable());
        }
        text.map(|text| String::from_utf8(text).map_err(io::Error::other))
            .transpose()
    }
}

impl UserFile for UsersInDatabase {
    fn read(&self) -> io::Result<Option<String>> {
        let text = self.text()?;
        self.last.lock().clone_from(&text);
        Ok(text)
    }

    fn is_as_read(&self) -> io::Result<bool> {
        Ok(self.text()? == *self.last.lock())
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
