//! YCSB's records as hashes, with a sorted set of all keys for scans, as YCSB's own binding to
//! Redis has them.
//!
//! Members of the set all have the score 0, so their order is that of their bytes: keys are written
//! with leading zeros. The commands of an insert go out together and are no transaction. A scan is
//! two rounds: the keys, then their records.

use async_trait::async_trait;

use super::{RedisConnection, Request};
use crate::byte_strings::ByteStrings;
use crate::records::ycsb::{FIELD_NAMES, Record};
use crate::targets::{OperationError, Records};

const KEYS: &[u8] = b"ycsb:keys";
const PREFIX: &str = "ycsb:";
const DIGITS: usize = 19;

impl Request {
    fn record_key(&mut self, key: u64) -> &mut Request {
        self.argument(format!("{PREFIX}{key:0DIGITS$}").as_bytes())
    }
}

impl RedisConnection {
    fn insertion(&mut self, record: &Record) {
        let set = self
            .request
            .next("HSET", 1 + 2 * FIELD_NAMES.len())
            .record_key(record.key());
        for (name, value) in FIELD_NAMES.iter().zip(record.values()) {
            set.argument(name.as_bytes()).argument(value);
        }
        self.request
            .next("ZADD", 3)
            .argument(KEYS)
            .number(0)
            .record_key(record.key());
    }

    async fn record_of_reply(&mut self) -> Result<(), OperationError> {
        let strings = self.strings_of_reply(|_| ()).await?;
        match strings == 2 * FIELD_NAMES.len() {
            true => Ok(()),
            false => Err(OperationError::Refused(format!(
                "a record came with {} fields",
                strings / 2
            ))),
        }
    }
}

#[async_trait(?Send)]
impl Records for RedisConnection {
    async fn insert_all(&mut self, records: &[Record]) -> Result<(), OperationError> {
        self.request.bytes.clear();
        records.iter().for_each(|record| self.insertion(record));
        self.send().await?;
        for _ in records {
            self.integer_of_reply(FIELD_NAMES.len() as i64).await?;
            self.integer_of_reply(1).await?;
        }
        Ok(())
    }

    async fn insert(&mut self, record: &Record) -> Result<(), OperationError> {
        self.insert_all(std::slice::from_ref(record)).await
    }

    async fn read(&mut self, key: u64) -> Result<(), OperationError> {
        self.request.start("HGETALL", 1).record_key(key);
        self.send().await?;
        self.record_of_reply().await
    }

    async fn update(&mut self, key: u64, field: usize, value: &[u8]) -> Result<(), OperationError> {
        self.request
            .start("HSET", 3)
            .record_key(key)
            .argument(FIELD_NAMES[field].as_bytes())
            .argument(value);
        self.expect_integer(0).await
    }

    async fn scan(&mut self, key: u64, count: usize) -> Result<(), OperationError> {
        let from = format!("[{PREFIX}{key:0DIGITS$}");
        self.request
            .start("ZRANGEBYLEX", 6)
            .argument(KEYS)
            .argument(from.as_bytes())
            .argument(b"+")
            .argument(b"LIMIT")
            .number(0)
            .number(count as u64);
        let mut keys = ByteStrings::default();
        self.each_string(|key| keys.push(key)).await?;
        self.request.bytes.clear();
        for key in keys.iter() {
            self.request.next("HGETALL", 1).argument(key);
        }
        self.send().await?;
        for _ in keys.iter() {
            self.record_of_reply().await?;
        }
        Ok(())
    }
}
