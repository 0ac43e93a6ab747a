//! The queue of exports and imports: what is in it is done one after another, on a thread that may
//! wait for files.

use std::ops::ControlFlow;

use quartet_engine::Transaction;

use crate::operations::exports::Export;
use crate::operations::transfers::Transfer;
use crate::{DynamoDb, operations::exports, operations::imports};

impl DynamoDb {
    /// Does what is in the queue, as long as `may_go_on`. It waits for files and for the disk: for
    /// a thread that may.
    pub fn transfer(&self, may_go_on: &dyn Fn() -> bool) {
        while may_go_on() {
            let Ok(Some((number, row_key))) = self.settle(first_queued) else {
                return;
            };
            let done = match row_key.first() {
                Some(&Export::LETTER) => exports::run(self, number, &row_key, may_go_on),
                _ => imports::run(self, number, &row_key, may_go_on),
            };
            // Work that the database could not do now it may do later.
            if done.is_err() {
                return;
            }
        }
    }
}

fn first_queued(transaction: &mut Transaction<'_>) -> Option<(u32, Vec<u8>)> {
    let mut first = None;
    transaction.scan(b"Q", b"R", false, &mut |row| {
        let number = Transaction::layer_key(row)[1..].try_into().expect("a queue's key");
        first = Some((u32::from_be_bytes(number), row.value().to_vec()));
        ControlFlow::Break(())
    });
    first
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::BTreeMap;
    use std::io::{self, Cursor, Read};
    use std::sync::Arc;

    use flate2::read::GzDecoder;
    use parking_lot::Mutex;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use crate::storage::buckets::Buckets;
    use crate::testing::Fixture;
    use crate::wire::json::Json;

    /// One bucket, `here`, in memory.
    #[derive(Default)]
    struct Memory(Mutex<BTreeMap<String, Vec<u8>>>);

    impl Buckets for Memory {
        fn has(&self, bucket: &str) -> bool {
            bucket == "here"
        }

        fn put(&self, _: &str, path: &str, bytes: Vec<u8>) -> io::Result<()> {
            self.0.lock().insert(path.into(), bytes);
            Ok(())
        }

        fn list(&self, _: &str, prefix: &str) -> io::Result<Vec<String>> {
            let files = self.0.lock();
            Ok(files.keys().filter(|path| path.starts_with(prefix)).cloned().collect())
        }

        fn open(&self, _: &str, path: &str) -> io::Result<Box<dyn Read + Send>> {
            Ok(Box::new(Cursor::new(self.0.lock()[path].clone())))
        }
    }

    const KEYS: &str = r#""KeySchema":[{"AttributeName":"h","KeyType":"HASH"}],"BillingMode":"PAY_PER_REQUEST",
        "AttributeDefinitions":[{"AttributeName":"h","AttributeType":"N"}]"#;

    fn start() -> (Fixture, Arc<Memory>) {
        let mut fixture = Fixture::start();
        let memory = Arc::new(Memory::default());
        fixture.layer.buckets = memory.clone();
        (fixture, memory)
    }

    fn ask(fixture: &Fixture, operation: &str, request: &str) -> String {
        let reply = fixture.ask(operation, request);
        let body = String::from_utf8(reply.body).unwrap();
        assert_eq!(reply.status, 200, "{operation} {request}: {body}");
        body
    }

    /// Does what is in the queue, interrupted again and again.
    fn transfer(fixture: &Fixture) {
        for patience in 1..400_u32 {
            let remaining = Cell::new(patience / 20 + 2_u32);
            fixture
                .layer
                .transfer(&|| remaining.replace(remaining.get().saturating_sub(1)) > 0);
        }
        fixture.layer.transfer(&|| true);
    }

    fn import(fixture: &Fixture, table: &str, prefix: &str, format: &str) -> String {
        let request = format!(
            r#"{{"S3BucketSource":{{"S3Bucket":"here","S3KeyPrefix":"{prefix}"}},{format},
            "TableCreationParameters":{{"TableName":"{table}",{KEYS}}}}}"#
        );
        ask(fixture, "ImportTable", &request);
        assert_eq!(
            fixture.ask("Scan", &format!(r#"{{"TableName":"{table}"}}"#)).status,
            400
        );
        transfer(fixture);
        ask(fixture, "ListImports", "{}");
        let row = fixture.layer.execute(|transaction| {
            let (imports, _) = crate::operations::transfers::page::<crate::operations::imports::Import>(
                &fixture.layer,
                transaction,
                Some(table),
                None,
                None,
            );
            Ok(serde_json::to_string(&imports).unwrap())
        });
        row.0.unwrap()
    }

    fn make_table(fixture: &Fixture) {
        ask(fixture, "CreateTable", &format!(r#"{{"TableName":"table",{KEYS}}}"#));
        let on = r#"{"TableName":"table","PointInTimeRecoverySpecification":{"PointInTimeRecoveryEnabled":true}}"#;
        ask(fixture, "UpdateContinuousBackups", on);
    }

    fn put(fixture: &Fixture, number: u32, value: u32) {
        let item = format!(
            r#"{{"h":{{"N":"{number}"}},"v":{{"L":[{{"N":"{value}"}},{{"S":"\"a\nb"}},{{"B":"AAE="}},{{"NULL":true}}]}}}}"#
        );
        ask(fixture, "PutItem", &format!(r#"{{"TableName":"table","Item":{item}}}"#));
    }

    /// The data of all exports below a prefix, decompressed.
    fn data(memory: &Memory, prefix: &str) -> String {
        let mut data = String::new();
        for (path, bytes) in memory.0.lock().iter() {
            if path.starts_with(prefix) && path.contains("/data/") {
                GzDecoder::new(bytes.as_slice()).read_to_string(&mut data).unwrap();
            }
        }
        data
    }

    #[test]
    fn an_exported_table_is_imported_even_when_interrupted() {
        let (fixture, memory) = start();
        make_table(&fixture);
        (0..700).for_each(|number| put(&fixture, number, 1));
        let before = ask(&fixture, "Scan", r#"{"TableName":"table"}"#);
        let arn = fixture.layer.table_arn("table");
        let export = format!(r#"{{"TableArn":"{arn}","S3Bucket":"here","S3Prefix":"json","ClientToken":"once"}}"#);
        assert_eq!(
            ask(&fixture, "ExportTableToPointInTime", &export),
            ask(&fixture, "ExportTableToPointInTime", &export)
        );
        let ion = format!(r#"{{"TableArn":"{arn}","S3Bucket":"here","S3Prefix":"ion","ExportFormat":"ION"}}"#);
        ask(&fixture, "ExportTableToPointInTime", &ion);
        (0..300).for_each(|number| put(&fixture, number, 2));
        transfer(&fixture);
        let files: Vec<String> = memory.0.lock().keys().cloned().collect();
        let ended = files.iter().filter(|path| path.ends_with("/manifest-summary.json"));
        assert_eq!(ended.count(), 2, "{files:?}");
        let zstd = compress_to_vec(data(&memory, "ion").as_bytes(), CompressionLevel::Fastest);
        memory.0.lock().insert("zstd/a".into(), zstd);
        for (table, prefix, format, compression) in [
            ("from-json", "json/", "DYNAMODB_JSON", "GZIP"),
            ("from-ion", "ion/", "ION", "GZIP"),
            ("from-zstd", "zstd/", "ION", "ZSTD"),
        ] {
            let format = format!(r#""InputFormat":"{format}","InputCompressionType":"{compression}""#);
            let imported = import(&fixture, table, prefix, &format);
            assert!(imported.contains(r#""status":"Completed""#), "{imported}");
            assert_eq!(ask(&fixture, "Scan", &format!(r#"{{"TableName":"{table}"}}"#)), before);
        }
        let elsewhere = export.replace("here", "there");
        assert_eq!(fixture.ask("ExportTableToPointInTime", &elsewhere).status, 400);
    }

    type State = BTreeMap<u32, u32>;

    /// The number and the value of an item, or of a key.
    fn parts(item: &Json<'_>) -> (u32, Option<u32>) {
        let number = item.get("h").and_then(|h| h.get("N")?.text()?.parse().ok());
        let list = item.get("v").and_then(|v| v.get("L"));
        let value = list.and_then(|list| list.elements().first()?.get("N")?.text()?.parse().ok());
        (number.unwrap(), value)
    }

    /// Exports what changed in a period of seconds and compares it with the states at its ends.
    fn check_increment(fixture: &Fixture, memory: &Memory, (from, before): &(u64, State), (to, after): &(u64, State)) {
        let (arn, prefix) = (fixture.layer.table_arn("table"), format!("from-{from}-to-{to}"));
        let request = format!(
            r#"{{"TableArn":"{arn}","S3Bucket":"here","S3Prefix":"{prefix}","ExportType":"INCREMENTAL_EXPORT",
            "IncrementalExportSpecification":{{"ExportFromTime":{from}.5,"ExportToTime":{to}.5}}}}"#
        );
        ask(fixture, "ExportTableToPointInTime", &request);
        transfer(fixture);
        let data = data(memory, &format!("{prefix}/AWSDynamoDB/data/"));
        let mut changed = State::new();
        for line in data.lines() {
            let line = Json::parse(line.as_bytes()).unwrap();
            let (number, _) = parts(line.get("Keys").unwrap());
            let image = |name| line.get(name).map(|image| parts(image).1.unwrap());
            assert_eq!(image("OldImage"), before.get(&number).copied(), "{prefix} {number}");
            assert_eq!(image("NewImage"), after.get(&number).copied(), "{prefix} {number}");
            assert!(image("OldImage").or(image("NewImage")).is_some(), "{prefix} {number}");
            let written = line
                .get("Metadata")
                .and_then(|data| data.get("WriteTimestampMicros")?.get("N")?.text());
            let written: u64 = written.unwrap().parse().unwrap();
            assert!((from * 1_000_000 + 500_000..to * 1_000_000 + 500_000).contains(&written));
            assert_eq!(changed.insert(number, 0), None, "{prefix} {number}");
        }
        for number in before.keys().chain(after.keys()) {
            let is_same = before.get(number) == after.get(number);
            assert!(is_same || changed.contains_key(number), "{prefix} {number}");
        }
    }

    #[test]
    fn an_incremental_export_is_the_difference_of_two_states() {
        let (fixture, memory) = start();
        make_table(&fixture);
        let (mut state, mut seed, mut value) = (State::new(), 7_u64, 0);
        let mut moments = Vec::new();
        for moment in 0..6 {
            fixture.clock.advance(500_000);
            moments.push((1_700_000_000 + moment, state.clone()));
            fixture.clock.advance(500_000);
            for _ in 0..150 {
                seed ^= seed << 13;
                seed ^= seed >> 7;
                seed ^= seed << 17;
                let number = (seed % 400) as u32;
                value += 1;
                if seed >> 20 & 3 == 0 {
                    state.remove(&number);
                    let request = format!(r#"{{"TableName":"table","Key":{{"h":{{"N":"{number}"}}}}}}"#);
                    ask(&fixture, "DeleteItem", &request);
                } else {
                    state.insert(number, value);
                    put(&fixture, number, value);
                }
            }
        }
        for (position, from) in moments.iter().enumerate().skip(1) {
            for to in &moments[position + 1..] {
                check_increment(&fixture, &memory, from, to);
            }
        }
        let pins = fixture
            .layer
            .engine
            .reader(fixture.layer.space)
            .unwrap()
            .count(b"P", b"Q");
        assert_eq!(pins, 0);
    }

    #[test]
    fn wrong_records_are_counted_and_too_many_leave_no_table() {
        let (fixture, memory) = start();
        memory
            .0
            .lock()
            .insert("csv/a".into(), b"h;v\n1;one\nno number;two\n3;\"thr\nee\"\n".to_vec());
        memory.0.lock().insert("bad/a".into(), b"{}\n".repeat(10_001));
        let csv = r#""InputFormat":"CSV","InputFormatOptions":{"Csv":{"Delimiter":";"}}"#;
        let imported = import(&fixture, "copy", "csv/", csv);
        assert!(imported.contains(r#""processed":3,"errors":1"#), "{imported}");
        let item = ask(&fixture, "GetItem", r#"{"TableName":"copy","Key":{"h":{"N":"3"}}}"#);
        assert_eq!(item, r#"{"Item":{"h":{"N":"3"},"v":{"S":"thr\nee"}}}"#);
        let imported = import(&fixture, "none", "bad/", r#""InputFormat":"DYNAMODB_JSON""#);
        assert!(imported.contains("InvalidData"), "{imported}");
        assert_eq!(fixture.ask("DescribeTable", r#"{"TableName":"none"}"#).status, 400);
    }
}
