//! Every member of every operation, in a file that a client's model of the
//! service is compared with (`tests/dynamodb/python/test_members.py`).
//!
//! A table that was made with VectorIndexes had none, and an export with a FilterSpecification held
//! everything: operations were compared with each new model of the service, and members were not.
//! Now each is served, refused by its name, or passed over for a reason.
//!
//! With `QUARTET_REWRITE=1` in the environment the file is rewritten, to be read in review.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::operations::all;
use crate::wire::shape::{Member, Shape};

/// Operations that are refused, or find nothing, with any input.
const REFUSED: [&str; 12] = [
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
            Shape::Refused(reason) => format!("refused: {reason}"),
            Shape::PassedOver => format!("passed over: {}", why_passed_over(operation, member.name)),
            _ => "served".to_owned(),
        };
        lines.push(format!("{operation} {path} {says}"));
        add_members(operation, &format!("{path}."), members_of(&member.shape), lines);
    }
}

/// The members of a structure, or of the structures in a list or a map.
fn members_of(shape: &Shape) -> &[Member] {
    match shape {
        Shape::Structure(_, members) => members,
        Shape::List { of, .. } | Shape::Map { of, .. } | Shape::OfTables(of) => members_of(of),
        _ => &[],
    }
}

fn lines() -> Vec<String> {
    let mut lines = Vec::new();
    for operation in all() {
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

fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => sources(&path, files),
            false => files.push(path),
        }
    }
}

/// A member named only in the table of shapes would be checked and then ignored.
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
