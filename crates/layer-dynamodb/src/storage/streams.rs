//! Streams: the changes of a table's items, in the order of their commits, for 24 hours.
//!
//! A record is written by the transaction of its change. A stream has a number of shards, by what
//! its table could write when it was started, that never close while it is on; a partition key
//! always lands in the same one. A sequence number is the version of the commit and the number of
//! the change within it, so it grows within a shard.

use std::ops::ControlFlow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use quartet_engine::Transaction;
use quartet_model::KeyRange;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::macros::format_description;
use xxhash_rust::xxh3::xxh3_128;

use crate::storage::attributes::write_key_schema;
use crate::storage::key::{self, KeyPart, Position};
use crate::storage::stored;
use crate::storage::table::{Policy, SHARDS_MAX, StreamSettings, StreamView, Table};
use crate::wire::failure::{Exception, Failure};
use crate::wire::json::{Json, Writer, write_seconds};
use crate::wire::value::{Item, item_size};
use crate::{DynamoDb, Outcome, settled};

/// Write units of one partition, and so of one shard.
const SHARD_WRITE_UNITS: i64 = 1000;
pub const KEPT_MICROS: u64 = 24 * 3600 * 1_000_000;
const ITERATOR_MICROS: u64 = 15 * 60 * 1_000_000;
const PAGE_BYTES: usize = 1 << 20;
const PAGE_RECORDS: i64 = 1000;

/// A stream as it is kept: it outlives the setting that made it, and its table.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Stream {
    pub id: u32,
    pub table: String,
    /// The region of its table.
    pub region: Option<String>,
    pub label: String,
    pub view: StreamView,
    pub created_micros: u64,
    /// Zero while it is on.
    pub ended_micros: u64,
    pub hash: KeyPart,
    pub range: Option<KeyPart>,
    pub shards: u8,
    pub resource_policy: Option<Policy>,
}

/// A table has a partition, and its stream a shard, for every thousand units that it may write in a
/// second.
fn shards_for(table: &Table) -> u8 {
    match table.capacity.on_demand {
        true => SHARDS_MAX,
        false => (1 + (table.capacity.write_units - 1) / SHARD_WRITE_UNITS).clamp(1, SHARDS_MAX.into()) as u8,
    }
}

impl Stream {
    fn start(&self) -> Position {
        Position {
            version: self.created_micros,
            number: 0,
        }
    }

    fn is_on(&self) -> bool {
        self.ended_micros == 0
    }
}

/// Starts a stream of `table`.
pub fn start(transaction: &mut Transaction<'_>, table: &Table, view: StreamView) -> StreamSettings {
    let now = transaction.now_micros();
    let id = crate::storage::catalog::next_number(transaction);
    let stream = Stream {
        id,
        table: table.name.clone(),
        region: table.region.clone(),
        label: free_label(transaction, table, now),
        view,
        created_micros: now,
        ended_micros: 0,
        hash: table.hash.clone(),
        range: table.range.clone(),
        shards: shards_for(table),
        resource_policy: None,
    };
    store(transaction, &stream);
    StreamSettings {
        id,
        shards: stream.shards,
        label: stream.label,
        view,
        enabled: true,
    }
}

/// Closes the shards of a stream; its records stay until they are too old.
pub fn end(transaction: &mut Transaction<'_>, id: u32) {
    let now = transaction.now_micros();
    if let Some(mut stream) = load(transaction, id) {
        stream.ended_micros = now;
        store(transaction, &stream);
    }
}

pub fn store(transaction: &mut Transaction<'_>, stream: &Stream) {
    let json = serde_json::to_vec(stream).expect("a stream is JSON");
    transaction.set(&key::stream(stream.id), &json);
}

fn load(transaction: &mut Transaction<'_>, id: u32) -> Option<Stream> {
    let row = transaction.get(&key::stream(id))?;
    Some(serde_json::from_slice(row.value()).expect("a stored stream"))
}

pub fn all(transaction: &mut Transaction<'_>) -> Vec<Stream> {
    let mut streams = Vec::new();
    let range = key::streams();
    transaction.scan(&range.start, &range.end, false, &mut |row| {
        streams.push(serde_json::from_slice(row.value()).expect("a stored stream"));
        ControlFlow::Continue(())
    });
    streams
}

/// A time as a stream's label and as a manifest has it: ISO 8601 with milliseconds.
pub fn label(micros: u64) -> String {
    let format = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]");
    let nanoseconds = i128::from(micros) * 1000;
    // Clocks beyond the year 9999 have no label.
    let time = OffsetDateTime::from_unix_timestamp_nanos(nanoseconds).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    time.format(format).expect("a format of digits")
}

/// The label of a new stream: its time, or the next that no stream of the table's name has. Streams
/// are kept for a day after they end, and the clock may have been set back since.
fn free_label(transaction: &mut Transaction<'_>, table: &Table, now_micros: u64) -> String {
    let mut streams = all(transaction);
    streams.retain(|other| other.table == table.name && other.region == table.region);
    let mut candidates = (0..).map(|tries| label(now_micros + tries * 1000));
    let is_free = |label: &String| streams.iter().all(|other| other.label != *label);
    candidates.find(is_free).expect("there are more labels than streams")
}

/// Returns the shard, of `shards`, of a partition, by the hash at the start of its place.
pub fn shard_of(place: &[u8], shards: u8) -> u8 {
    ((u16::from(place[0]) * u16::from(shards)) >> 8) as u8
}

/// A record's description of a change.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    kind: EventKind,
    by_service: bool,
    keys: Item,
    new: Option<Item>,
    old: Option<Item>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EventKind {
    Insert,
    Modify,
    Remove,
}

impl EventKind {
    const ALL: [EventKind; 3] = [EventKind::Insert, EventKind::Modify, EventKind::Remove];

    fn name(self) -> &'static str {
        match self {
            EventKind::Insert => "INSERT",
            EventKind::Modify => "MODIFY",
            EventKind::Remove => "REMOVE",
        }
    }
}

/// The author of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Author {
    Client,
    /// The service itself, because the item expired.
    Expiry,
}

impl Event {
    /// The event of a change with at least one side.
    pub fn between(table: &Table, view: StreamView, old: Option<&Item>, new: Option<&Item>, author: Author) -> Event {
        let kind = match (old, new) {
            (None, _) => EventKind::Insert,
            (_, Some(_)) => EventKind::Modify,
            (_, None) => EventKind::Remove,
        };
        let shows = |views: [StreamView; 2]| views.contains(&view);
        Event {
            kind,
            by_service: author == Author::Expiry,
            keys: table.key_of(new.or(old).expect("a change has a side")),
            new: new
                .filter(|_| shows([StreamView::NewImage, StreamView::NewAndOldImages]))
                .cloned(),
            old: old
                .filter(|_| shows([StreamView::OldImage, StreamView::NewAndOldImages]))
                .cloned(),
        }
    }

    /// Kind, author, then the three items, each with its length before it; zero if it is absent.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![self.kind as u8, self.by_service.into()];
        for item in [Some(&self.keys), self.new.as_ref(), self.old.as_ref()] {
            let stored = item.map(stored::encode).unwrap_or_default();
            bytes.extend_from_slice(&(stored.len() as u32).to_le_bytes());
            bytes.extend_from_slice(&stored);
        }
        bytes
    }

    fn decode(bytes: &[u8]) -> Event {
        let mut remaining = &bytes[2..];
        let mut item = || {
            let (length, tail) = remaining.split_first_chunk().expect("a length");
            let (stored, tail) = tail.split_at(u32::from_le_bytes(*length) as usize);
            remaining = tail;
            (!stored.is_empty()).then(|| stored::decode(stored))
        };
        Event {
            kind: EventKind::ALL[usize::from(bytes[0])],
            by_service: bytes[1] != 0,
            keys: item().expect("a record has keys"),
            new: item(),
            old: item(),
        }
    }

    fn size(&self) -> usize {
        let images = self.new.iter().chain(&self.old);
        item_size(&self.keys) + images.map(item_size).sum::<usize>()
    }
}

/// The texts by which clients name a position. At least 21 digits, growing with the position.
fn sequence_number(position: Position) -> String {
    format!("{:016}{:08}", position.version, position.number)
}

fn parse_sequence_number(text: &str) -> Option<Position> {
    if text.len() < 21 || text.len() > 40 || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (version, number) = text.split_at(text.len() - 8);
    Some(Position {
        version: version.parse().ok()?,
        number: number.parse().ok()?,
    })
}

fn shard_id(stream: &Stream, shard: u8) -> String {
    format!(
        "shardId-{:020}-{:08x}",
        stream.created_micros / 1000,
        u32::from(shard) | stream.id << 8
    )
}

/// The contents of an iterator: the position, and the time of its expiry.
struct Cursor {
    stream: u32,
    shard: u8,
    /// The first position not yet read.
    from: Position,
    made_micros: u64,
}

impl Cursor {
    fn encode(&self) -> String {
        let mut bytes = vec![self.shard];
        bytes.extend_from_slice(&self.stream.to_be_bytes());
        bytes.extend_from_slice(&self.from.version.to_be_bytes());
        bytes.extend_from_slice(&self.from.number.to_be_bytes());
        bytes.extend_from_slice(&self.made_micros.to_be_bytes());
        STANDARD.encode(bytes)
    }

    fn decode(text: &str) -> Option<Cursor> {
        let bytes = STANDARD.decode(text).ok()?;
        let (shard, tail) = bytes.split_first()?;
        let (stream, tail) = tail.split_first_chunk()?;
        let (version, tail) = tail.split_first_chunk()?;
        let (number, tail) = tail.split_first_chunk()?;
        Some(Cursor {
            stream: u32::from_be_bytes(*stream),
            shard: *shard,
            from: Position {
                version: u64::from_be_bytes(*version),
                number: u32::from_be_bytes(*number),
            },
            made_micros: u64::from_be_bytes(tail.try_into().ok()?),
        })
    }
}

/// An ARN's part after its region.
fn resource_of(arn: &str) -> Option<&str> {
    arn.splitn(5, ':').nth(4)
}

impl DynamoDb {
    /// The streams of this region.
    fn streams(&self, transaction: &mut Transaction<'_>) -> Vec<Stream> {
        let mut streams = all(transaction);
        streams.retain(|stream| stream.region.as_deref() == self.own_region());
        streams
    }

    fn stream_arn(&self, stream: &Stream) -> String {
        format!("{}/stream/{}", self.table_arn(&stream.table), stream.label)
    }

    pub(crate) fn stream_by_arn(&self, transaction: &mut Transaction<'_>, arn: &str) -> Result<Stream, Failure> {
        let well_formed = arn.starts_with("arn:") && arn.contains(":table/") && arn.contains("/stream/");
        if !well_formed {
            return Err(Failure::validation(format!(
                "Invalid StreamArn: Invalid ARN provided as input {arn}"
            )));
        }
        let streams = self.streams(transaction).into_iter();
        // Where regions share, any may name it.
        let named = |stream: &Stream| match self.regions_are_separate {
            true => self.stream_arn(stream) == arn,
            false => resource_of(&self.stream_arn(stream)) == resource_of(arn),
        };
        let stream = streams.into_iter().find(named);
        stream.ok_or_else(|| {
            Failure::new(
                Exception::ResourceNotFound,
                format!("Requested resource not found: Stream: {arn} not found"),
            )
        })
    }
}

pub fn list(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    let limit = request.get("Limit").and_then(Json::integer).unwrap_or(100) as usize;
    let table = request
        .get("TableName")
        .and_then(Json::text)
        .map(crate::storage::catalog::table_name);
    let start = request.get("ExclusiveStartStreamArn").and_then(Json::text);
    layer.respond_to_read(
        Ok(()),
        |transaction, ()| {
            let streams = layer.streams(transaction);
            let position = match start {
                Some(arn) => {
                    let index = streams.iter().position(|stream| layer.stream_arn(stream) == arn);
                    let invalid =
                        || Failure::validation(format!("Invalid StreamArn: Invalid ARN provided as input {arn}"));
                    index.ok_or_else(invalid)? + 1
                }
                None => 0,
            };
            let following = streams.into_iter().skip(position);
            let mut matching = following.filter(|stream| table.is_none_or(|table| stream.table == table));
            let page: Vec<Stream> = matching.by_ref().take(limit).collect();
            Ok((page, matching.next().is_some()))
        },
        |(), (page, more)| {
            Writer::object(|writer| {
                writer.list("Streams", &page, |writer, stream| {
                    writer.open(b'{');
                    writer.member("StreamArn", &layer.stream_arn(stream));
                    writer.member("TableName", &stream.table);
                    writer.member("StreamLabel", &stream.label);
                    writer.close(b'}');
                });
                if let (Some(last), true) = (page.last(), more) {
                    writer.member("LastEvaluatedStreamArn", &layer.stream_arn(last));
                }
            })
        },
    )
}

pub fn describe(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    let arn = request.get("StreamArn").and_then(Json::text).unwrap_or_default();
    let limit = request.get("Limit").and_then(Json::integer).unwrap_or(100) as usize;
    let after = request.get("ExclusiveStartShardId").and_then(Json::text);
    // No shard ever has children.
    let children = request.get("ShardFilter").is_some();
    layer.respond_to_read(
        Ok(()),
        |transaction, ()| layer.stream_by_arn(transaction, arn),
        |(), stream| {
            let shards =
                (0..stream.shards).filter(|shard| after.is_none_or(|after| shard_id(&stream, *shard).as_str() > after));
            let mut shards = shards.filter(|_| !children);
            let page: Vec<u8> = shards.by_ref().take(limit).collect();
            Writer::object(|writer| {
                writer.nested("StreamDescription", |writer| {
                    write_description(layer, &stream, &page, writer);
                    if let (Some(last), Some(_)) = (page.last(), shards.next()) {
                        writer.member("LastEvaluatedShardId", &shard_id(&stream, *last));
                    }
                });
            })
        },
    )
}

fn write_description(layer: &DynamoDb, stream: &Stream, shards: &[u8], writer: &mut Writer) {
    writer.member("StreamArn", &layer.stream_arn(stream));
    writer.member("StreamLabel", &stream.label);
    writer.member("StreamStatus", if stream.is_on() { "ENABLED" } else { "DISABLED" });
    writer.member("StreamViewType", stream.view.name());
    write_seconds(writer, "CreationRequestDateTime", stream.created_micros);
    writer.member("TableName", &stream.table);
    write_key_schema(writer, std::slice::from_ref(&stream.hash), stream.range.as_slice());
    writer.list("Shards", shards, |writer, shard| {
        writer.open(b'{');
        writer.member("ShardId", &shard_id(stream, *shard));
        writer.nested("SequenceNumberRange", |writer| {
            writer.member("StartingSequenceNumber", &sequence_number(stream.start()));
            if !stream.is_on() {
                let end = Position {
                    version: stream.ended_micros,
                    number: 0,
                };
                writer.member("EndingSequenceNumber", &sequence_number(end));
            }
        });
        writer.close(b'}');
    });
}

pub fn shard_iterator(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    let text = |name| request.get(name).and_then(Json::text);
    let kind = text("ShardIteratorType").unwrap_or_default();
    let sequence = text("SequenceNumber");
    let has_sequence = kind.ends_with("SEQUENCE_NUMBER");
    if has_sequence && sequence.is_none() {
        return settled(Err(Failure::validation(format!(
            "Missing required parameter: SequenceNumber is required for ShardIteratorType {kind}"
        ))));
    }
    if !has_sequence && sequence.is_some() {
        return settled(Err(Failure::validation(format!(
            "SequenceNumber must not be given for ShardIteratorType {kind}"
        ))));
    }
    layer.respond_to_read(
        Ok(()),
        |transaction, ()| {
            let stream = layer.stream_by_arn(transaction, text("StreamArn").unwrap_or_default())?;
            let requested = text("ShardId").unwrap_or_default();
            let shard = (0..stream.shards)
                .find(|shard| shard_id(&stream, *shard) == requested)
                .ok_or_else(|| {
                    Failure::new(
                        Exception::ResourceNotFound,
                        format!(
                            "Requested resource not found: Shard: {requested} in Stream: {} not found",
                            layer.stream_arn(&stream)
                        ),
                    )
                })?;
            let from = match kind {
                "TRIM_HORIZON" => Position::default(),
                "LATEST" => after_newest(transaction, &stream, shard),
                _ => {
                    let position = parse_sequence_number(sequence.unwrap_or_default()).ok_or_else(|| {
                        Failure::validation(format!("Invalid SequenceNumber: {}", sequence.unwrap_or_default()))
                    })?;
                    check_not_trimmed(transaction, &stream, position)?;
                    if kind == "AT_SEQUENCE_NUMBER" {
                        position
                    } else {
                        next(position)
                    }
                }
            };
            Ok(Cursor {
                stream: stream.id,
                shard,
                from,
                made_micros: transaction.now_micros(),
            })
        },
        |(), cursor| Writer::object(|writer| writer.member("ShardIterator", &cursor.encode())),
    )
}

fn next(position: Position) -> Position {
    Position {
        number: position.number + 1,
        ..position
    }
}

fn check_not_trimmed(transaction: &mut Transaction<'_>, stream: &Stream, position: Position) -> Result<(), Failure> {
    let horizon = transaction.now_micros().saturating_sub(KEPT_MICROS);
    if position.version < horizon.max(stream.created_micros) {
        return Err(Failure::new(
            Exception::TrimmedDataAccess,
            "Requested sequence number is trimmed beyond the oldest record of the shard",
        ));
    }
    Ok(())
}

fn after_newest(transaction: &mut Transaction<'_>, stream: &Stream, shard: u8) -> Position {
    let range = KeyRange::prefix(&key::shard(stream.id, shard));
    let mut newest = Position::default();
    transaction.scan(&range.start, &range.end, true, &mut |row| {
        newest = next(key::record_position(row.key()));
        ControlFlow::Break(())
    });
    newest
}

/// One page of a shard.
struct Page {
    records: Vec<(Position, Event)>,
    next: Option<Cursor>,
    view: StreamView,
}

pub fn records(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    let limit = request.get("Limit").and_then(Json::integer).unwrap_or(PAGE_RECORDS) as usize;
    let iterator = request.get("ShardIterator").and_then(Json::text).unwrap_or_default();
    let invalid = || Failure::validation("Invalid ShardIterator");
    layer.respond_to_read(
        Cursor::decode(iterator).ok_or_else(invalid),
        |transaction, cursor| read_page(layer, transaction, cursor, limit),
        |_, page| {
            Writer::object(|writer| {
                writer.list("Records", &page.records, |writer, (position, event)| {
                    write_record(layer, *position, event, page.view, writer);
                });
                if let Some(next) = &page.next {
                    writer.member("NextShardIterator", &next.encode());
                }
            })
        },
    )
}

fn read_page(
    layer: &DynamoDb,
    transaction: &mut Transaction<'_>,
    cursor: &Cursor,
    limit: usize,
) -> Result<Page, Failure> {
    let now = transaction.now_micros();
    if now > cursor.made_micros + ITERATOR_MICROS {
        return Err(Failure::new(
            Exception::ExpiredIterator,
            "Iterator expired. The iterator was created more than 15 minutes ago.",
        ));
    }
    let stream = load(transaction, cursor.stream).filter(|stream| stream.region.as_deref() == layer.own_region());
    let stream = stream.ok_or_else(|| {
        Failure::new(
            Exception::ResourceNotFound,
            "Requested resource not found: Stream not found",
        )
    })?;
    let mut from = cursor.from;
    let (mut records, mut bytes) = (Vec::new(), 0);
    let start = key::record(stream.id, cursor.shard, from);
    let end = KeyRange::prefix(&key::shard(stream.id, cursor.shard)).end;
    transaction.scan(&start, &end, false, &mut |row| {
        if records.len() >= limit || bytes >= PAGE_BYTES {
            return ControlFlow::Break(());
        }
        let position = key::record_position(row.key());
        bytes += row.value().len();
        from = next(position);
        records.push((position, Event::decode(row.value())));
        ControlFlow::Continue(())
    });
    let drained = records.len() < limit && bytes < PAGE_BYTES;
    let goes_on = stream.is_on() || !drained;
    let next = goes_on.then_some(Cursor {
        from,
        made_micros: now,
        ..*cursor
    });
    Ok(Page {
        records,
        next,
        view: stream.view,
    })
}

fn write_record(layer: &DynamoDb, position: Position, event: &Event, view: StreamView, writer: &mut Writer) {
    let sequence = sequence_number(position);
    let id = xxh3_128(sequence.as_bytes());
    writer.open(b'{');
    writer.member("eventID", &format!("{id:032x}"));
    writer.member("eventName", event.kind.name());
    writer.member("eventVersion", "1.1");
    writer.member("eventSource", "aws:dynamodb");
    writer.member("awsRegion", &layer.region);
    if event.by_service {
        writer.nested("userIdentity", |writer| {
            writer.member("Type", "Service");
            writer.member("PrincipalId", "dynamodb.amazonaws.com");
        });
    }
    writer.nested("dynamodb", |writer| {
        writer
            .name("ApproximateCreationDateTime")
            .raw(position.version / 1_000_000);
        let images = [
            ("Keys", Some(&event.keys)),
            ("NewImage", event.new.as_ref()),
            ("OldImage", event.old.as_ref()),
        ];
        for (name, item) in images {
            if let Some(item) = item {
                crate::wire::value::write_item(item, &mut writer.name(name).text);
            }
        }
        writer.member("SequenceNumber", &sequence);
        writer.name("SizeBytes").raw(event.size());
        writer.member("StreamViewType", view.name());
    });
    writer.close(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fixture;

    const MINUTE: u64 = 60_000_000;
    const HOUR: u64 = 60 * MINUTE;

    fn ask(fixture: &Fixture, operation: &str, request: &str) -> String {
        let reply = fixture.ask(operation, request);
        let body: &[u8] = reply.body.as_ref();
        String::from_utf8_lossy(body).into_owned()
    }

    /// The texts of a member, anywhere in a reply.
    fn texts(body: &str, member: &str) -> Vec<String> {
        let opening = format!("\"{member}\":\"");
        let parts = body.split(opening.as_str()).skip(1);
        parts.map(|part| part.split('"').next().unwrap().to_owned()).collect()
    }

    fn shard_iterator(fixture: &Fixture, arn: &str, shard: &str, more: &str) -> Result<String, String> {
        let request = format!(r#"{{"StreamArn":"{arn}","ShardId":"{shard}",{more}}}"#);
        let body = ask(fixture, "GetShardIterator", &request);
        texts(&body, "ShardIterator").pop().ok_or(body)
    }

    fn records(fixture: &Fixture, iterator: &str) -> String {
        ask(fixture, "GetRecords", &format!(r#"{{"ShardIterator":"{iterator}"}}"#))
    }

    /// The shard that has records, and the number of the first of them.
    fn first_record(fixture: &Fixture, arn: &str) -> Option<(String, String)> {
        let stream = ask(fixture, "DescribeStream", &format!(r#"{{"StreamArn":"{arn}"}}"#));
        texts(&stream, "ShardId").into_iter().find_map(|shard| {
            let iterator = shard_iterator(fixture, arn, &shard, r#""ShardIteratorType":"TRIM_HORIZON""#).unwrap();
            let number = texts(&records(fixture, &iterator), "SequenceNumber")
                .into_iter()
                .next()?;
            Some((shard, number))
        })
    }

    #[test]
    fn records_are_kept_for_a_day_and_iterators_for_a_quarter_of_an_hour() {
        let fixture = Fixture::start();
        let table = r#"{"TableName":"tab","BillingMode":"PAY_PER_REQUEST","KeySchema":[{"AttributeName":"p","KeyType":"HASH"}],
            "AttributeDefinitions":[{"AttributeName":"p","AttributeType":"S"}],
            "StreamSpecification":{"StreamEnabled":true,"StreamViewType":"KEYS_ONLY"}}"#;
        let arn = texts(&ask(&fixture, "CreateTable", table), "LatestStreamArn")
            .pop()
            .unwrap();
        fixture.ask("PutItem", r#"{"TableName":"tab","Item":{"p":{"S":"a"}}}"#);
        let pass = |micros| {
            fixture.clock.advance(micros);
            fixture.layer.maintain();
        };
        pass(23 * HOUR);
        let (shard, number) = first_record(&fixture, &arn).unwrap();
        let at = format!(r#""ShardIteratorType":"AT_SEQUENCE_NUMBER","SequenceNumber":"{number}""#);
        let iterator = shard_iterator(&fixture, &arn, &shard, &at).unwrap();
        pass(14 * MINUTE);
        assert!(records(&fixture, &iterator).contains("INSERT"));
        pass(2 * MINUTE);
        assert!(records(&fixture, &iterator).contains("ExpiredIteratorException"));
        pass(HOUR);
        assert_eq!(first_record(&fixture, &arn), None);
        let trimmed = shard_iterator(&fixture, &arn, &shard, &at).unwrap_err();
        assert!(trimmed.contains("TrimmedDataAccessException"), "{trimmed}");
        // A stream outlives its table as long.
        fixture.ask("DeleteTable", r#"{"TableName":"tab"}"#);
        let describe = || {
            let reply = fixture.ask("DescribeStream", &format!(r#"{{"StreamArn":"{arn}"}}"#));
            String::from_utf8(reply.body).unwrap()
        };
        pass(23 * HOUR);
        assert!(describe().contains("DISABLED"));
        pass(2 * HOUR);
        assert!(describe().contains("ResourceNotFoundException"));
    }

    #[test]
    fn labels_are_dates() {
        assert_eq!(label(0), "1970-01-01T00:00:00.000");
        assert_eq!(label(1_709_210_096_789_000), "2024-02-29T12:34:56.789");
    }

    /// A stream created in the millisecond of an earlier one had that one's ARN: the clock is
    /// stopped here, and is set back.
    #[test]
    fn a_label_is_given_once() {
        let fixture = Fixture::start();
        let table = r#"{"TableName":"table","BillingMode":"PAY_PER_REQUEST","KeySchema":[{"AttributeName":"p","KeyType":"HASH"}],
            "AttributeDefinitions":[{"AttributeName":"p","AttributeType":"S"}]}"#;
        fixture.ask("CreateTable", table);
        let mut labels = Vec::new();
        for turn in 0..6 {
            if turn == 3 {
                fixture.clock.set(1_600_000_000_000_000);
            }
            let change = |settings: &str| {
                let body = format!(r#"{{"TableName":"table","StreamSpecification":{settings}}}"#);
                let reply = fixture.ask("UpdateTable", &body);
                assert_eq!(reply.status, 200);
                serde_json::from_slice::<serde_json::Value>(&reply.body).unwrap()
            };
            let on = change(r#"{"StreamEnabled":true,"StreamViewType":"KEYS_ONLY"}"#);
            let label = on["TableDescription"]["LatestStreamLabel"].as_str().unwrap();
            labels.push(label.to_owned());
            change(r#"{"StreamEnabled":false}"#);
        }
        assert_eq!(&labels[..2], ["2023-11-14T22:13:20.000", "2023-11-14T22:13:20.001"]);
        labels.sort();
        labels.dedup();
        assert_eq!(labels.len(), 6, "{labels:?}");
    }

    #[test]
    fn cursors_and_sequence_numbers_are_read_back() {
        let position = Position {
            version: 1_700_000_000_000_000,
            number: 7,
        };
        assert_eq!(parse_sequence_number(&sequence_number(position)), Some(position));
        let cursor = Cursor {
            stream: 3,
            shard: 2,
            from: position,
            made_micros: 9,
        };
        let read = Cursor::decode(&cursor.encode()).unwrap();
        assert_eq!(
            (read.stream, read.shard, read.from, read.made_micros),
            (3, 2, position, 9)
        );
        for bad in ["", "x", "AAAA", "1234"] {
            assert!(Cursor::decode(bad).is_none() && parse_sequence_number(bad).is_none());
        }
    }
}
