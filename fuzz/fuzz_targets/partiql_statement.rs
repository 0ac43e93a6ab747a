//! Any text as a PartiQL statement, with and without parameters: an answer, never a panic and never
//! a failure within.
#![no_main]

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use quartet_engine::{Durability, Engine, EngineOptions, Space};
use quartet_env::{FaultyDisk, SystemClock};
use quartet_layer_dynamodb::wire::json::{Json, Writer};
use quartet_layer_dynamodb::{DynamoDb, Target};
use quartet_model::{DatabaseId, LayerId};

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
    let table = r#"{"TableName":"tab","BillingMode":"PAY_PER_REQUEST",
        "KeySchema":[{"AttributeName":"p","KeyType":"HASH"},{"AttributeName":"r","KeyType":"RANGE"}],
        "AttributeDefinitions":[{"AttributeName":"p","AttributeType":"S"},{"AttributeName":"r","AttributeType":"N"},
            {"AttributeName":"g","AttributeType":"S"}],
        "GlobalSecondaryIndexes":[{"IndexName":"ind","KeySchema":[{"AttributeName":"g","KeyType":"HASH"}],
            "Projection":{"ProjectionType":"ALL"}}]}"#;
    answer(&layer, "CreateTable", table.as_bytes());
    layer
});

fn answer(layer: &DynamoDb, operation: &str, body: &[u8]) {
    let json = Json::parse(body).expect("a body made here");
    let target = Target::parse(&format!("DynamoDB_20120810.{operation}")).unwrap();
    let reply = layer.answer(&target, &json);
    let shown = String::from_utf8_lossy(&reply.body);
    assert!(reply.status < 500 && Json::parse(&reply.body).is_ok(), "{shown}");
}

fn request(statement: &str, parameters: &str) -> Vec<u8> {
    Writer::object(|out| {
        out.member("Statement", statement);
        out.name("Parameters").raw(parameters);
    })
}

fuzz_target!(|data: &[u8]| {
    let Ok(statement) = std::str::from_utf8(data) else {
        return;
    };
    let marks = statement.matches('?').count().min(4);
    let values = [
        r#"{"S":"x"}"#,
        r#"{"N":"1"}"#,
        r#"{"L":[{"NULL":true}]}"#,
        r#"{"SS":["a"]}"#,
    ];
    let parameters = format!("[{}]", values[..marks].join(","));
    answer(&LAYER, "ExecuteStatement", &request(statement, &parameters));
});
