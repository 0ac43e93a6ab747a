//! A note in the log that the users of a database differ from the row from which nodes read them.
//!
//! Users change in memory, and are written to their row later, if at all. A node that is not home
//! has only the row: without the note it would admit users after the home has revoked their rights.
//! The note is a row of the transaction that changes users, so it is in the log before the change
//! is answered. A home that opens the layer with the users of the row removes it.

use quartet_engine::Busy;

use crate::handler::context::Context;
use crate::layer::Redis;

/// It exists while users may differ from their row; no value.
pub const UNSTORED_USERS_ROW: &[u8] = b"U";

/// Called by each command that changes users.
pub fn note_change(context: &mut Context<'_, '_>) {
    if context.access().is_followed && context.tx.get(UNSTORED_USERS_ROW).is_none() {
        context.tx.set(UNSTORED_USERS_ROW, b"");
    }
}

impl Redis {
    /// The same for a change outside of a transaction. Durable when it returns; not to be called
    /// with the partition's lock held. The error is a reply.
    pub(crate) fn note_change_of_users(&self) -> Result<(), String> {
        if !self.access.is_followed {
            return Ok(());
        }
        let noted = self.engine.execute_durably(self.space, |tx| {
            tx.set(UNSTORED_USERS_ROW, b"");
            Ok::<(), ()>(())
        });
        match noted {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(Busy) => Err("ERR The users are unchanged: a write has failed".into()),
        }
    }

    /// The users are those of their row: the layer was opened now, by the home. Not to be called
    /// with the partition's lock held.
    pub fn has_stored_users(&self) -> Result<(), Busy> {
        if self.engine.reader(self.space)?.get(UNSTORED_USERS_ROW).is_some() {
            let mut partition = self.engine.partition_in_time()?;
            // A home that cannot write keeps the note.
            let _ = partition.execute(self.space, |tx| {
                tx.clear(UNSTORED_USERS_ROW);
                Ok::<(), ()>(())
            });
        }
        Ok(())
    }
}
