//! YCSB's records as items of one partition, sorted by their keys, so that scans are queries. Reads
//! are consistent.

use async_trait::async_trait;

use super::{DynamoDbConnection, RECORDS};
use crate::records::ycsb::{FIELD_NAMES, Record};
use crate::targets::{OperationError, Records};

/// The partition of all records.
const PARTITION: &str = "ycsb";

/// The request that makes the table.
pub fn table() -> String {
    format!(
        r#"{{"TableName":"{RECORDS}","BillingMode":"PAY_PER_REQUEST",
        "KeySchema":[{{"AttributeName":"all","KeyType":"HASH"}},{{"AttributeName":"key","KeyType":"RANGE"}}],
        "AttributeDefinitions":[{{"AttributeName":"all","AttributeType":"S"}},{{"AttributeName":"key","AttributeType":"N"}}]}}"#
    )
}

impl DynamoDbConnection {
    /// Appends the attributes of a key.
    fn record_key(&mut self, key: u64) {
        self.attribute("all", false, PARTITION.as_bytes());
        self.body.push(',');
        self.attribute("key", true, key.to_string().as_bytes());
    }

    /// Appends `"Item":{…}`.
    fn item(&mut self, record: &Record) {
        self.body.push_str("\"Item\":{");
        self.record_key(record.key());
        for (name, value) in FIELD_NAMES.iter().zip(record.values()) {
            self.body.push(',');
            self.attribute(name, false, value);
        }
        self.body.push('}');
    }

    async fn expect_records(&mut self, operation: &str, count_max: usize) -> Result<(), OperationError> {
        let body = self.ask(operation).await?.ok()?;
        let fields = body.matches("\"field").count();
        let whole = fields.is_multiple_of(FIELD_NAMES.len()) && (1..=count_max).contains(&(fields / FIELD_NAMES.len()));
        match whole {
            true => Ok(()),
            false => Err(OperationError::Refused(format!(
                "a reply with {fields} fields of records"
            ))),
        }
    }
}

#[async_trait(?Send)]
impl Records for DynamoDbConnection {
    async fn insert_all(&mut self, records: &[Record]) -> Result<(), OperationError> {
        self.body.clear();
        self.body.push_str("{\"RequestItems\":{\"");
        self.body.push_str(RECORDS);
        self.body.push_str("\":[");
        for (index, record) in records.iter().enumerate() {
            self.body.push_str(if index == 0 { "{" } else { ",{" });
            self.body.push_str("\"PutRequest\":{");
            self.item(record);
            self.body.push_str("}}");
        }
        self.body.push_str("]}}");
        self.expect_ok("BatchWriteItem").await
    }

    async fn insert(&mut self, record: &Record) -> Result<(), OperationError> {
        self.start(RECORDS);
        self.body.push(',');
        self.item(record);
        self.body.push_str(
            ",\"ConditionExpression\":\"attribute_not_exists(#k)\",\"ExpressionAttributeNames\":{\"#k\":\"key\"}}",
        );
        self.expect_ok("PutItem").await
    }

    async fn read(&mut self, key: u64) -> Result<(), OperationError> {
        self.start(RECORDS);
        self.body.push_str(",\"ConsistentRead\":true,\"Key\":{");
        self.record_key(key);
        self.body.push_str("}}");
        self.expect_records("GetItem", 1).await
    }

    async fn update(&mut self, key: u64, field: usize, value: &[u8]) -> Result<(), OperationError> {
        self.start(RECORDS);
        self.body.push_str(",\"Key\":{");
        self.record_key(key);
        self.body.push_str("},\"UpdateExpression\":\"SET ");
        self.body.push_str(FIELD_NAMES[field]);
        self.body.push_str(
            " = :v\",\"ConditionExpression\":\"attribute_exists(#k)\",\"ExpressionAttributeNames\":{\"#k\":\"key\"},\
             \"ExpressionAttributeValues\":{",
        );
        self.attribute(":v", false, value);
        self.body.push_str("}}");
        self.expect_ok("UpdateItem").await
    }

    async fn scan(&mut self, key: u64, count: usize) -> Result<(), OperationError> {
        self.start(RECORDS);
        self.body.push_str(&format!(
            ",\"Limit\":{count},\"ConsistentRead\":true,\"KeyConditionExpression\":\"#a = :a AND #k >= :k\",\
             \"ExpressionAttributeNames\":{{\"#a\":\"all\",\"#k\":\"key\"}},\"ExpressionAttributeValues\":{{"
        ));
        self.attribute(":a", false, PARTITION.as_bytes());
        self.body.push(',');
        self.attribute(":k", true, key.to_string().as_bytes());
        self.body.push_str("}}");
        self.expect_records("Query", count).await
    }
}
