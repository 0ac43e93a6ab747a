//! Watches: notification that the value of a key differs from the value that the transaction saw.
//!
//! Writes of others count once the transaction has committed. Its own count at once, whether it
//! commits or not, as in FoundationDB: a write after the watch that changes the value fires it
//! where it is called.

use tokio::sync::oneshot;

use super::own_watches::fired;
use super::{State, Transaction};
use crate::attempt::Outcome;
use crate::connection::Connection;
use crate::database::CountedWatch;
use crate::{ErrorCode, METADATA_VERSION_KEY, key_bytes_max};

impl State {
    /// Why a watch cannot be.
    fn check_watch(&mut self, key: &[u8]) -> Result<(), ErrorCode> {
        self.check_operation()?;
        if self.options.read_your_writes_disabled {
            return Err(ErrorCode::WATCHES_DISABLED);
        }
        if key >= self.options.end_of_readable() && key != METADATA_VERSION_KEY {
            return Err(ErrorCode::KEY_OUTSIDE_LEGAL_RANGE);
        }
        if key.len() > key_bytes_max(key) {
            return Err(ErrorCode::KEY_TOO_LARGE);
        }
        Ok(())
    }
}

impl Transaction {
    /// Completes once the value of `key` differs from the value that this transaction sees.
    pub fn watch(&self, key: &[u8]) -> impl Future<Output = Result<(), ErrorCode>> + Send + use<> {
        let checked = self.state().check_watch(key);
        let result = checked.and_then(|()| {
            let counted = self.inner.database.begin_watch()?;
            let own = self.state().own_watches.add(key);
            let (sender, receiver) = oneshot::channel();
            // The caller may have been dropped.
            self.take_value(key, false, move |value| drop(sender.send(value)));
            Ok((counted, own, receiver, self.state().attempt.clone()))
        });
        let key: Box<[u8]> = key.into();
        async move {
            let (_counted, mut own, value, attempt): (CountedWatch, _, _, _) = result?;
            let seen = value.await.unwrap_or(Err(ErrorCode::BROKEN_PROMISE))?;
            tokio::select! {
                biased;
                () = fired(&mut own, seen.as_ref()) => return Ok(()),
                committed = attempt.outcome() => match committed? {
                    Outcome::Failed(code) => return Err(code),
                    Outcome::Committed(_) => {}
                }
            }
            changed(&attempt.connection, &key, seen.as_deref()).await
        }
    }
}

/// Completes once the stored value of `key` is not `seen`.
async fn changed(connection: &Connection, key: &[u8], seen: Option<&[u8]>) -> Result<(), ErrorCode> {
    loop {
        if !connection.is_up().await {
            return Err(ErrorCode::BROKEN_PROMISE);
        }
        let fired = connection.watch(key, seen).await;
        match fired {
            Ok(()) => return Ok(()),
            // The next connection continues the same watch.
            Err(ErrorCode::CONNECTION_FAILED) => {}
            Err(code) => return Err(code),
        }
    }
}
