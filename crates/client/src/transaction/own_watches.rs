//! The watches of a transaction that its own writes may fire.

use quartet_wire_keyvalue::{Mutation, MutationKind};
use tokio::sync::watch;

use crate::attempt::StoredValue;
use crate::mutations::is_written;

/// The watches of an attempt that its own writes may fire.
#[derive(Default)]
pub(super) struct OwnWatches(Vec<(Box<[u8]>, watch::Sender<OwnWrite>)>);

/// The last write of a watched key after its watch.
#[derive(Default)]
pub(super) enum OwnWrite {
    #[default]
    None,
    /// `None`: cleared.
    Value(Option<Box<[u8]>>),
    /// It depends on the stored value, or on the versionstamp.
    Computed,
}

impl OwnWrite {
    fn changes(&self, seen: Option<&StoredValue>) -> bool {
        match self {
            OwnWrite::None => false,
            OwnWrite::Value(value) => value.as_deref() != seen.map(AsRef::as_ref),
            OwnWrite::Computed => true,
        }
    }
}

impl OwnWatches {
    pub fn add(&mut self, key: &[u8]) -> watch::Receiver<OwnWrite> {
        let (sender, receiver) = watch::channel(OwnWrite::None);
        self.0.retain(|(_, sender)| !sender.is_closed());
        self.0.push((key.into(), sender));
        receiver
    }

    /// Called with each write of the transaction.
    pub fn written(&self, mutation: &Mutation<'_>) {
        for (_, sender) in self.0.iter().filter(|(key, _)| is_written(mutation, key)) {
            sender.send_replace(match mutation.kind {
                MutationKind::Set => OwnWrite::Value(Some(mutation.value.into())),
                MutationKind::Clear | MutationKind::ClearRange => OwnWrite::Value(None),
                _ => OwnWrite::Computed,
            });
        }
    }
}

/// Completes once the transaction itself has written another value than it saw.
pub(super) async fn fired(own: &mut watch::Receiver<OwnWrite>, seen: Option<&StoredValue>) {
    if own.wait_for(|write| write.changes(seen)).await.is_err() {
        // The attempt has ended, and returns its own error.
        std::future::pending().await
    }
}
