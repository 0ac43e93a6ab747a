//! DEBUG DIGEST and DIGEST-VALUE: equal datasets have equal digests, regardless of how they were
//! written.
//!
//! A value's hash is a sum of hashes of its elements, so the order of a set's members or a hash's
//! fields does not matter; an element of a list is hashed with its position, a member of a sorted
//! set with its score, a field with its deadline, an entry of a stream with its ID; a stream's
//! groups, and their pending entries, belong to it. The number of the value's rows, and Redis' name
//! of its encoding, never count. The digests differ from those of Redis, which cannot be compared
//! with.

use std::ops::ControlFlow;

use quartet_model::hexadecimal;
use quartet_wire_resp::Arguments;
use sha2::{Digest, Sha256};

use crate::commands::{hashes, json, lists, sets, sorted_sets, streams};
use crate::facts::DATABASES;
use crate::handler::context::Context;
use crate::handler::definition::*;
use crate::keyspace::string_value::StringValue;
use crate::keyspace::{Entry, Keyspace, Kind};
use crate::module::Modules;

/// Forty digits, all zero for an empty dataset.
pub fn digest(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), ErrorReply> {
    let (mut total, modules) = (Sum::default(), context.modules());
    for db in 0..DATABASES {
        let mut entries: Vec<(Vec<u8>, Entry)> = Vec::new();
        context.keys_of(db).scan_keys(&mut |name, entry| {
            entries.push((name.to_vec(), entry));
            ControlFlow::Continue(())
        });
        let mut keys = context.keys_of(db);
        for (name, entry) in entries {
            total.add(&[&[db], &name, &value_hash(&mut keys, modules, &entry)]);
        }
    }
    context.reply.simple(&total.digits());
    Ok(())
}

/// Forty digits for each key, all zero for one that is absent.
pub fn digest_value(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let names = arguments.tail(2);
    context.reply.array(names.len());
    for name in names.iter() {
        let (mut sum, modules) = (Sum::default(), context.modules());
        let (mut keys, reply) = context.keys_and_reply();
        if let Some(entry) = keys.find(name) {
            sum.add(&[&value_hash(&mut keys, modules, &entry)]);
        }
        reply.simple(&sum.digits());
    }
    Ok(())
}

/// The value's kind and elements, and whether it expires.
fn value_hash(keys: &mut Keyspace<'_, '_>, modules: &Modules, entry: &Entry) -> [u8; 20] {
    let mut sum = Sum::default();
    sum.add(&[&[entry.kind.number(), u8::from(entry.expiry_ms.is_some())]]);
    match entry.kind {
        Kind::String => sum.add(&[&StringValue::of(entry).whole(keys.tx)]),
        Kind::Json => sum.add(&[&json::text(keys.tx, entry)]),
        Kind::Stream => streams::each_part(keys, entry, &mut |parts| sum.add(parts)),
        Kind::Module(_) => {
            let data_type = modules.data_type(entry.kind).expect("the type of a module's key");
            data_type.digest(keys, entry, &mut |parts| sum.add(parts));
        }
        Kind::List => {
            for (position, element) in lists::elements(keys, entry).iter().enumerate() {
                sum.add(&[&position.to_be_bytes(), element]);
            }
        }
        Kind::Set => sets::members(keys, entry).iter().for_each(|member| sum.add(&[member])),
        Kind::SortedSet => {
            for (member, score) in sorted_sets::pairs(keys, entry) {
                sum.add(&[&member, &score.to_be_bytes()]);
            }
        }
        Kind::Hash => hashes::each(keys, entry, &mut |field| {
            let deadline = field.deadline_ms.map_or(Vec::new(), |at_ms| at_ms.to_be_bytes().into());
            sum.add(&[field.name, field.value, &deadline]);
        }),
    }
    sum.0
}

/// A sum of hashes, byte by byte.
#[derive(Default)]
struct Sum([u8; 20]);

impl Sum {
    fn add(&mut self, parts: &[&[u8]]) {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        let hash = hash.finalize();
        self.0
            .iter_mut()
            .zip(hash)
            .for_each(|(byte, other)| *byte = byte.wrapping_add(other));
    }

    fn digits(&self) -> String {
        hexadecimal(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Fixture, show};

    /// Two ways to make a key must give the same digits.
    fn check(first: &[&str], other: &[&str]) {
        let digest = |commands: &[&str], subcommand: &[&str]| {
            let mut connection = Fixture::new().connect();
            for command in commands {
                connection.run(&command.split(' ').collect::<Vec<_>>());
            }
            show(&connection.run(&[&["DEBUG"], subcommand].concat()))
        };
        for subcommand in [&["DIGEST"][..], &["DIGEST-VALUE", "k"]] {
            assert_eq!(
                digest(first, subcommand),
                digest(other, subcommand),
                "{first:?} {other:?}"
            );
            assert_ne!(digest(first, subcommand), digest(&[], subcommand), "{first:?}");
        }
    }

    /// A large collection that shrank keeps its rows, and a set that once held a word keeps its
    /// encoding; their digests used to differ from those of the same elements added afresh.
    #[test]
    fn history_does_not_count() {
        let long = "x".repeat(5000);
        check(&["SADD k a b c"], &["SADD k c", "SADD k b a"]);
        check(
            &["SADD k 1 2"],
            &[&format!("SADD k {long} 1 2"), &format!("SREM k {long}")],
        );
        check(&["HSET k f 1 g 2"], &[&format!("HSET k g {long} f 1"), "HSET k g 2"]);
        check(&["RPUSH k a b"], &[&format!("RPUSH k {long} a b"), "LPOP k"]);
        check(&["ZADD k 1 a 2 b"], &[&format!("ZADD k 3 {long} 2 b 1 a"), "ZPOPMAX k"]);
        check(
            &["XADD k 2 a b", "XGROUP CREATE k g 2"],
            &[
                "XADD k MAXLEN 1 2 a b",
                "XGROUP CREATE k h 0",
                "XGROUP CREATE k g 2",
                "XGROUP DESTROY k h",
            ],
        );
        check(&["SET k ab"], &["SET k a", "APPEND k b"]);
    }

    #[test]
    fn contents_count() {
        let mut connection = Fixture::new().connect();
        let mut seen = Vec::new();
        for command in [
            "SET k 1",
            "SET k 2",
            "RPUSH l a b",
            "RPUSH l a",
            "ZADD z 1 a",
            "ZADD z 2 a",
            "EXPIRE k 9",
            "HSET h f v",
            "XADD x 1-1 f v",
            "XADD x 1-2 f v",
            "XGROUP CREATE x g 0",
            "XREADGROUP GROUP g c COUNT 1 STREAMS x >",
        ] {
            connection.run(&command.split(' ').collect::<Vec<_>>());
            seen.push(show(&connection.run(&["DEBUG", "DIGEST"])));
        }
        let mut different = seen.clone();
        different.sort();
        different.dedup();
        assert_eq!(different.len(), seen.len());
    }
}
