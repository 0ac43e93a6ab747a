//! Everything that a Redis database holds, at one version, as an RDB file: for SAVE, and for the
//! first copy of a replica.
//!
//! It is read from a snapshot, so no client waits for it. Modules write their own keys, and what
//! they have beside keys.

use std::ops::ControlFlow;

use quartet_engine::{Dependency, Frozen, PartitionGuard};
use quartet_wire_rdb::file::Writer;

use crate::commands::scripting::libraries;
use crate::commands::serialization::value_of;
use crate::facts::{DATABASES, RedisVersion};
use crate::keyspace::changes::Changes;
use crate::keyspace::{Entry, Keyspace};
use crate::layer::Redis;
use crate::module::Modules;

/// Keys looked up at once.
const KEYS_AT_ONCE: usize = 256;
/// Bytes that gather before they are handed over.
const PART_BYTES: usize = 256 << 10;

/// A database of the layer's at one version.
pub struct Image {
    frozen: Frozen,
    /// The changes found by reading cause no notification.
    changes: Changes,
    modules: &'static Modules,
    redis_version: RedisVersion,
}

/// The written bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    pub keys: u64,
    pub bytes: u64,
}

/// Why it was not written to its end.
#[derive(Debug)]
pub enum Broken<E> {
    /// The disk did not give back what is stored.
    Unreadable,
    /// The receiver takes no more bytes.
    Taker(E),
}

impl Redis {
    /// Writes the RDB file, if there is one. Blocks meanwhile. The error is a reply.
    pub fn write_rdb_file(&self) -> Result<(), String> {
        self.process.rdb_file.as_ref().map_or(Ok(()), |file| file.write(self))
    }

    /// Everything at the latest commit.
    pub fn image(&self, partition: &mut PartitionGuard<'_>) -> Image {
        Image {
            frozen: partition.freeze(self.space),
            changes: Changes::default(),
            modules: &self.commands().modules,
            redis_version: self.process.identity.redis_version,
        }
    }
}

impl Image {
    /// The image may be sent to others once this is durable.
    pub fn dependency(&self) -> Dependency {
        self.frozen.dependency
    }

    /// Passes the file to `take`, part by part, in equal parts at each call. `position`: the start
    /// of the stream of commands after it.
    pub fn write<E>(
        &mut self,
        position: Option<(&str, u64)>,
        take: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<Written, Broken<E>> {
        let mut out = Vec::new();
        let mut written = Written::default();
        let mut writer = Writer::begin(self.has_field_deadlines(), &mut out);
        writer.about("redis-ver", self.redis_version.text(), &mut out);
        writer.about("redis-bits", "64", &mut out);
        writer.about("ctime", &(self.frozen.now_micros() / 1_000_000).to_string(), &mut out);
        if let Some((id, offset)) = position {
            writer.about("repl-stream-db", "0", &mut out);
            writer.about("repl-id", id, &mut out);
            writer.about("repl-offset", &offset.to_string(), &mut out);
        }
        for library in libraries::all(&mut self.frozen.transaction()) {
            writer.function(&library.code, &mut out);
        }
        for module in self.modules.all() {
            module.save_before_keys(&mut self.frozen.transaction(), &mut writer, &mut out);
        }
        for db in 0..DATABASES {
            let keys = self.keyspace(db, |keys| keys.key_count());
            if keys > 0 {
                writer.select(db, keys, 0, &mut out);
                self.write_database(db, &mut writer, &mut out, &mut written, take)?;
            }
        }
        for module in self.modules.all() {
            module.save_after_keys(&mut self.frozen.transaction(), &mut writer, &mut out);
        }
        writer.end(&mut out);
        give(&mut out, &mut written, take)?;
        Ok(written)
    }

    fn has_field_deadlines(&mut self) -> bool {
        self.frozen.transaction().count(b"F", b"G") > 0
    }

    fn keyspace<R>(&mut self, db: u8, read: impl FnOnce(&mut Keyspace<'_, '_>) -> R) -> R {
        let now_ms = self.frozen.now_micros() / 1000;
        let mut tx = self.frozen.transaction();
        read(&mut Keyspace {
            tx: &mut tx,
            db,
            now_ms,
            changes: &self.changes,
        })
    }

    fn write_database<E>(
        &mut self,
        db: u8,
        writer: &mut Writer,
        out: &mut Vec<u8>,
        written: &mut Written,
        take: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), Broken<E>> {
        let mut last: Option<Vec<u8>> = None;
        loop {
            let entries = self.keys_after(db, last.as_deref())?;
            let Some((name, _)) = entries.last() else { return Ok(()) };
            last = Some(name.clone());
            for (name, entry) in entries {
                let now_ms = self.frozen.now_micros() / 1000;
                let mut tx = self.frozen.transaction();
                let mut keys = Keyspace {
                    tx: &mut tx,
                    db,
                    now_ms,
                    changes: &self.changes,
                };
                match self.modules.data_type(entry.kind) {
                    Some(data_type) => data_type.save(&mut keys, &name, &entry, writer, out),
                    None => {
                        let value = value_of(&mut keys, self.modules, &entry);
                        value
                            .iter()
                            .for_each(|value| writer.key(&name, entry.expiry_ms, value, out));
                    }
                }
                if tx.is_unreadable() {
                    return Err(Broken::Unreadable);
                }
                written.keys += 1;
                if out.len() >= PART_BYTES {
                    give(out, written, take)?;
                }
            }
        }
    }

    /// Returns the keys after `last`, or from the first on, up to the size of one step.
    fn keys_after<E>(&mut self, db: u8, last: Option<&[u8]>) -> Result<Vec<(Vec<u8>, Entry)>, Broken<E>> {
        let now_ms = self.frozen.now_micros() / 1000;
        let mut tx = self.frozen.transaction();
        let mut entries = Vec::new();
        let mut keys = Keyspace {
            tx: &mut tx,
            db,
            now_ms,
            changes: &self.changes,
        };
        let visit = &mut |name: &[u8], entry| {
            entries.push((name.to_vec(), entry));
            match entries.len() < KEYS_AT_ONCE {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        };
        match last {
            Some(last) => keys.scan_keys_after(last, visit),
            None => keys.scan_keys(visit),
        }
        match tx.is_unreadable() {
            true => Err(Broken::Unreadable),
            false => Ok(entries),
        }
    }
}

fn give<E>(
    out: &mut Vec<u8>,
    written: &mut Written,
    take: &mut dyn FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), Broken<E>> {
    written.bytes += out.len() as u64;
    take(out).map_err(Broken::Taker)?;
    out.clear();
    Ok(())
}

#[cfg(test)]
mod tests {
    use quartet_wire_rdb::file::{Found, Record, Scanner};

    use crate::testing::Fixture;

    fn records(bytes: &[u8]) -> Vec<Record> {
        let (mut scanner, mut records, mut start) = (Scanner::new(), Vec::new(), 0);
        while start < bytes.len() {
            let Ok(Found::Bytes { consumed, record }) = scanner.read(&bytes[start..]) else {
                panic!("an image that does not read");
            };
            start += consumed;
            records.extend(record);
        }
        assert_eq!(records.pop(), Some(Record::End));
        records
    }

    #[test]
    fn an_image_shows_one_version_despite_later_writes() {
        let fixture = Fixture::new();
        let mut connection = fixture.connect();
        connection.check("SET a 1 => OK\nRPUSH b x y => 2\nPSETEX gone 5 x => OK\nJSON.SET j $ 1 => OK\nSELECT 15 => OK\nHSET h f v => 1");
        fixture.advance_ms(10);
        let mut image = fixture.layer.image(&mut fixture.layer.engine.partition());
        connection.check("SELECT 0 => OK\nSET a 2 => OK\nSET c 3 => OK\nFLUSHALL => OK");
        let mut bytes = Vec::new();
        let mut take = |part: &[u8]| {
            bytes.extend_from_slice(part);
            Ok::<(), ()>(())
        };
        let written = image.write(Some(("id", 7)), &mut take).unwrap();
        assert_eq!(written.keys, 4);
        let names: Vec<Vec<u8>> = records(&bytes)
            .into_iter()
            .filter_map(|record| match record {
                Record::Key(key) => Some(key.name),
                Record::Select(db) => Some(db.to_string().into_bytes()),
                _ => None,
            })
            .collect();
        assert_eq!(names, [&b"0"[..], b"a", b"b", b"j", b"15", b"h"]);
        assert_eq!(written.bytes, bytes.len() as u64);
    }
}
