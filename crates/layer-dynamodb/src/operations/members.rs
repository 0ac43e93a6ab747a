//! Every member of every operation on tables and settings, in a file that a client's model of the
//! service is compared with (`tests/dynamodb/python/test_members.py`).
//!
//! A table that was made with VectorIndexes had none, and an export with a FilterSpecification held
//! everything: operations were compared with each new model of the service, and members were not.
//! Now each is served, refused by its name, or passed over for a reason.
//!
//! With `QUARTET_REWRITE=1` in the environment the file is written anew, to be read in review.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::operations::all;
use crate::wire::shape::{Member, Shape};

/// Operations on items: what they take is compared with recordings of the service.
const OF_ITEMS: [&str; 13] = [
    "GetItem",
    "PutItem",
    "UpdateItem",
    "DeleteItem",
    "Query",
    "Scan",
    "BatchGetItem",
    "BatchWriteItem",
    "TransactGetItems",
    "TransactWriteItems",
    "ExecuteStatement",
    "BatchExecuteStatement",
    "ExecuteTransaction",
];
/// Operations that are refused, or find nothing, whatever they are given.
const REFUSED: [&str; 13] = [
    "StartBulkPutItems",
    "DescribeBulkOperation",
    "CancelBulkOperation",
    "CreateGlobalTable",
    "DescribeGlobalTable",
    "DescribeGlobalTableSettings",
    "UpdateGlobalTable",
    "UpdateGlobalTableSettings",
    "UpdateTableReplicaAutoScaling",
    "EnableKinesisStreamingDestination",
    "DisableKinesisStreamingDestination",
    "UpdateKinesisStreamingDestination",
    "SearchVectors",
];

/// Members that mean nothing here, of one operation or of any.
const PASSED_OVER: [(&str, &str, &str); 5] = [
    (
        "",
        "GlobalTableSettingsReplicationMode",
        "a table has no replicas to which its settings could spread",
    ),
    (
        "UpdateTable",
        "DisassociationProtectionEnabled",
        "a table has no replicas that could be taken from it",
    ),
    (
        "PutResourcePolicy",
        "ConfirmRemoveSelfResourceAccess",
        "policies are kept and not enforced, so that nobody loses access by one",
    ),
    ("ListBulkOperations", "", "the list is empty"),
    ("ListGlobalTables", "", "the list is empty"),
];

fn why_passed_over(operation: &str, member: &str) -> &'static str {
    let is_it = |(of, name, _): &&(&str, &str, &str)| {
        (of.is_empty() || *of == operation) && (name.is_empty() || *name == member)
    };
    let reason = PASSED_OVER.iter().find(is_it);
    reason.expect("each member that is passed over has a reason").2
}

fn add_members(operation: &str, prefix: &str, members: &[Member], lines: &mut Vec<String>) {
    for member in members {
        let path = format!("{prefix}{}", member.name);
        let says = match &member.shape {
            Shape::Refused(what) => format!("refused: {what}"),
            Shape::PassedOver => format!("passed over: {}", why_passed_over(operation, member.name)),
            _ => "served".to_owned(),
        };
        lines.push(format!("{operation} {path} {says}"));
        let nested = match &member.shape {
            Shape::Structure(_, members)
            | Shape::List {
                of: Shape::Structure(_, members),
                ..
            } => members,
            _ => continue,
        };
        add_members(operation, &format!("{path}."), nested, lines);
    }
}

fn lines() -> Vec<String> {
    let mut lines = Vec::new();
    for operation in all().filter(|operation| !OF_ITEMS.contains(&operation.name)) {
        match REFUSED.contains(&operation.name) {
            true => lines.push(format!("{} * refused", operation.name)),
            false => add_members(operation.name, "", operation.input, &mut lines),
        }
    }
    lines
}

#[test]
fn the_file_has_every_member() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("members.txt");
    let text = lines().join("\n") + "\n";
    if std::env::var_os("QUARTET_REWRITE").is_some() {
        fs::write(&path, &text).unwrap();
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => sources(&path, found),
            false => found.push(path),
        }
    }
}

/// A member whose name stands nowhere but in the table of shapes is checked and then forgotten.
#[test]
fn each_member_that_is_served_is_read_somewhere() {
    let mut files = Vec::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    sources(&root, &mut files);
    let table = root.join("operations/mod.rs");
    let texts = files.iter().filter(|path| **path != table);
    let text: String = texts.map(|path| fs::read_to_string(path).unwrap()).collect();
    let lines = lines();
    let served = lines.iter().filter_map(|line| line.strip_suffix(" served"));
    let names: BTreeSet<&str> = served.filter_map(|line| line.rsplit(['.', ' ']).next()).collect();
    let unread: Vec<&&str> = names
        .iter()
        .filter(|name| !text.contains(&format!("\"{name}\"")))
        .collect();
    assert!(unread.is_empty(), "{unread:?}");
}
