//! The invariants between the rows of the DynamoDB layer, for `quartet check`: items and their
//! indexes, expiries, streams, names and numbers of tables.
//!
//! Each item's entries are looked up; an index with exactly the number of required entries has no
//! others. Only if it has more are its entries walked, each looked up in the table.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use quartet_engine::{Invariants, Repair, Verification, decoded};
use quartet_model::{KeyRange, LayerId, Version};

use crate::storage::backup::Backup;
use crate::storage::key;
use crate::storage::stored;
use crate::storage::streams::Stream;
use crate::storage::table::{Index, Table};
use crate::storage::vector_index::VectorIndex;
use crate::storage::write::expiry_of;
use crate::wire::value::Item;

/// DynamoDB's promises.
pub struct DynamoDbInvariants;

impl Invariants for DynamoDbInvariants {
    fn layer(&self) -> LayerId {
        LayerId::DynamoDb
    }

    fn judge(&self, verification: &mut Verification<'_>) {
        let tables = tables(verification);
        for table in tables.values() {
            verify_items(verification, table);
        }
        let dropped = dropped(verification);
        verify_strays(verification, &tables, &dropped);
        verify_history(verification, &tables, &dropped);
        verify_numbers(verification, &tables);
        verify_streams(verification, &tables);
        verify_tokens(verification);
    }
}

/// Every table by its number.
fn tables(verification: &mut Verification<'_>) -> BTreeMap<u32, Table> {
    let mut tables: BTreeMap<u32, Table> = BTreeMap::new();
    let range = KeyRange::prefix(b"T");
    let rows = verification.rows;
    rows.scan(&range.start, &range.end, false, &mut |row_key, value| {
        let name = String::from_utf8_lossy(&row_key[1..]);
        match serde_json::from_slice::<Table>(value) {
            Ok(table) if table.kept_name() != name => {
                verification.found(
                    format!("table \"{name}\" says that it is \"{}\"", table.kept_name()),
                    Vec::new(),
                );
            }
            Ok(table) => {
                if let Some(other) = tables.insert(table.id, table) {
                    verification.found(
                        format!("tables \"{name}\" and \"{}\" have one number", other.name),
                        Vec::new(),
                    );
                }
            }
            Err(error) => verification.found(format!("table \"{name}\" cannot be read: {error}"), Vec::new()),
        }
        ControlFlow::Continue(())
    });
    tables
}

fn verify_items(verification: &mut Verification<'_>, table: &Table) {
    let now_seconds = verification.rows.now_micros / 1_000_000;
    let knows_expiries = verification.rows.get_row(&key::filling(table.id, 0)).is_none();
    let range = KeyRange::prefix(&key::items(table.id, 0));
    let mut expected: BTreeMap<u16, u64> = BTreeMap::new();
    let rows = verification.rows;
    rows.scan(&range.start, &range.end, false, &mut |item_key, value| {
        let Some(item) = item(table, value) else {
            let message = format!("an item of table \"{}\" is none that a version has written", table.name);
            verification.found(message, Vec::new());
            return ControlFlow::Continue(());
        };
        if table.item_key(&item) != item_key {
            let message = format!(
                "an item of table \"{}\" stands below another key than its own",
                table.name
            );
            verification.found(message, Vec::new());
            return ControlFlow::Continue(());
        }
        for index in &table.indexes {
            let entry = index.entry(table, &item);
            let entry = entry.map(|(entry_key, entry)| (entry_key, stored::encode(&entry)));
            let index = Verified {
                name: &index.name,
                filling: index.filling,
                expected: expected.entry(index.id).or_default(),
            };
            verify_entry(verification, table, index, entry);
        }
        for index in &table.vector_indexes {
            let entry = index.entry(table, &item);
            let index = Verified {
                name: &index.name,
                filling: index.filling,
                expected: expected.entry(index.id).or_default(),
            };
            verify_entry(verification, table, index, entry);
        }
        let expiry = expiry_of(table, Some(&item)).filter(|seconds| *seconds > now_seconds && knows_expiries);
        if let Some(seconds) = expiry {
            verify_expiry(verification, table, seconds, &item_key[key::ITEMS_PREFIX_BYTES..]);
        }
        ControlFlow::Continue(())
    });
    for index in &table.indexes {
        let entries = KeyRange::prefix(&key::items(table.id, index.id));
        if rows.count(&entries.start, &entries.end) != expected.get(&index.id).copied().unwrap_or_default() {
            verify_entries(verification, table, index);
        }
    }
    for index in &table.vector_indexes {
        let entries = KeyRange::prefix(&key::items(table.id, index.id));
        if rows.count(&entries.start, &entries.end) != expected.get(&index.id).copied().unwrap_or_default() {
            verify_vector_entries(verification, table, index);
        }
    }
}

/// An item with the keys of its table, of bytes that a version has written.
fn item(table: &Table, value: &[u8]) -> Option<Item> {
    let item = decoded(|| stored::decode(value))?;
    (table.holds_keys(&item) && stored::encode(&item) == value).then_some(item)
}

/// An index, as its entries are verified.
struct Verified<'i> {
    name: &'i str,
    filling: bool,
    /// Counts the entries that it has or should have.
    expected: &'i mut u64,
}

/// The item has its entry, if it should have one.
fn verify_entry(
    verification: &mut Verification<'_>,
    table: &Table,
    index: Verified<'_>,
    entry: Option<(Vec<u8>, Vec<u8>)>,
) {
    let Some((key, value)) = entry else { return };
    let stored = verification.rows.get_row(&key);
    if stored.as_deref() == Some(&value) {
        *index.expected += 1;
        return;
    }
    if stored.is_none() && index.filling {
        return;
    }
    let does = if stored.is_some() { "shows otherwise" } else { "lacks" };
    let message = format!(
        "index \"{}\" of table \"{}\" {does} an item of the table",
        index.name, table.name
    );
    *index.expected += u64::from(stored.is_some());
    verification.found(message, vec![Repair::Set { key, value }]);
}

/// Each entry has its item.
fn verify_entries(verification: &mut Verification<'_>, table: &Table, index: &Index) {
    let range = KeyRange::prefix(&key::items(table.id, index.id));
    let rows = verification.rows;
    rows.scan(&range.start, &range.end, false, &mut |entry_key, value| {
        let entry = item(table, value);
        let own = entry.and_then(|entry| rows.get_row(&table.item_key(&entry)));
        let own = own.and_then(|row| item(table, &row));
        if own.and_then(|item| index.item_key(table, &item)).as_deref() != Some(entry_key) {
            let message = format!(
                "index \"{}\" of table \"{}\" has what no item supports",
                index.name, table.name
            );
            verification.found(
                message,
                vec![Repair::Clear {
                    key: entry_key.to_vec(),
                }],
            );
        }
        ControlFlow::Continue(())
    });
}

/// The same for a vector index, whose entries end with the place of their item.
fn verify_vector_entries(verification: &mut Verification<'_>, table: &Table, index: &VectorIndex) {
    let range = KeyRange::prefix(&key::items(table.id, index.id));
    let items = KeyRange::prefix(&key::items(table.id, 0));
    let rows = verification.rows;
    let mut supported = BTreeSet::new();
    rows.scan(&items.start, &items.end, false, &mut |_, value| {
        let entry = item(table, value).and_then(|item| index.entry(table, &item));
        supported.extend(entry.map(|(entry_key, _)| entry_key));
        ControlFlow::Continue(())
    });
    rows.scan(&range.start, &range.end, false, &mut |entry_key, _| {
        if !supported.contains(entry_key) {
            let message = format!(
                "index \"{}\" of table \"{}\" has what no item supports",
                index.name, table.name
            );
            let key = entry_key.to_vec();
            verification.found(message, vec![Repair::Clear { key }]);
        }
        ControlFlow::Continue(())
    });
}

fn verify_expiry(verification: &mut Verification<'_>, table: &Table, seconds: u64, place: &[u8]) {
    let key = key::expiry(seconds, table.id, place);
    if verification.rows.get_row(&key).is_none() {
        let message = format!("an item of table \"{}\" would never expire", table.name);
        let value = table.kept_name().as_bytes().to_vec();
        verification.found(message, vec![Repair::Set { key, value }]);
    }
}

/// The numbers of tables that were deleted and whose state is needed.
fn dropped(verification: &mut Verification<'_>) -> BTreeSet<u32> {
    let mut dropped = BTreeSet::new();
    let rows = verification.rows;
    rows.scan(b"D", b"E", false, &mut |row_key, value| {
        match serde_json::from_slice::<Table>(value) {
            Ok(table) if key::dropped(table.id) == row_key => drop(dropped.insert(table.id)),
            _ => verification.found("a deleted table cannot be read".into(), Vec::new()),
        }
        ControlFlow::Continue(())
    });
    dropped
}

/// History and pins belong to a table that is or was, each backup has its pin, and each table knows
/// its newest.
fn verify_history(verification: &mut Verification<'_>, tables: &BTreeMap<u32, Table>, dropped: &BTreeSet<u32>) {
    for (letter, next, kind) in [(b"H", b"I", "history"), (b"P", b"Q", "pins")] {
        let mut start = letter.to_vec();
        while let Some(row) = verification.rows.nth(&start, next, 0) {
            let row_key = quartet_engine::Transaction::layer_key(&row);
            let range = KeyRange::prefix(&row_key[..row_key.len().min(5)]);
            start.clone_from(&range.end);
            let number = row_key.get(1..5).and_then(|number| number.try_into().ok());
            let number = number.map_or(0, u32::from_be_bytes);
            if !tables.contains_key(&number) && !dropped.contains(&number) {
                let message = format!("{kind} of table number {number}, which there is not");
                let (start, end) = (range.start, range.end);
                verification.found(message, vec![Repair::ClearRange { start, end }]);
            }
        }
    }
    let rows = verification.rows;
    rows.scan(b"B", b"C", false, &mut |_, value| {
        let backup = serde_json::from_slice::<Backup>(value);
        let pin = backup.map(|backup| key::pin(backup.table.id, Version(backup.version), backup.number));
        if !pin.is_ok_and(|pin| rows.get_row(&pin).is_some()) {
            verification.found("a backup cannot be read, or its state is not kept".into(), Vec::new());
        }
        ControlFlow::Continue(())
    });
    for table in tables.values() {
        let mut newest = 0;
        let pins = key::pins(table.id);
        rows.scan(&pins.start, &pins.end, true, &mut |row_key, _| {
            newest = key::pinned_version(row_key).0;
            ControlFlow::Break(())
        });
        if newest != table.pinned {
            let message = format!("table \"{}\" does not know its newest backup", table.name);
            verification.found(message, Vec::new());
        }
    }
}

/// Items and entries belong to a table, entries to one of its indexes; of a deleted table there are
/// only items.
fn verify_strays(verification: &mut Verification<'_>, tables: &BTreeMap<u32, Table>, dropped: &BTreeSet<u32>) {
    let mut start = b"I".to_vec();
    while let Some(row) = verification.rows.nth(&start, b"J", 0) {
        let row_key = quartet_engine::Transaction::layer_key(&row);
        let range = KeyRange::prefix(&row_key[..row_key.len().min(key::ITEMS_PREFIX_BYTES)]);
        start.clone_from(&range.end);
        let Some(numbers) = row_key.get(1..key::ITEMS_PREFIX_BYTES) else {
            verification.found(
                "a row is too short for an item's".into(),
                vec![Repair::Clear { key: row_key.to_vec() }],
            );
            continue;
        };
        let table = u32::from_be_bytes(numbers[..4].try_into().expect("four bytes"));
        let index = u16::from_be_bytes(numbers[4..].try_into().expect("two bytes"));
        let rows = verification.rows.count(&range.start, &range.end);
        match tables.get(&table) {
            None if index == 0 && dropped.contains(&table) => {}
            None => verification.found(
                format!("{rows} rows belong to no table: their table had number {table}"),
                Vec::new(),
            ),
            Some(table) if index != 0 && !table.has_index(index) => {
                let message = format!("{rows} entries of table \"{}\" belong to no index", table.name);
                let (start, end) = (range.start, range.end);
                verification.found(message, vec![Repair::ClearRange { start, end }]);
            }
            Some(_) => {}
        }
    }
}

/// No number is given twice.
fn verify_numbers(verification: &mut Verification<'_>, tables: &BTreeMap<u32, Table>) {
    let last = verification.rows.get(key::LAST_NUMBER);
    let last = last.and_then(|last| last.try_into().ok()).map_or(0, u32::from_be_bytes);
    let streams = tables.values().filter_map(|table| Some(table.stream.as_ref()?.id));
    let highest = tables.keys().copied().chain(streams).max().unwrap_or_default();
    if last < highest {
        let message = format!("the last number given is {last}, and {highest} is in use");
        let (key, value) = (key::LAST_NUMBER.to_vec(), highest.to_be_bytes().to_vec());
        verification.found(message, vec![Repair::Set { key, value }]);
    }
}

/// A table's stream exists, and every record belongs to a stream.
fn verify_streams(verification: &mut Verification<'_>, tables: &BTreeMap<u32, Table>) {
    let mut streams = BTreeSet::new();
    let range = key::streams();
    let rows = verification.rows;
    rows.scan(&range.start, &range.end, false, &mut |row_key, value| {
        match serde_json::from_slice::<Stream>(value) {
            Ok(stream) if key::stream(stream.id) == row_key => drop(streams.insert(stream.id)),
            _ => verification.found("a stream cannot be read".into(), Vec::new()),
        }
        ControlFlow::Continue(())
    });
    for table in tables.values() {
        if let Some(stream) = table.live_stream().filter(|stream| !streams.contains(&stream.id)) {
            let message = format!(
                "the stream of table \"{}\", number {}, is not there",
                table.name, stream.id
            );
            verification.found(message, Vec::new());
        }
    }
    let mut start = b"R".to_vec();
    while let Some(row) = verification.rows.nth(&start, b"S", 0) {
        let row_key = quartet_engine::Transaction::layer_key(&row);
        let range = KeyRange::prefix(&row_key[..row_key.len().min(5)]);
        start.clone_from(&range.end);
        let number = row_key
            .get(1..5)
            .and_then(|number| number.try_into().ok())
            .map(u32::from_be_bytes);
        if !number.is_some_and(|number| streams.contains(&number)) {
            let message = format!(
                "{} records belong to no stream",
                verification.rows.count(&range.start, &range.end)
            );
            let (start, end) = (range.start, range.end);
            verification.found(message, vec![Repair::ClearRange { start, end }]);
        }
    }
}

/// Each token has a row for its removal: otherwise the token of a transaction would be kept
/// indefinitely.
fn verify_tokens(verification: &mut Verification<'_>) {
    let mut due = BTreeSet::new();
    let rows = verification.rows;
    rows.scan(b"L", b"M", false, &mut |row_key, _| {
        due.insert(row_key.get(9..).unwrap_or_default().to_vec());
        ControlFlow::Continue(())
    });
    rows.scan(b"K", b"L", false, &mut |row_key, _| {
        if !due.contains(&row_key[1..]) {
            let message = "the token of a transaction would never be forgotten".into();
            verification.found(message, vec![Repair::Clear { key: row_key.to_vec() }]);
        }
        ControlFlow::Continue(())
    });
}

#[cfg(test)]
mod tests {
    use quartet_engine::{Invariants, Transaction};

    use super::DynamoDbInvariants;
    use crate::storage::key;
    use crate::testing::Fixture;

    fn start() -> Fixture {
        let fixture = Fixture::start();
        let created = fixture.ask(
            "CreateTable",
            r#"{"TableName":"table","BillingMode":"PAY_PER_REQUEST","KeySchema":[{"AttributeName":"h","KeyType":"HASH"}],
            "AttributeDefinitions":[{"AttributeName":"h","AttributeType":"S"},{"AttributeName":"colour","AttributeType":"S"}],
            "GlobalSecondaryIndexes":[{"IndexName":"by_colour","KeySchema":[{"AttributeName":"colour","KeyType":"HASH"}],
            "Projection":{"ProjectionType":"KEYS_ONLY"}}],"StreamSpecification":{"StreamEnabled":true,"StreamViewType":"KEYS_ONLY"}}"#,
        );
        assert_eq!(created.status, 200);
        let expiring = r#"{"TableName":"table","TimeToLiveSpecification":{"Enabled":true,"AttributeName":"until"}}"#;
        assert_eq!(fixture.ask("UpdateTimeToLive", expiring).status, 200);
        for number in 0..20 {
            let put = format!(
                r#"{{"TableName":"table","Item":{{"h":{{"S":"{number}"}},"colour":{{"S":"red"}},"until":{{"N":"32503680000"}}}}}}"#
            );
            assert_eq!(fixture.ask("PutItem", &put).status, 200);
        }
        fixture.layer.maintain();
        fixture
    }

    /// Returns the findings, one line each.
    fn found(fixture: &Fixture) -> Vec<String> {
        let invariants: Vec<Box<dyn Invariants>> = vec![Box::new(DynamoDbInvariants)];
        let findings = fixture.layer.engine.judge(&invariants).unwrap();
        findings.kept.into_iter().map(|finding| finding.what).collect()
    }

    fn first(fixture: &Fixture, prefix: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let reader = fixture.layer.engine.reader(fixture.layer.space).unwrap();
        let row = reader.nth(prefix, &quartet_model::next_prefix(prefix), 0).unwrap();
        (Transaction::layer_key(&row).to_vec(), row.value().to_vec())
    }

    fn plant(fixture: &Fixture, change: impl Fn(&mut Transaction<'_>)) {
        let planted = fixture.layer.execute(|tx| {
            change(tx);
            Ok(())
        });
        planted.0.unwrap();
    }

    type Plant = Box<dyn Fn(&Fixture)>;

    #[test]
    fn each_disagreement_is_found_and_repaired() {
        let cases: [(&str, Plant); 7] = [
            (
                "index \"by_colour\" of table \"table\" lacks an item of the table",
                Box::new(|fixture| {
                    let (entry, _) = first(fixture, &key::items(1, 1));
                    plant(fixture, |tx| drop(tx.clear(&entry)));
                }),
            ),
            (
                "index \"by_colour\" of table \"table\" has what no item supports",
                Box::new(|fixture| {
                    let (mut entry, value) = first(fixture, &key::items(1, 1));
                    entry.push(7);
                    plant(fixture, |tx| drop(tx.set(&entry, &value)));
                }),
            ),
            (
                "index \"by_colour\" of table \"table\" shows otherwise an item of the table",
                Box::new(|fixture| {
                    let (entry, _) = first(fixture, &key::items(1, 1));
                    let (_, whole) = first(fixture, &key::items(1, 0));
                    plant(fixture, |tx| drop(tx.set(&entry, &whole)));
                }),
            ),
            (
                "an item of table \"table\" would never expire",
                Box::new(|fixture| {
                    let (expiry, _) = first(fixture, b"X");
                    plant(fixture, |tx| drop(tx.clear(&expiry)));
                }),
            ),
            (
                "1 entries of table \"table\" belong to no index",
                Box::new(|fixture| plant(fixture, |tx| drop(tx.set(&key::items(1, 9), b"entry")))),
            ),
            (
                "1 records belong to no stream",
                Box::new(|fixture| plant(fixture, |tx| drop(tx.set(&key::shard(77, 0), b"record")))),
            ),
            (
                "the last number given is 0, and 2 is in use",
                Box::new(|fixture| plant(fixture, |tx| drop(tx.clear(key::LAST_NUMBER)))),
            ),
        ];
        for (expected, plant) in cases {
            let fixture = start();
            assert_eq!(found(&fixture), Vec::<String>::new());
            plant(&fixture);
            assert_eq!(found(&fixture), [expected]);
            let invariants: Vec<Box<dyn Invariants>> = vec![Box::new(DynamoDbInvariants)];
            let findings = fixture.layer.engine.judge(&invariants).unwrap();
            fixture.layer.engine.repair(&findings.kept).unwrap();
            assert_eq!(found(&fixture), Vec::<String>::new(), "{expected}");
        }
    }

    #[test]
    fn undecidable_damage_is_reported_and_left() {
        let fixture = start();
        let (item, value) = first(&fixture, &key::items(1, 0));
        plant(&fixture, |tx| {
            drop(tx.set(&[item.as_slice(), b"x"].concat(), &value));
            drop(tx.set(&key::items(50, 0), &value));
        });
        let expected = [
            "an item of table \"table\" stands below another key than its own",
            "1 rows belong to no table: their table had number 50",
        ];
        assert_eq!(found(&fixture), expected);
        let invariants: Vec<Box<dyn Invariants>> = vec![Box::new(DynamoDbInvariants)];
        let findings = fixture.layer.engine.judge(&invariants).unwrap();
        fixture.layer.engine.repair(&findings.kept).unwrap();
        assert_eq!(found(&fixture), expected);
    }
}
