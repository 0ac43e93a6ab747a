//! Malformed requests for every operation, derived from its shape: members that are missing, of
//! another kind, too short, too long, not of an enumeration, and many of these at once.
//!
//! Only requests are generated here. Their answers are in `testdata/malformed.txt`, which people
//! review.

use crate::operations;
use crate::wire::shape::{Member, Shape};

/// Longer bounds are not worth a line of that length.
const SHOWN_CHARACTERS_MAX: usize = 300;
const SHOWN_ELEMENTS_MAX: usize = 30;

/// The script without its replies.
pub fn script() -> String {
    let mut script =
        String::from("# Derived from the table of operations: what is malformed, and what it is answered.\n");
    for operation in operations::all() {
        script.push_str(&format!("\n# {}\n", operation.name));
        for request in requests(operation.input) {
            script.push_str(&format!("> {} {request}\n", operation.name));
        }
    }
    script
}

fn requests(members: &[Member]) -> Vec<String> {
    let mut requests = Vec::new();
    if members.iter().any(|member| member.required) {
        requests.push("{}".to_owned());
    }
    for member in members {
        requests.extend(
            faults(&member.shape, true)
                .iter()
                .map(|fault| with(members, &[(member, fault)])),
        );
    }
    let bounds: Vec<(&Member, String)> = members
        .iter()
        .filter_map(|member| Some((member, out_of_bounds(&member.shape).pop()?)))
        .collect();
    if bounds.len() > 1 {
        let all: Vec<(&Member, &String)> = bounds.iter().map(|(member, fault)| (*member, fault)).collect();
        requests.push(with(members, &all));
    }
    requests
}

/// A structure that is valid except `faults`.
fn with(members: &[Member], faults: &[(&Member, &String)]) -> String {
    let member = |member: &Member| {
        let fault = faults.iter().find(|(faulty, _)| faulty.name == member.name);
        let value = match fault {
            Some((_, fault)) => (*fault).clone(),
            None if member.required => right(&member.shape),
            None => return None,
        };
        Some(format!(r#""{}":{value}"#, member.name))
    };
    let members: Vec<String> = members.iter().filter_map(member).collect();
    format!("{{{}}}", members.join(","))
}

/// The least that fits.
fn right(shape: &Shape) -> String {
    match shape {
        Shape::TableName | Shape::OwnTableName => r#""tab""#.into(),
        Shape::Text { min, .. } | Shape::Name { min, .. } => format!(r#""{}""#, "x".repeat((*min).max(1))),
        Shape::Choice(choices) => format!(r#""{}""#, choices[0]),
        Shape::Integer { min, .. } | Shape::Long { min, .. } => min.max(&0).to_string(),
        Shape::Boolean => "true".into(),
        Shape::Value => r#"{"S":"x"}"#.into(),
        Shape::Structure(_, members) => with(members, &[]),
        Shape::List { of, min, .. } => format!("[{}]", vec![right(of); *min].join(",")),
        Shape::Map { .. } | Shape::OfTables(_) => r#"{}"#.into(),
        Shape::Refused(_) | Shape::PassedOver => "null".into(),
    }
}

/// Values of a wrong kind. Inside structures only one wrong kind is tried.
fn faults(shape: &Shape, at_top: bool) -> Vec<String> {
    let kinds = ["3", "true", r#""x""#, "[]", "{}"]
        .into_iter()
        .filter(|kind| !has_kind(shape, kind));
    let mut faults: Vec<String> = kinds.map(str::to_owned).collect();
    if !at_top {
        faults.truncate(1);
    }
    faults.extend(out_of_bounds(shape));
    match shape {
        Shape::OfTables(map) => return self::faults(map, at_top),
        Shape::Value => faults.extend(
            [
                r#"{"S":3}"#,
                r#"{"BOOL":"maybe"}"#,
                r#"{"L":{}}"#,
                r#"{"M":[]}"#,
                r#"{"B":"a"}"#,
            ]
            .map(str::to_owned),
        ),
        Shape::Structure(_, members) => {
            if members.iter().any(|member| member.required) {
                faults.push("{}".into());
            }
            for member in *members {
                faults.extend(
                    inner(&member.shape)
                        .iter()
                        .map(|fault| with(members, &[(member, fault)])),
                );
            }
        }
        Shape::List { of, .. } => faults.extend(inner(of).iter().map(|fault| format!("[{fault}]"))),
        Shape::Map { of, .. } => faults.extend(inner(of).iter().map(|fault| format!(r#"{{"tab":{fault}}}"#))),
        _ => {}
    }
    faults
}

fn inner(shape: &Shape) -> Vec<String> {
    faults(shape, false)
}

fn has_kind(shape: &Shape, json: &str) -> bool {
    match shape {
        Shape::TableName | Shape::OwnTableName | Shape::Text { .. } | Shape::Name { .. } | Shape::Choice(_) => {
            json.starts_with('"')
        }
        Shape::Integer { .. } | Shape::Long { .. } => json == "3",
        Shape::Boolean => json == "true",
        Shape::Value | Shape::Structure(..) | Shape::Map { .. } => json == "{}",
        Shape::List { .. } => json == "[]",
        Shape::OfTables(map) => has_kind(map, json),
        Shape::Refused(_) | Shape::PassedOver => true,
    }
}

/// Values of the right kind that break a bound.
fn out_of_bounds(shape: &Shape) -> Vec<String> {
    let text = |length: usize| format!(r#""{}""#, "y".repeat(length));
    let mut values = Vec::new();
    match shape {
        Shape::TableName => values.extend([r#""""#.to_owned(), r#""a b""#.to_owned()]),
        Shape::OwnTableName => values.extend([text(2), text(256), r#""a b c""#.to_owned()]),
        Shape::Text { min, max } | Shape::Name { min, max } => {
            if *min > 0 {
                values.push(text(min - 1));
            }
            if *max < SHOWN_CHARACTERS_MAX {
                values.push(text(max + 1));
            }
            if matches!(shape, Shape::Name { .. }) {
                values.push(r#""a b c""#.to_owned());
            }
        }
        Shape::Choice(_) => values.push(r#""no such word""#.to_owned()),
        Shape::Integer { min, max } | Shape::Long { min, max } => {
            values.extend(min.checked_sub(1).map(|below| below.to_string()));
            values.extend(max.checked_add(1).map(|above| above.to_string()));
        }
        Shape::List { of, min, max } => {
            if *min > 0 {
                values.push("[]".into());
            }
            if *max < SHOWN_ELEMENTS_MAX {
                values.push(format!("[{}]", vec![right(of); max + 1].join(",")));
            }
        }
        Shape::Boolean
        | Shape::Value
        | Shape::Structure(..)
        | Shape::Map { .. }
        | Shape::OfTables(_)
        | Shape::Refused(_)
        | Shape::PassedOver => {}
    }
    values
}
