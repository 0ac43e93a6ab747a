//! Any bytes as the body of any operation: an answer, never a panic; and whatever is stored is
//! given back. The first byte picks the operation; none of them deletes the table.
#![no_main]

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use quartet_engine::{Durability, Engine, EngineOptions, Space};
use quartet_env::{FaultyDisk, SystemClock};
use quartet_layer_dynamodb::wire::json::Json;
use quartet_layer_dynamodb::{DynamoDb, Target};
use quartet_model::{DatabaseId, LayerId};

const OPERATIONS: [&str; 26] = [
    "PutItem",
    "GetItem",
    "UpdateItem",
    "DeleteItem",
    "Query",
    "Scan",
    "BatchGetItem",
    "BatchWriteItem",
    "TransactWriteItems",
    "ExecuteStatement",
    "CreateTable",
    "UpdateTable",
    "TransactGetItems",
    "BatchExecuteStatement",
    "ExecuteTransaction",
    "DescribeTable",
    "ListTables",
    "UpdateTimeToLive",
    "TagResource",
    "UntagResource",
    "PutResourcePolicy",
    "UpdateContributorInsights",
    "ListStreams",
    "DescribeStream",
    "GetShardIterator",
    "GetRecords",
];

static LAYER: LazyLock<DynamoDb> = LazyLock::new(|| {
    let failure = Box::new(|error: &_| panic!("the log failed: {error}"));
    let disk = Arc::new(FaultyDisk::new());
    let engine = Engine::open(
        disk,
        Arc::new(SystemClock),
        EngineOptions::default(),
        failure,
        &mut |_| {},
    )
    .unwrap();
    let space = Space {
        database: DatabaseId(1),
        layer: LayerId::DynamoDb,
        durability: Durability::None,
    };
    let layer = DynamoDb::new(Arc::new(engine), space);
    let table = r#"{"TableName":"tab","BillingMode":"PAY_PER_REQUEST","KeySchema":[{"AttributeName":"p","KeyType":"HASH"}],
        "AttributeDefinitions":[{"AttributeName":"p","AttributeType":"S"}],
        "StreamSpecification":{"StreamEnabled":true,"StreamViewType":"NEW_AND_OLD_IMAGES"}}"#;
    answer(&layer, "CreateTable", table.as_bytes());
    layer
});

fn answer(layer: &DynamoDb, operation: &str, body: &[u8]) {
    let Ok(json) = Json::parse(body) else { return };
    let target = ["DynamoDB_20120810", "DynamoDBStreams_20120810"]
        .iter()
        .find_map(|api| Target::parse(&format!("{api}.{operation}")).ok());
    let reply = layer.answer(&target.expect("an operation that there is"), &json);
    let shown = String::from_utf8_lossy(&reply.body);
    // Some operations have nothing to say.
    let is_answer = reply.body.is_empty() || Json::parse(&reply.body).is_ok();
    assert!(reply.status < 500 && is_answer, "{} {shown}", reply.status);
}

fuzz_target!(|data: &[u8]| {
    let Some((&choice, body)) = data.split_first() else {
        return;
    };
    answer(&LAYER, OPERATIONS[usize::from(choice) % OPERATIONS.len()], body);
});
