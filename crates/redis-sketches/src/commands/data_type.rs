//! The module's kind of keys: a sketch of any family.

use std::ops::ControlFlow;

use quartet_engine::Verification;
use quartet_wire_rdb::sketch::SketchKind;
use quartet_wire_rdb::value::{self, Value};

use super::stored;
use quartet_layer_redis::module_api::{
    BAD_FORMAT, DataType, ELEMENTS_PREFIX_BYTES, Entry, ErrorReply, Keyspace, StoredKey,
};

pub struct Sketches;

impl DataType for Sketches {
    fn number(&self) -> u8 {
        stored::SKETCH.number()
    }

    fn name(&self, entry: &Entry) -> &'static str {
        match stored::family(entry) {
            Some(SketchKind::Bloom) => "MBbloom--",
            Some(SketchKind::Cuckoo) => "MBbloomCF",
            Some(SketchKind::CountMin) => "CMSk-TYPE",
            Some(SketchKind::TopK) => "TopK-TYPE",
            Some(SketchKind::TDigest) => "TDIS-TYPE",
            None => "module",
        }
    }

    fn value(&self, keys: &mut Keyspace<'_, '_>, entry: &Entry) -> Result<Value, ErrorReply> {
        let (head, mut rows) = stored::open(keys, entry);
        Ok(Value::Sketch(head.dump(&mut rows)))
    }

    /// Zeros that were never written have no rows.
    fn bytes_beyond_rows(&self, keys: &mut Keyspace<'_, '_>, entry: &Entry) -> u64 {
        stored::open(keys, entry).0.space_bytes()
    }

    fn check(&self, value: &Value) -> Option<Result<(), ErrorReply>> {
        let Value::Sketch(sketch) = value else {
            return None;
        };
        let restored = crate::dump::restore(sketch.clone());
        Some(restored.map(drop).map_err(|_| BAD_FORMAT.into()))
    }

    fn store(&self, keys: &mut Keyspace<'_, '_>, name: &[u8], value: &Value) -> Result<(), ErrorReply> {
        let Value::Sketch(sketch) = value else {
            return Err(BAD_FORMAT.into());
        };
        let restored = crate::dump::restore(sketch.clone()).map_err(|_| BAD_FORMAT)?;
        stored::restore(keys, name, &restored);
        Ok(())
    }

    fn digest(&self, keys: &mut Keyspace<'_, '_>, entry: &Entry, add: &mut dyn FnMut(&[&[u8]])) {
        let (head, mut rows) = stored::open(keys, entry);
        add(&[&value::dump(&Value::Sketch(head.dump(&mut rows)))]);
    }

    fn is_whole(&self, entry: &Entry) -> bool {
        entry.is_large() && stored::family(entry).is_some()
    }

    /// A sketch cannot be mended without its head, and a block cannot be made up: a person decides.
    fn verify(&self, verification: &mut Verification<'_>, key: &StoredKey<'_>, _: &[u8]) {
        let Some(family) = stored::family(key.entry) else {
            return;
        };
        let (prefix, end) = key.elements();
        let (mut has_head, mut unsound) = (false, 0u64);
        verification.rows.scan(&prefix, &end, false, &mut |row_key, value| {
            let name = &row_key[ELEMENTS_PREFIX_BYTES..];
            has_head |= name == stored::HEAD;
            unsound += u64::from(!stored::is_sound_row(family, name, value));
            ControlFlow::Continue(())
        });
        if !has_head {
            verification.found(format!("{} has no head", key.name()), Vec::new());
        }
        if unsound > 0 {
            let text = format!("{} has {unsound} rows that no version has written", key.name());
            verification.found(text, Vec::new());
        }
    }

    fn has_mixed_rows(&self) -> bool {
        true
    }
}
