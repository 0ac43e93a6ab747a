//! The meaning of effects to clients of the key-value layer: exactly the effects themselves.

use quartet_engine::{Change, ChangeDecoder, Reach, Reader};
use quartet_model::{Effect, LayerId};

/// Decodes keys and values.
pub struct KeyValueChanges;

impl ChangeDecoder for KeyValueChanges {
    fn layer(&self) -> LayerId {
        LayerId::KeyValue
    }

    fn decode(&mut self, effect: Effect<'_>, _: &mut dyn FnMut() -> Option<Reader>, changes: &mut Vec<Change>) {
        changes.push(match effect {
            Effect::Set { key, value } => Change::new("set", key)
                .with_bytes("key", key)
                .with_bytes("value", value),
            Effect::Clear { key } => Change::new("clear", key).with_bytes("key", key),
            Effect::ClearRange { start, end } => Change::new("clear_range", start)
                .reaching(Reach::Before(end.to_vec()))
                .with_bytes("start", start)
                .with_bytes("end", end),
            // Values are written whole, and a row of another partition is no change.
            Effect::Patch { .. } | Effect::Row { .. } => return,
        });
    }
}
