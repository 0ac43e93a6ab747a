//! The meaning of effects to users of DynamoDB: items put and deleted, tables made, changed and
//! deleted.
//!
//! Entries of indexes, expiries and records of streams follow from items and are left out.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use quartet_engine::{Change, ChangeDecoder, Reader, Shown, decoded};
use quartet_model::{Effect, LayerId};

use crate::storage::key::{self, KeyPart, KeyType};
use crate::storage::stored;
use crate::storage::table::Table;
use crate::wire::number::Number;
use crate::wire::value::{Item, Value, item_json};

/// Decodes items and tables.
#[derive(Default)]
pub struct DynamoDbChanges {
    tables: HashMap<u32, Arc<Table>>,
    /// The tables that there were have been looked at.
    has_looked: bool,
}

impl ChangeDecoder for DynamoDbChanges {
    fn layer(&self) -> LayerId {
        LayerId::DynamoDb
    }

    fn decode(&mut self, effect: Effect<'_>, reader: &mut dyn FnMut() -> Option<Reader>, changes: &mut Vec<Change>) {
        let change = match effect {
            Effect::Set {
                key: [b'T', name @ ..],
                value,
            } => self.table_put(name, value),
            Effect::Clear { key: [b'T', name @ ..] } => {
                Some(Change::new("delete_table", name).with_bytes("table", name))
            }
            Effect::Set { key, value } => self.item_put(key, value, reader),
            Effect::Clear { key } => self.item_deleted(key, reader),
            Effect::ClearRange { start, .. } => self.table_cleared(start, reader),
            // Items are written whole, and a row of another partition is no change.
            Effect::Patch { .. } | Effect::Row { .. } => None,
        };
        changes.extend(change);
    }
}

/// The table of the items.
struct Owner {
    id: u32,
    /// Unknown for a table that was deleted since.
    table: Option<Arc<Table>>,
}

impl Owner {
    fn about(&self, operation: &'static str) -> Change {
        let name = self.table.as_ref().map(|table| table.kept_name().into_owned());
        about(operation, name.unwrap_or_default().as_bytes(), self.id)
    }
}

fn about(operation: &'static str, table: &[u8], number: u32) -> Change {
    let number = Shown::Number(number.into());
    Change::new(operation, table)
        .with_bytes("table", table)
        .with("table_number", number)
}

impl DynamoDbChanges {
    fn table_put(&mut self, name: &[u8], value: &[u8]) -> Option<Change> {
        let table: Table = serde_json::from_slice(value).ok()?;
        let id = table.id;
        self.tables.insert(id, Arc::new(table));
        Some(about("put_table", name, id))
    }

    /// The table of an item's key, and the item's place in it.
    fn of_item<'k>(&mut self, key: &'k [u8], reader: &mut dyn FnMut() -> Option<Reader>) -> Option<(Owner, &'k [u8])> {
        let (&[b'I', a, b, c, d, 0, 0], place) = key.split_first_chunk::<{ key::ITEMS_PREFIX_BYTES }>()? else {
            return None;
        };
        let id = u32::from_be_bytes([a, b, c, d]);
        if !self.tables.contains_key(&id) && !self.has_looked {
            self.look(&reader()?);
        }
        let table = self.tables.get(&id).cloned();
        Some((Owner { id, table }, place))
    }

    fn look(&mut self, reader: &Reader) {
        self.has_looked = true;
        reader.scan(b"T", b"U", false, &mut |_, value| {
            if let Ok(table) = serde_json::from_slice::<Table>(value) {
                self.tables.entry(table.id).or_insert(Arc::new(table));
            }
            ControlFlow::Continue(())
        });
    }

    fn item_put(&mut self, key: &[u8], value: &[u8], reader: &mut dyn FnMut() -> Option<Reader>) -> Option<Change> {
        let (owner, _) = self.of_item(key, reader)?;
        let item = decoded(|| {
            let mut json = Vec::new();
            stored::write_json(value, &mut json);
            json
        })?;
        let item = String::from_utf8(item).ok()?;
        Some(owner.about("put").with("item", Shown::Json(item)))
    }

    fn item_deleted(&mut self, row_key: &[u8], reader: &mut dyn FnMut() -> Option<Reader>) -> Option<Change> {
        let (owner, place) = self.of_item(row_key, reader)?;
        let change = owner.about("delete");
        let key = owner.table.and_then(|table| key_at(&table, place));
        Some(match key {
            Some(key) => change.with("key", Shown::Json(item_json(&key))),
            None => change.with_bytes("position", place),
        })
    }

    fn table_cleared(&mut self, start: &[u8], reader: &mut dyn FnMut() -> Option<Reader>) -> Option<Change> {
        let &[b'I', a, b, c, d] = start else { return None };
        let (owner, _) = self.of_item(&[b'I', a, b, c, d, 0, 0], reader)?;
        Some(owner.about("clear"))
    }
}

/// The key attributes of the item at a place of its table: decodes the output of
/// `key::write_partition` and `key::write_range`.
fn key_at(table: &Table, place: &[u8]) -> Option<Item> {
    let (_, tail) = place.split_first_chunk::<4>()?;
    let (length, tail) = tail.split_first_chunk::<2>()?;
    let (hash, mut tail) = tail.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
    let mut key = Item::new();
    let plain = |part: &KeyPart, bytes: &[u8]| match part.kind {
        KeyType::S => Some(Value::S(String::from_utf8(bytes.to_vec()).ok()?)),
        KeyType::B => Some(Value::B(bytes.to_vec())),
        KeyType::N => Some(Value::N(Number::read_ordered(bytes)?)),
    };
    key.insert(table.hash.name.clone(), plain(&table.hash, hash)?);
    if let Some(range) = &table.range {
        let value = match range.kind {
            KeyType::N => plain(range, tail)?,
            _ => plain(range, &unescaped(&mut tail)?)?,
        };
        key.insert(range.name.clone(), value);
    }
    Some(key)
}

fn unescaped(escaped: &mut &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        match escaped {
            [0, 0, behind @ ..] => {
                *escaped = behind;
                return Some(bytes);
            }
            [0, 0xff, behind @ ..] => {
                bytes.push(0);
                *escaped = behind;
            }
            [byte, behind @ ..] => {
                bytes.push(*byte);
                *escaped = behind;
            }
            [] => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fixture;
    use crate::wire::json::Json;
    use crate::wire::value::parse_item;

    fn table(hash: &str, range: &str) -> Table {
        let fixture = Fixture::start();
        let created = format!(
            r#"{{"TableName":"table","BillingMode":"PAY_PER_REQUEST",
            "KeySchema":[{{"AttributeName":"h","KeyType":"HASH"}},{{"AttributeName":"r","KeyType":"RANGE"}}],
            "AttributeDefinitions":[{{"AttributeName":"h","AttributeType":"{hash}"}},{{"AttributeName":"r","AttributeType":"{range}"}}]}}"#
        );
        assert_eq!(fixture.ask("CreateTable", &created).status, 200);
        let reader = fixture.layer.engine.reader(fixture.layer.space).unwrap();
        serde_json::from_slice(&reader.get(b"Ttable").unwrap()).unwrap()
    }

    #[test]
    fn keys_are_read_back() {
        let cases = [
            ("S", r#"{"S":"a"}"#, "S", r#"{"S":"a\u0000b"}"#),
            ("N", r#"{"N":"-12.5"}"#, "N", r#"{"N":"1e-100"}"#),
            (
                "N",
                r#"{"N":"0"}"#,
                "N",
                r#"{"N":"-99999999999999999999999999999999999999"}"#,
            ),
            ("B", r#"{"B":"AP8A"}"#, "B", r#"{"B":"AAAB"}"#),
            ("S", r#"{"S":"x"}"#, "N", r#"{"N":"100"}"#),
        ];
        for (hash, hash_value, range, range_value) in cases {
            let table = table(hash, range);
            let text = format!(r#"{{"h":{hash_value},"r":{range_value}}}"#);
            let item = parse_item(&Json::parse(text.as_bytes()).unwrap()).unwrap();
            let row_key = table.item_key(&item);
            assert_eq!(
                key_at(&table, &row_key[key::ITEMS_PREFIX_BYTES..]),
                Some(item),
                "{text}"
            );
        }
    }
}
