//! The module's kind of keys.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use quartet_engine::Verification;
use quartet_layer_redis::module_api::marks::{self, MARKED};
use quartet_layer_redis::module_api::{
    BAD_FORMAT, DataType, ELEMENTS_PREFIX_BYTES, Entry, ErrorReply, Keyspace, StoredKey,
};
use quartet_wire_rdb::file::Writer;
use quartet_wire_rdb::value::{self, Value};

use super::definition::{Definition, SERIES};
use super::gatherings;
use super::references::{self, References};
use super::rows::check_piece;
use super::saved;
use super::series::{Series, each_chunk};

pub struct TimeSeries;

impl DataType for TimeSeries {
    fn number(&self) -> u8 {
        SERIES.number()
    }

    fn name(&self, _entry: &Entry) -> &'static str {
        "TSDB-TYPE"
    }

    /// Without references to other series, as the original dumps one.
    fn value(&self, keys: &mut Keyspace<'_, '_>, entry: &Entry) -> Result<Value, ErrorReply> {
        let series = Series::of_entry(b"", entry.clone()).expect("the row of a series");
        Ok(Value::Series(saved::save(keys, &series, &References::default())))
    }

    /// A dump has each chunk in its whole size.
    fn bytes_beyond_rows(&self, keys: &mut Keyspace<'_, '_>, entry: &Entry) -> u64 {
        let series = Series::of_entry(b"", entry.clone()).expect("the row of a series");
        let mut bytes = u64::from(series.definition.chunk_bytes);
        each_chunk(keys, &series, &mut |chunk| bytes += u64::from(chunk.size));
        bytes
    }

    fn check(&self, value: &Value) -> Option<Result<(), ErrorReply>> {
        let Value::Series(series) = value else {
            return None;
        };
        Some(saved::read(series).map(drop).map_err(|_| BAD_FORMAT.into()))
    }

    fn store(&self, keys: &mut Keyspace<'_, '_>, name: &[u8], value: &Value) -> Result<(), ErrorReply> {
        let Value::Series(series) = value else {
            return Err(BAD_FORMAT.into());
        };
        let read = saved::read(series).map_err(|_| BAD_FORMAT)?;
        saved::restore(keys, name, read);
        Ok(())
    }

    /// With references to other series, which an original of the same file has too.
    fn save(&self, keys: &mut Keyspace<'_, '_>, name: &[u8], entry: &Entry, writer: &mut Writer, out: &mut Vec<u8>) {
        let series = Series::of_entry(name, entry.clone()).expect("the row of a series");
        let references = saved::references(keys, &series);
        let value = Value::Series(saved::save(keys, &series, &references));
        writer.key(name, entry.expiry_ms, &value, out);
    }

    fn digest(&self, keys: &mut Keyspace<'_, '_>, entry: &Entry, add: &mut dyn FnMut(&[&[u8]])) {
        let series = Series::of_entry(b"", entry.clone()).expect("the row of a series");
        add(&[&value::dump(&Value::Series(saved::save(
            keys,
            &series,
            &References::default(),
        )))]);
    }

    fn is_whole(&self, entry: &Entry) -> bool {
        let has_labels = entry.flags & MARKED == 0 || marks::split(entry.large_payload()).is_some();
        entry.is_large() && has_labels && Definition::of_entry(entry).is_ok()
    }

    /// Pieces cannot be made up: a person decides.
    fn verify(&self, verification: &mut Verification<'_>, key: &StoredKey<'_>, _: &[u8]) {
        let Ok(definition) = Definition::of_entry(key.entry) else {
            return;
        };
        let (prefix, end) = key.elements();
        let mut pieces: BTreeMap<u64, usize> = BTreeMap::new();
        let mut unsound = 0u64;
        verification.rows.scan(&prefix, &end, false, &mut |row_key, value| {
            let name = &row_key[ELEMENTS_PREFIX_BYTES..];
            let is_sound = match check_piece(name, value) {
                Some((first, piece)) => std::mem::replace(pieces.entry(first).or_default(), piece + 1) == piece,
                None => {
                    gatherings::is_sound_row(&definition.rules, name, value) || references::is_sound_row(name, value)
                }
            };
            unsound += u64::from(!is_sound);
            ControlFlow::Continue(())
        });
        if unsound > 0 {
            let message = format!("{} has {unsound} rows that no version has written", key.name());
            verification.found(message, Vec::new());
        }
    }

    fn has_mixed_rows(&self) -> bool {
        true
    }
}
