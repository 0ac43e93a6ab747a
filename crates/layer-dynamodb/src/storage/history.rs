//! Earlier states of items, for backups and for restoring a table to a point in time.
//!
//! A change of an item stores the old item as a row of history, if it is needed: point-in-time
//! recovery is on, or a backup is newer than the item. So a backup costs nothing when it is taken,
//! is exactly the state at one version, and takes space only for later changes.
//!
//! ```text
//! item     |---- a ----|-- b --|      |---- c ...      c is the item's row, from its version on
//! history       (from a, until b) (from b, until the deletion)
//! state at a version: the history that has begun by it and ends after it, else the row if it is not newer
//! ```
//!
//! A **pin** records that the state at a version is needed: by a backup, or by a reader of that
//! state. Each table knows its newest one. History that neither a pin nor recovery needs is swept
//! in small steps: when a pin is removed, and once a day. A deleted table with pins keeps its
//! items, under its number, until the last pin is removed.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use quartet_engine::Transaction;
use quartet_model::{KeyRange, Version};
use serde::{Deserialize, Serialize};

use crate::DynamoDb;
use crate::storage::found::Found;
use crate::storage::key::{self, ITEMS_PREFIX_BYTES};
use crate::storage::table::{Recovery, Table};

const DAY_MICROS: u64 = 24 * 3600 * 1_000_000;
/// Rows of history that one transaction looks at.
const SWEPT_ROWS: usize = 200;
/// Places that one page looks at, and about how many bytes of items it holds.
const PAGE_PLACES: usize = 200;
const PAGE_BYTES: usize = 1 << 20;
const VERSION_BYTES: usize = 8;

/// Keeps what is about to change, if it is needed.
pub fn keep(transaction: &mut Transaction<'_>, table: &Table, place: &[u8], old: &Found) {
    let Some(row) = old.row() else { return };
    let from = row.version();
    if table.recovery.is_none() && table.pinned < from.0 {
        return;
    }
    let until = transaction.commit_version();
    // A version overwritten within the same transaction was never visible; skip it.
    if from < until {
        let entry = key::history_entry(table.id, place, until);
        transaction.set_parts(&[&entry], &[&from.0.to_be_bytes(), row.value()]);
    }
}

/// Switches recovery on: from now on every change is kept.
pub fn start(transaction: &mut Transaction<'_>, table: &Table, days: i64) -> Recovery {
    let due_micros = transaction.now_micros() + DAY_MICROS;
    let recovery = Recovery {
        since_micros: transaction.commit_version().0,
        days,
        sweep_micros: due_micros,
    };
    schedule(transaction, table, due_micros);
    recovery
}

// ---- pins

/// Pins the state of a table. The caller stores it, unless it is deleted.
pub fn pin(transaction: &mut Transaction<'_>, table: &mut Table, version: Version, number: u32) {
    transaction.set(&key::pin(table.id, version, number), &[]);
    table.pinned = table.pinned.max(version.0);
}

pub fn newest_pin(transaction: &mut Transaction<'_>, table: u32) -> Option<Version> {
    let range = key::pins(table);
    let mut newest = None;
    transaction.scan(&range.start, &range.end, true, &mut |row| {
        newest = Some(key::pinned_version(Transaction::layer_key(row)));
        ControlFlow::Break(())
    });
    newest
}

/// Takes a pin away; `table` as it was when it was pinned. The last one of a deleted table takes
/// its items along.
pub fn unpin(layer: &DynamoDb, transaction: &mut Transaction<'_>, table: &Table, version: Version, number: u32) {
    transaction.clear(&key::pin(table.id, version, number));
    let newest = newest_pin(transaction, table.id);
    let live = layer.find_kept_table(transaction, &table.kept_name());
    match (live.filter(|live| live.id == table.id), newest) {
        (Some(live), newest) => {
            let pinned = newest.map_or(0, |version| version.0);
            let table = Table {
                pinned,
                ..Table::clone(&live)
            };
            layer.store_table(transaction, &table);
            sweep_now(transaction, &table);
        }
        (None, Some(_)) => sweep_now(transaction, table),
        (None, None) => {
            clear(transaction, table.id);
            transaction.clear(&key::dropped(table.id));
        }
    }
}

/// Clears a deleted table as a whole, or the unneeded parts of it if its state is pinned.
pub fn clear_or_keep(transaction: &mut Transaction<'_>, table: &Table) {
    if newest_pin(transaction, table.id).is_none() {
        clear(transaction, table.id);
        return;
    }
    let entries = KeyRange {
        start: key::items(table.id, 1),
        end: key::everything_of(table.id).end,
    };
    transaction.clear_range(&entries.start, &entries.end);
    let dropped = Table {
        recovery: None,
        ..table.clone()
    };
    let json = serde_json::to_vec(&dropped).expect("a table is JSON");
    transaction.set(&key::dropped(table.id), &json);
    if table.recovery.is_some() {
        sweep_now(transaction, table);
    }
}

fn clear(transaction: &mut Transaction<'_>, table: u32) {
    for range in [key::everything_of(table), key::history_of(table)] {
        transaction.clear_range(&range.start, &range.end);
    }
}

// ---- reading

/// A part of a table as it was.
pub struct Page {
    /// Stored items by their places.
    pub items: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The last place that was looked at; `None`: there are no more.
    pub last: Option<Vec<u8>>,
}

/// The items that a table held at `version` after the place `after`. The version is pinned, or
/// recovery covers it.
pub fn page(transaction: &mut Transaction<'_>, table: u32, version: Version, after: &[u8]) -> Page {
    let mut page = present(transaction, table, version, after);
    let mut place = after.to_vec();
    let mut room = PAGE_BYTES;
    for looked_at in 1.. {
        match next_place(transaction, table, &place) {
            Some(next) if page.last.as_ref().is_none_or(|last| next <= *last) => place = next,
            _ => break,
        }
        if let Some((_, item)) = state(transaction, table, &place, version) {
            room = room.saturating_sub(item.len());
            page.items.insert(place.clone(), item);
        }
        if looked_at == PAGE_PLACES || room == 0 {
            page.items.split_off(&[place.as_slice(), &[0]].concat());
            page.last = Some(place);
            break;
        }
    }
    page
}

/// Returns the items that have not changed since.
fn present(transaction: &mut Transaction<'_>, table: u32, version: Version, after: &[u8]) -> Page {
    let all = KeyRange::prefix(&key::items(table, 0));
    let start = match after {
        [] => all.start,
        place => [key::items(table, 0).as_slice(), place, &[0]].concat(),
    };
    let mut page = Page {
        items: BTreeMap::new(),
        last: None,
    };
    let (mut looked_at, mut bytes) = (0, 0);
    transaction.scan(&start, &all.end, false, &mut |row| {
        let place = &Transaction::layer_key(row)[ITEMS_PREFIX_BYTES..];
        if row.version() <= version {
            page.items.insert(place.to_vec(), row.value().to_vec());
        }
        (looked_at, bytes) = (looked_at + 1, bytes + row.value().len());
        if looked_at == PAGE_PLACES || bytes >= PAGE_BYTES {
            page.last = Some(place.to_vec());
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    });
    page
}

/// The next place that has history.
fn next_place(transaction: &mut Transaction<'_>, table: u32, after: &[u8]) -> Option<Vec<u8>> {
    let all = key::history_of(table);
    let start = match after {
        [] => all.start,
        place => key::history_after(table, place),
    };
    let mut next = None;
    transaction.scan(&start, &all.end, false, &mut |row| {
        next = Some(key::history_parts(Transaction::layer_key(row)).0.to_vec());
        ControlFlow::Break(())
    });
    next
}

/// Returns an item's state at `version`, and the version since which it has been so.
fn state(transaction: &mut Transaction<'_>, table: u32, place: &[u8], version: Version) -> Option<(Version, Vec<u8>)> {
    let start = key::history_entry(table, place, Version(version.0 + 1));
    let mut state = None;
    transaction.scan(&start, &key::history_after(table, place), false, &mut |row| {
        let (from, item) = row.value().split_at(VERSION_BYTES);
        state = Some((read_version(from), item.to_vec()));
        ControlFlow::Break(())
    });
    if state.is_none() {
        let row = transaction.get(&[key::items(table, 0).as_slice(), place].concat());
        state = row.map(|row| (row.version(), row.value().to_vec()));
    }
    state.filter(|(from, _)| *from <= version)
}

fn read_version(bytes: &[u8]) -> Version {
    let bytes = bytes[..VERSION_BYTES].try_into().expect("eight bytes");
    Version(u64::from_be_bytes(bytes))
}

// ---- what changed

/// An item that is not what it was.
pub struct Change {
    pub old: Option<Vec<u8>>,
    pub new: Option<Vec<u8>>,
    /// The last commit that changed it.
    pub version: Version,
}

/// Returns the items that changed after `from` and up to `to`, both pinned or covered by recovery,
/// after the place `after`; and the last visited place, if there are more. Items that were created
/// and deleted in between are not among them.
pub fn changes(
    transaction: &mut Transaction<'_>,
    table: u32,
    from: Version,
    to: Version,
    after: &[u8],
) -> (Vec<Change>, Option<Vec<u8>>) {
    let (places, mut last) = changed_places(transaction, table, from, after);
    let (mut changes, mut room) = (Vec::new(), PAGE_BYTES);
    for place in places {
        if let Some(change) = change(transaction, table, &place, from, to) {
            let images = change.old.iter().chain(&change.new);
            room = room.saturating_sub(images.map(Vec::len).sum());
            changes.push(change);
        }
        if room == 0 {
            last = Some(place);
            break;
        }
    }
    (changes, last)
}

/// Places that may have changed since `from`: those of newer items, and those with history.
fn changed_places(
    transaction: &mut Transaction<'_>,
    table: u32,
    from: Version,
    after: &[u8],
) -> (BTreeSet<Vec<u8>>, Option<Vec<u8>>) {
    let all = KeyRange::prefix(&key::items(table, 0));
    let start = match after {
        [] => all.start,
        place => [key::items(table, 0).as_slice(), place, &[0]].concat(),
    };
    let (mut places, mut last, mut looked_at) = (BTreeSet::new(), None, 0);
    transaction.scan(&start, &all.end, false, &mut |row| {
        let place = &Transaction::layer_key(row)[ITEMS_PREFIX_BYTES..];
        if row.version() > from {
            places.insert(place.to_vec());
        }
        looked_at += 1;
        if looked_at == PAGE_PLACES {
            last = Some(place.to_vec());
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    });
    let mut place = after.to_vec();
    for looked_at in 1.. {
        match next_place(transaction, table, &place) {
            Some(next) if last.as_ref().is_none_or(|last| next <= *last) => place = next,
            _ => break,
        }
        places.insert(place.clone());
        if looked_at == PAGE_PLACES {
            places.split_off(&[place.as_slice(), &[0]].concat());
            last = Some(place);
            break;
        }
    }
    (places, last)
}

fn change(transaction: &mut Transaction<'_>, table: u32, place: &[u8], from: Version, to: Version) -> Option<Change> {
    let old = state(transaction, table, place, from);
    let new = state(transaction, table, place, to);
    let version = match (&old, &new) {
        (Some((before, _)), Some((after, _))) if before == after => return None,
        (_, Some((after, _))) => *after,
        (Some(_), None) => last_end(transaction, table, place, to)?,
        (None, None) => return None,
    };
    let (old, new) = (old.map(|(_, item)| item), new.map(|(_, item)| item));
    Some(Change { old, new, version })
}

/// The end time of an item's last state that had ended by `to`.
fn last_end(transaction: &mut Transaction<'_>, table: u32, place: &[u8], to: Version) -> Option<Version> {
    let (start, end) = (
        key::history_entry(table, place, Version(0)),
        key::history_entry(table, place, Version(to.0 + 1)),
    );
    let mut last = None;
    transaction.scan(&start, &end, true, &mut |row| {
        last = Some(key::history_parts(Transaction::layer_key(row)).1);
        ControlFlow::Break(())
    });
    last
}

// ---- sweeping

/// The progress of sweeping a table's history.
#[derive(Serialize, Deserialize)]
struct Sweep {
    table: String,
    /// Key of the last row looked at; empty before the first.
    after: Vec<u8>,
}

/// An immediate sweep is one row per table, however often it is requested.
pub fn sweep_now(transaction: &mut Transaction<'_>, table: &Table) {
    schedule(transaction, table, 0);
}

fn schedule(transaction: &mut Transaction<'_>, table: &Table, due_micros: u64) {
    let sweep = Sweep {
        table: table.kept_name().into_owned(),
        after: Vec::new(),
    };
    store(transaction, &key::sweep(due_micros, table.id), &sweep);
}

fn store(transaction: &mut Transaction<'_>, row_key: &[u8], sweep: &Sweep) {
    transaction.set(row_key, &serde_json::to_vec(sweep).expect("JSON"));
}

/// A step of the first due sweep. Returns false if no sweep is due.
pub fn sweep(layer: &DynamoDb, transaction: &mut Transaction<'_>) -> bool {
    let now = transaction.now_micros();
    let mut first = None;
    transaction.scan(b"G", &key::sweep(now + 1, 0), false, &mut |row| {
        let sweep: Sweep = serde_json::from_slice(row.value()).expect("a stored sweep");
        first = Some((Transaction::layer_key(row).to_vec(), sweep));
        ControlFlow::Break(())
    });
    let Some((row_key, mut sweep)) = first else {
        return false;
    };
    let (due_micros, id) = key::sweep_parts(&row_key);
    let live = layer.find_kept_table(transaction, &sweep.table);
    let live = live.filter(|table| table.id == id).map(|table| Table::clone(&table));
    let recovery = live.as_ref().and_then(|table| table.recovery.clone());
    let earliest = recovery.as_ref().map(|recovery| recovery.earliest_micros(now));
    match sweep_rows(transaction, id, &sweep.after, earliest) {
        Some(last) => {
            sweep.after = last;
            store(transaction, &row_key, &sweep);
        }
        None => {
            transaction.clear(&row_key);
            if let (Some(mut table), Some(mut recovery)) = (live, recovery)
                && recovery.sweep_micros == due_micros
            {
                recovery.sweep_micros = now + DAY_MICROS;
                schedule(transaction, &table, recovery.sweep_micros);
                table.recovery = Some(recovery);
                layer.store_table(transaction, &table);
            }
        }
    }
    true
}

/// Removes what is not needed of some rows of history. Answers the last one looked at, if there may
/// be more.
fn sweep_rows(transaction: &mut Transaction<'_>, table: u32, after: &[u8], earliest: Option<u64>) -> Option<Vec<u8>> {
    let all = key::history_of(table);
    let start = match after {
        [] => all.start,
        last => KeyRange::point(last).end,
    };
    let mut rows = Vec::new();
    transaction.scan(&start, &all.end, false, &mut |row| {
        rows.push((Transaction::layer_key(row).to_vec(), read_version(row.value())));
        match rows.len() < SWEPT_ROWS {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    });
    for (row_key, from) in &rows {
        let (_, until) = key::history_parts(row_key);
        let is_recoverable = earliest.is_some_and(|earliest| until.0 > earliest);
        if !is_recoverable && !has_pin_within(transaction, table, *from, until) {
            transaction.clear(row_key);
        }
    }
    rows.pop()
        .map(|(last, _)| last)
        .filter(|_| rows.len() + 1 == SWEPT_ROWS)
}

/// Returns true if a version of `from..until` is pinned.
fn has_pin_within(transaction: &mut Transaction<'_>, table: u32, from: Version, until: Version) -> bool {
    let mut has_pin = false;
    let (start, end) = (key::pins_from(table, from), key::pins_from(table, until));
    transaction.scan(&start, &end, false, &mut |_| {
        has_pin = true;
        ControlFlow::Break(())
    });
    has_pin
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use quartet_engine::Invariants;

    use crate::DynamoDbInvariants;
    use crate::testing::Fixture;
    use crate::wire::json::Json;

    /// The contents of a table: each key and its number.
    type State = BTreeMap<u64, u64>;

    const TABLE: &str = r#"{"TableName":"table","BillingMode":"PAY_PER_REQUEST",
        "KeySchema":[{"AttributeName":"h","KeyType":"HASH"}],
        "AttributeDefinitions":[{"AttributeName":"h","AttributeType":"N"},{"AttributeName":"n","AttributeType":"N"}],
        "GlobalSecondaryIndexes":[{"IndexName":"by_n","KeySchema":[{"AttributeName":"n","KeyType":"HASH"}],
        "Projection":{"ProjectionType":"ALL"}}]}"#;
    const RECOVERY: &str =
        r#"{"TableName":"table","PointInTimeRecoverySpecification":{"PointInTimeRecoveryEnabled":true}}"#;

    fn ask(fixture: &Fixture, operation: &str, request: &str) -> String {
        let reply = fixture.ask(operation, request);
        let body = String::from_utf8(reply.body).unwrap();
        assert_eq!(reply.status, 200, "{operation} {request}: {body}");
        body
    }

    /// Some writes that a seed decides, to the table and to the state.
    fn write(fixture: &Fixture, state: &mut State, seed: &mut u64, count: usize, keys: u64) {
        for _ in 0..count {
            *seed ^= *seed << 13;
            *seed ^= *seed >> 7;
            *seed ^= *seed << 17;
            let (h, n) = (*seed % keys, *seed >> 40);
            if *seed >> 20 & 3 == 0 {
                state.remove(&h);
                let request = format!(r#"{{"TableName":"table","Key":{{"h":{{"N":"{h}"}}}}}}"#);
                ask(fixture, "DeleteItem", &request);
            } else {
                state.insert(h, n);
                let request = format!(r#"{{"TableName":"table","Item":{{"h":{{"N":"{h}"}},"n":{{"N":"{n}"}}}}}}"#);
                ask(fixture, "PutItem", &request);
            }
        }
    }

    fn read(fixture: &Fixture, table: &str, index: &str) -> State {
        let body = ask(fixture, "Scan", &format!(r#"{{"TableName":"{table}"{index}}}"#));
        let json = Json::parse(body.as_bytes()).unwrap();
        let number = |item: &Json<'_>, name: &str| item.get(name)?.get("N")?.text()?.parse().ok();
        let items = json.get("Items").unwrap().elements().iter();
        items
            .map(|item| (number(item, "h").unwrap(), number(item, "n").unwrap()))
            .collect()
    }

    /// Restores and compares, through the table and its index; nothing is left of it afterwards.
    fn check(fixture: &Fixture, operation: &str, source: &str, expected: &State) {
        let request = format!(r#"{{{source},"TargetTableName":"restored"}}"#);
        ask(fixture, operation, &request);
        assert_eq!(fixture.ask("Scan", r#"{"TableName":"restored"}"#).status, 400);
        fixture.layer.go_on();
        assert_eq!(read(fixture, "restored", ""), *expected, "{request}");
        assert_eq!(
            read(fixture, "restored", r#","IndexName":"by_n""#),
            *expected,
            "{request}"
        );
        ask(fixture, "DeleteTable", r#"{"TableName":"restored"}"#);
        let invariants: Vec<Box<dyn Invariants>> = vec![Box::new(DynamoDbInvariants)];
        assert_eq!(fixture.layer.engine.judge(&invariants).unwrap().kept, []);
    }

    fn backup(fixture: &Fixture) -> String {
        let body = ask(
            fixture,
            "CreateBackup",
            r#"{"TableName":"table","BackupName":"backup"}"#,
        );
        let json = Json::parse(body.as_bytes()).unwrap();
        let arn = json.get("BackupDetails").unwrap().get("BackupArn").unwrap();
        format!(r#""BackupArn":"{}""#, arn.text().unwrap())
    }

    fn rows(fixture: &Fixture, start: &[u8], end: &[u8]) -> u64 {
        fixture
            .layer
            .engine
            .reader(fixture.layer.space)
            .unwrap()
            .count(start, end)
    }

    #[test]
    fn each_backup_is_the_state_when_it_was_taken() {
        let fixture = Fixture::start();
        ask(&fixture, "CreateTable", TABLE);
        let (mut state, mut seed) = (State::new(), 7);
        let mut backups = Vec::new();
        for _ in 0..8 {
            write(&fixture, &mut state, &mut seed, 150, 450);
            backups.push((backup(&fixture), state.clone()));
        }
        write(&fixture, &mut state, &mut seed, 600, 450);
        // Those in the middle go first, so that their neighbours' history is what must stay.
        for position in [3, 4, 0, 2, 5] {
            let (arn, _) = &backups[position % backups.len()];
            ask(&fixture, "DeleteBackup", &format!("{{{arn}}}"));
            backups.remove(position % backups.len());
            fixture.layer.maintain();
            for (arn, expected) in &backups {
                check(&fixture, "RestoreTableFromBackup", arn, expected);
            }
        }
        ask(&fixture, "DeleteTable", r#"{"TableName":"table"}"#);
        for (arn, expected) in &backups {
            check(&fixture, "RestoreTableFromBackup", arn, expected);
            ask(&fixture, "DeleteBackup", &format!("{{{arn}}}"));
        }
        fixture.layer.maintain();
        let ranges = [(b"B", b"C"), (b"D", b"E"), (b"G", b"J"), (b"P", b"Q"), (b"T", b"U")];
        assert_eq!(ranges.map(|(start, end)| rows(&fixture, start, end)), [0; 5]);
    }

    #[test]
    fn each_moment_of_the_period_can_be_restored() {
        let fixture = Fixture::start();
        ask(&fixture, "CreateTable", TABLE);
        let (mut state, mut seed) = (State::new(), 11);
        write(&fixture, &mut state, &mut seed, 300, 400);
        ask(&fixture, "UpdateContinuousBackups", RECOVERY);
        let mut moments = Vec::new();
        for moment in 0..12_u64 {
            fixture.clock.advance(500_000);
            moments.push((1_700_000_000 + moment, state.clone()));
            fixture.clock.advance(500_000);
            write(&fixture, &mut state, &mut seed, 100, 400);
        }
        for (second, expected) in &moments {
            let source = format!(r#""SourceTableName":"table","RestoreDateTime":{second}.5"#);
            check(&fixture, "RestoreTableToPointInTime", &source, expected);
        }
        let latest = r#""SourceTableName":"table","UseLatestRestorableTime":true"#;
        check(&fixture, "RestoreTableToPointInTime", latest, &state);
    }

    #[test]
    fn old_versions_are_forgotten() {
        let fixture = Fixture::start();
        ask(&fixture, "CreateTable", TABLE);
        ask(&fixture, "UpdateContinuousBackups", RECOVERY);
        let (mut state, mut seed) = (State::new(), 13);
        write(&fixture, &mut state, &mut seed, 500, 100);
        let count = rows(&fixture, b"H", b"I");
        assert!(count > 100);
        for _ in 0..34 {
            fixture.clock.advance(86_400_000_000);
            fixture.layer.maintain();
        }
        assert_eq!(rows(&fixture, b"H", b"I"), count);
        for _ in 0..2 {
            fixture.clock.advance(86_400_000_000);
            fixture.layer.maintain();
        }
        assert_eq!(rows(&fixture, b"H", b"I"), 0);
        write(&fixture, &mut state, &mut seed, 500, 100);
        assert!(rows(&fixture, b"H", b"I") > 100);
        ask(&fixture, "UpdateContinuousBackups", &RECOVERY.replace("true", "false"));
        fixture.layer.maintain();
        assert_eq!(rows(&fixture, b"H", b"I"), 0);
    }

    #[test]
    fn a_deleted_table_can_be_restored_for_a_while() {
        let fixture = Fixture::start();
        ask(&fixture, "CreateTable", TABLE);
        ask(&fixture, "UpdateContinuousBackups", RECOVERY);
        let (mut state, mut seed) = (State::new(), 17);
        write(&fixture, &mut state, &mut seed, 500, 300);
        ask(&fixture, "DeleteTable", r#"{"TableName":"table"}"#);
        let body = ask(&fixture, "ListBackups", r#"{"BackupType":"SYSTEM"}"#);
        let json = Json::parse(body.as_bytes()).unwrap();
        let listed = &json.get("BackupSummaries").unwrap().elements()[0];
        assert_eq!(
            listed.get("BackupName").unwrap().text(),
            Some("table$DeletedTableBackup")
        );
        let source = format!(r#""BackupArn":"{}""#, listed.get("BackupArn").unwrap().text().unwrap());
        check(&fixture, "RestoreTableFromBackup", &source, &state);
        fixture.clock.advance(35 * 86_400_000_000 - 1_000_000);
        fixture.layer.maintain();
        assert_ne!(rows(&fixture, b"I", b"J"), 0);
        fixture.clock.advance(2_000_000);
        fixture.layer.maintain();
        assert_eq!(ask(&fixture, "ListBackups", "{}"), r#"{"BackupSummaries":[]}"#);
        assert_eq!(rows(&fixture, b"I", b"J"), 0);
    }
}
