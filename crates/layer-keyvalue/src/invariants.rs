//! The invariants between the rows of the key-value layer, for `quartet check`: they are clients'
//! own rows, so only that clients can reach them.

use std::ops::ControlFlow;

use quartet_engine::{Invariants, Verification};
use quartet_model::LayerId;

use crate::SYSTEM_KEYS_END;

/// The key-value layer's promise.
pub struct KeyValueInvariants;

impl Invariants for KeyValueInvariants {
    fn layer(&self) -> LayerId {
        LayerId::KeyValue
    }

    fn judge(&self, verification: &mut Verification<'_>) {
        let rows = verification.rows;
        rows.scan(SYSTEM_KEYS_END, &[0xff; 8], false, &mut |key, _| {
            verification.found(
                format!("no client can reach the key \"{}\"", key.escape_ascii()),
                Vec::new(),
            );
            ControlFlow::Continue(())
        });
    }
}
