//! YCSB's records as documents under their keys. Reading to change is one query, and so one
//! transaction.

use std::fmt::Write;

use async_trait::async_trait;

use super::FaunaConnection;
use crate::records::ycsb::{FIELD_NAMES, Record};
use crate::targets::{OperationError, Records};

impl FaunaConnection {
    /// Appends the creation of a record.
    fn creation(&mut self, record: &Record) {
        self.query.push_str(r#"{"create":"#);
        self.record_ref(record.key());
        self.query.push_str(r#","params":"#);
        let fields = FIELD_NAMES.iter().zip(record.values());
        self.data(fields.map(|(name, value)| (*name, false, value)));
        self.query.push('}');
    }

    fn record_ref(&mut self, key: u64) {
        let written = write!(self.query, r#"{{"ref":{{"collection":"ycsb"}},"id":"{key}"}}"#);
        written.expect("memory takes what is written");
    }

    fn change(&mut self, key: u64, field: usize, value: &[u8]) {
        self.query.push_str(r#"{"update":"#);
        self.record_ref(key);
        self.query.push_str(r#","params":"#);
        self.data(std::iter::once((FIELD_NAMES[field], false, value)));
        self.query.push('}');
    }

    /// Sends the query and checks that it returned `count` whole records.
    async fn expect_records(&mut self, expected: std::ops::RangeInclusive<usize>) -> Result<(), OperationError> {
        let body = self.ask().await?.ok()?;
        let fields = numbered_fields(body.as_bytes());
        let whole = fields.is_multiple_of(FIELD_NAMES.len()) && expected.contains(&(fields / FIELD_NAMES.len()));
        match whole {
            true => Ok(()),
            false => Err(OperationError::Refused(format!(
                "a reply with {fields} fields of records"
            ))),
        }
    }
}

/// The number of names with a trailing digit: exactly a record's fields. Branchless, so that the
/// compiler vectorizes it.
fn numbered_fields(body: &[u8]) -> usize {
    let ends = body.iter().zip(body.iter().skip(1)).zip(body.iter().skip(2));
    ends.map(|((digit, quote), colon)| usize::from(digit.is_ascii_digit() & (*quote == b'"') & (*colon == b':')))
        .sum()
}

#[async_trait(?Send)]
impl Records for FaunaConnection {
    async fn insert_all(&mut self, records: &[Record]) -> Result<(), OperationError> {
        self.query.clear();
        self.query.push_str(r#"{"do":["#);
        for (index, record) in records.iter().enumerate() {
            if index > 0 {
                self.query.push(',');
            }
            self.creation(record);
        }
        self.query.push_str("]}");
        self.expect_records(1..=1).await
    }

    async fn insert(&mut self, record: &Record) -> Result<(), OperationError> {
        self.query.clear();
        self.creation(record);
        self.expect_records(1..=1).await
    }

    async fn read(&mut self, key: u64) -> Result<(), OperationError> {
        self.query.clear();
        self.query.push_str(r#"{"get":"#);
        self.record_ref(key);
        self.query.push('}');
        self.expect_records(1..=1).await
    }

    async fn update(&mut self, key: u64, field: usize, value: &[u8]) -> Result<(), OperationError> {
        self.query.clear();
        self.change(key, field, value);
        self.expect_records(1..=1).await
    }

    async fn scan(&mut self, key: u64, count: usize) -> Result<(), OperationError> {
        self.query.clear();
        self.query
            .push_str(r#"{"map":{"lambda":"X","expr":{"get":{"var":"X"}}},"collection":{"paginate":{"documents":{"collection":"ycsb"}},"after":"#);
        self.record_ref(key);
        let written = write!(self.query, r#","size":{count}}}}}"#);
        written.expect("memory takes what is written");
        self.expect_records(1..=count).await
    }

    async fn read_modify_write(&mut self, key: u64, field: usize, value: &[u8]) -> Result<(), OperationError> {
        self.query.clear();
        self.query.push_str(r#"{"let":[{"read":{"get":"#);
        self.record_ref(key);
        self.query.push_str(r#"}}],"in":{"do":["#);
        self.change(key, field, value);
        self.query.push_str(r#",{"var":"read"}]}}"#);
        self.expect_records(1..=1).await
    }
}
