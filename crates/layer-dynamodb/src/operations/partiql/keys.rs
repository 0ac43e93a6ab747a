//! The keys in a WHERE clause: the item that it names, or the partitions that it goes through.

use std::cmp::Ordering;

use crate::storage::key::KeyPart;
use crate::storage::source::refuse_empty;
use crate::storage::table::{Table, has_type};
use crate::wire::expression::condition::{Comparison, Operand, order};
use crate::wire::expression::{Condition, KeyTerm, KeyTest, Path};
use crate::wire::failure::Failure;
use crate::wire::value::{Item, Value};

/// Alternatives into which a clause is taken apart at most; one with more is the filter of a Scan.
const BRANCHES_MAX: usize = 256;

/// The terms that a condition needs all of.
pub fn conjuncts(condition: Option<&Condition>) -> Vec<&Condition> {
    match condition {
        None => Vec::new(),
        Some(Condition::And(terms)) => terms.iter().flat_map(|term| conjuncts(Some(term))).collect(),
        Some(other) => vec![other],
    }
}

/// The test of a top-level attribute, if the condition is one that a key can be searched by.
pub fn key_term(condition: &Condition) -> Option<KeyTerm> {
    let name = |operand: &Operand| match operand {
        Operand::Path(path) if path.steps.is_empty() => Some(path.root.clone()),
        _ => None,
    };
    let (attribute, test) = match condition {
        Condition::Compare(Comparison::NotEqual, ..) => return None,
        Condition::Compare(comparison, left, Operand::Value(value)) => {
            (name(left)?, KeyTest::Compare(*comparison, value.clone()))
        }
        Condition::Compare(comparison, Operand::Value(value), right) => {
            (name(right)?, KeyTest::Compare(comparison.mirrored(), value.clone()))
        }
        Condition::Between(operand, Operand::Value(low), Operand::Value(high)) => {
            (name(operand)?, KeyTest::Between(low.clone(), high.clone()))
        }
        Condition::BeginsWith(operand, Operand::Value(start)) => (name(operand)?, KeyTest::BeginsWith(start.clone())),
        _ => return None,
    };
    Some(KeyTerm { attribute, test })
}

fn of_wrong_type(part: &KeyPart) -> Failure {
    Failure::validation(format!(
        "Key attribute's data type should match its data type in table's schema: Key {}",
        part.name
    ))
}

/// The key that a clause fixes by equality, and what else it says.
pub fn split_key(table: &Table, condition: Option<&Condition>) -> Result<(Item, Vec<Condition>), Failure> {
    let mut key = Item::new();
    let mut remaining = Vec::new();
    for condition in conjuncts(condition) {
        let term = key_term(condition).filter(|term| table.is_key(&term.attribute));
        let fixed = term
            .as_ref()
            .and_then(|term| Some((&term.attribute, term.test.equal_to()?)));
        let Some((attribute, value)) = fixed else {
            remaining.push(condition.clone());
            continue;
        };
        if key
            .insert(attribute.clone(), value.clone())
            .is_some_and(|other| other != *value)
        {
            return Err(Failure::validation(format!(
                "Multiple conditions on same key {attribute}. Only single item Update/Insert/Delete are supported"
            )));
        }
    }
    if key.len() != table.keys().count() {
        return Err(Failure::validation(
            "Where clause does not contain a mandatory equality on all key attributes",
        ));
    }
    let wrong = table.keys().find(|part| !has_type(&key[&part.name], part.kind));
    wrong.map_or(Ok((key, remaining)), |part| Err(of_wrong_type(part)))
}

/// Refuses an item to be inserted that lacks a key attribute, or has one of another type.
pub fn check_inserted(table: &Table, item: &Item) -> Result<(), Failure> {
    for part in table.keys() {
        match item.get(&part.name) {
            None => {
                return Err(Failure::validation(format!(
                    "Key attribute should be present in the item: Key {}",
                    part.name
                )));
            }
            Some(value) if !has_type(value, part.kind) => return Err(of_wrong_type(part)),
            Some(_) => {}
        }
    }
    Ok(())
}

/// The part of a table or an index that a clause selects.
pub struct Reach {
    /// The partitions it names, sorted, each once; `None`: it may select of any, so all are
    /// scanned.
    pub partitions: Option<Vec<Value>>,
    /// The condition on the range attribute that every selected item fulfils, if its order can use
    /// it.
    pub range: Option<KeyTerm>,
}

/// Finds what a clause selects of a table or an index with these key attributes.
pub fn reach(condition: Option<&Condition>, hash: &KeyPart, range: Option<&KeyPart>) -> Result<Reach, Failure> {
    let whole = Reach {
        partitions: None,
        range: None,
    };
    let is_key = |name: &str| name == hash.name || range.is_some_and(|range| name == range.name);
    let Some(branches) = condition.and_then(|condition| branches(condition, &is_key)) else {
        return Ok(whole);
    };
    let listed = branches.iter().map(|branch| listed_values(branch, hash));
    let Some(listed) = listed.collect::<Option<Vec<Vec<Value>>>>() else {
        return Ok(whole);
    };
    if listed.iter().flatten().any(|value| !has_type(value, hash.kind)) {
        return Err(of_wrong_type(hash));
    }
    if let Some(range) = range {
        refuse_overlap(&branches, &listed, range)?;
    }
    let mut partitions = listed.concat();
    partitions.sort_by(|a, b| order(a, b).expect("scalars of one type have an order"));
    partitions.dedup();
    let range = range.and_then(|range| range_term(condition, range));
    Ok(Reach {
        partitions: Some(partitions),
        range,
    })
}

/// The term that bounds the range attribute: an equality, or else the first term.
fn range_term(condition: Option<&Condition>, range: &KeyPart) -> Option<KeyTerm> {
    let terms = conjuncts(condition).into_iter().filter_map(key_term);
    let terms: Vec<KeyTerm> = terms.filter(|term| term.attribute == range.name).collect();
    let equality = terms.iter().find(|term| term.test.equal_to().is_some());
    equality.or_else(|| terms.first()).cloned()
}

/// The alternatives of a condition, each of terms that it needs all of; `None` if there are too
/// many. An OR that says nothing of keys stays one term.
fn branches<'c>(condition: &'c Condition, is_key: &dyn Fn(&str) -> bool) -> Option<Vec<Vec<&'c Condition>>> {
    let names_key = |condition: &Condition| {
        let mut paths = Vec::new();
        condition.paths(&mut paths);
        paths.iter().any(|path| is_key(&path.root))
    };
    let all = match condition {
        Condition::And(terms) => {
            let mut all = vec![Vec::new()];
            for term in terms {
                let alternatives = branches(term, is_key)?;
                if all.len() * alternatives.len() > BRANCHES_MAX {
                    return None;
                }
                let joined = all.iter().flat_map(|branch: &Vec<&'c Condition>| {
                    let more = alternatives.iter();
                    more.map(|alternative| [branch.as_slice(), alternative.as_slice()].concat())
                });
                all = joined.collect();
            }
            all
        }
        Condition::Or(alternatives) if names_key(condition) => {
            let mut all = Vec::new();
            for alternative in alternatives {
                all.extend(branches(alternative, is_key)?);
            }
            all
        }
        other => vec![vec![other]],
    };
    (all.len() <= BRANCHES_MAX).then_some(all)
}

/// Values that a branch allows for the hash attribute, if it lists them.
fn listed_values(branch: &[&Condition], hash: &KeyPart) -> Option<Vec<Value>> {
    let equal = branch
        .iter()
        .filter_map(|condition| key_term(condition))
        .find_map(|term| {
            let is_meant = term.attribute == hash.name;
            term.test
                .equal_to()
                .filter(|_| is_meant)
                .map(|value| vec![value.clone()])
        });
    equal.or_else(|| branch.iter().find_map(|condition| members(condition, hash)))
}

/// The members of an IN over an attribute of keys, if all are values.
fn members(condition: &Condition, part: &KeyPart) -> Option<Vec<Value>> {
    let Condition::In(Operand::Path(path), list) = condition else {
        return None;
    };
    let value = |operand: &Operand| match operand {
        Operand::Value(value) => Some(value.clone()),
        _ => None,
    };
    let is_meant = *path == Path::top(part.name.clone());
    list.iter()
        .map(value)
        .collect::<Option<Vec<Value>>>()
        .filter(|_| is_meant)
}

/// An end of an interval of values, and whether it belongs to it.
type End = Option<(Value, bool)>;
/// A low and a high end.
type Interval = (End, End);

/// Refuses alternatives of one partition that select the same part of its order. Alternatives with
/// a negated range attribute are not checked, nor are the others of their partition.
fn refuse_overlap(branches: &[Vec<&Condition>], listed: &[Vec<Value>], range: &KeyPart) -> Result<(), Failure> {
    if branches.iter().flatten().any(|condition| is_negated(condition, range)) {
        return Ok(());
    }
    let overlapping =
        || Failure::validation("Overlapping conditions with range keys are not supported in where clause");
    let intervals = branches.iter().map(|branch| intervals(branch, range));
    let selected: Vec<(&Vec<Value>, Vec<Interval>)> = listed.iter().zip(intervals).collect();
    for (position, (partitions, parts)) in selected.iter().enumerate() {
        let is_repeated = |(index, value)| partitions[..index].contains(value);
        if partitions.iter().enumerate().any(is_repeated) {
            return Err(overlapping());
        }
        let overlaps = |(other_partitions, beside): &(&Vec<Value>, Vec<Interval>)| {
            let meet = other_partitions.iter().any(|value| partitions.contains(value));
            meet && parts.iter().any(|part| beside.iter().any(|other| overlap(part, other)))
        };
        if selected[..position].iter().any(overlaps) {
            return Err(overlapping());
        }
    }
    Ok(())
}

fn is_negated(condition: &Condition, range: &KeyPart) -> bool {
    let negates = matches!(
        condition,
        Condition::Not(_) | Condition::Compare(Comparison::NotEqual, ..)
    );
    let mut paths = Vec::new();
    condition.paths(&mut paths);
    negates && paths.iter().any(|path| path.root == range.name)
}

/// The parts of a partition's order that a branch selects.
fn intervals(branch: &[&Condition], range: &KeyPart) -> Vec<Interval> {
    let (mut low, mut high): Interval = (None, None);
    for term in branch.iter().filter_map(|condition| key_term(condition)) {
        if term.attribute == range.name {
            let (above, below) = interval(&term.test);
            low = tighter(low, above, Ordering::Greater);
            high = tighter(high, below, Ordering::Less);
        }
    }
    let points = branch.iter().find_map(|condition| members(condition, range));
    let within = match points {
        None => vec![(low, high)],
        Some(points) => {
            let points = points
                .into_iter()
                .filter(|value| has_type(value, range.kind))
                .map(point);
            points
                .filter(|point| overlap(point, &(low.clone(), high.clone())))
                .collect()
        }
    };
    within.into_iter().filter(|(low, high)| !is_before(high, low)).collect()
}

fn point(value: Value) -> Interval {
    (Some((value.clone(), true)), Some((value, true)))
}

fn interval(test: &KeyTest) -> Interval {
    let end = |value: &Value, included| Some((value.clone(), included));
    match test {
        KeyTest::Compare(Comparison::Equal, value) => point(value.clone()),
        KeyTest::Compare(Comparison::Less, value) => (None, end(value, false)),
        KeyTest::Compare(Comparison::LessOrEqual, value) => (None, end(value, true)),
        KeyTest::Compare(Comparison::Greater, value) => (end(value, false), None),
        KeyTest::Compare(Comparison::GreaterOrEqual, value) => (end(value, true), None),
        KeyTest::Between(low, high) => (end(low, true), end(high, true)),
        KeyTest::BeginsWith(start) => (end(start, true), end(&last_with(start), true)),
        KeyTest::Compare(Comparison::NotEqual, _) | KeyTest::Unindexed => (None, None),
    }
}

/// The greatest possible key value with the prefix `start`.
fn last_with(start: &Value) -> Value {
    match start {
        Value::S(text) => Value::S(text.clone() + &char::MAX.to_string().repeat(256)),
        Value::B(bytes) => Value::B([bytes.as_slice(), &[0xff; 1024]].concat()),
        other => other.clone(),
    }
}

/// The more restrictive end: the greater of two low ends, the lesser of two high ends.
fn tighter(first: End, other: End, ordering: Ordering) -> End {
    match (&first, &other) {
        (None, _) => other,
        (_, None) => first,
        (Some((left, left_included)), Some((right, _))) => match order(left, right) {
            Some(Ordering::Equal) if *left_included => other,
            Some(Ordering::Equal) => first,
            result if result == Some(ordering) => first,
            _ => other,
        },
    }
}

/// Returns true if no value is between a low and a high end, because `high` ends before `low`
/// starts.
fn is_before(high: &End, low: &End) -> bool {
    let (Some((high, high_included)), Some((low, low_included))) = (high, low) else {
        return false;
    };
    match order(high, low) {
        Some(Ordering::Less) => true,
        Some(Ordering::Equal) => !(*high_included && *low_included),
        _ => false,
    }
}

fn overlap(first: &Interval, other: &Interval) -> bool {
    !is_before(&first.1, &other.0) && !is_before(&other.1, &first.0)
}

/// Refuses a key attribute that is compared with a value that it cannot have: of another type, or
/// empty. Tests that are operands of others are not checked.
pub fn check_values(condition: &Condition, keys: &[&KeyPart]) -> Result<(), Failure> {
    let part_of = |operand: &Operand| match operand {
        Operand::Path(path) if path.steps.is_empty() => keys.iter().find(|part| part.name == path.root),
        _ => None,
    };
    let pair = |left: &Operand, right: &Operand| match (part_of(left), right) {
        (Some(part), Operand::Value(value)) if !has_type(value, part.kind) => {
            Err(Failure::invalid("Condition parameter type does not match schema type"))
        }
        (Some(part), Operand::Value(value)) => refuse_empty(part, value, ""),
        _ => Ok(()),
    };
    match condition {
        Condition::Compare(_, left, right) => {
            pair(left, right)?;
            pair(right, left)
        }
        Condition::BeginsWith(left, right) | Condition::Contains(left, right) => pair(left, right),
        Condition::Between(operand, low, high) => {
            pair(operand, low)?;
            pair(operand, high)
        }
        // A list may hold values of several types, if the first one's fits.
        Condition::In(operand, list) => {
            let key_type = part_of(operand).map(|part| part.kind.name());
            let first_type = list.first().and_then(Operand::known_type);
            let is_judged = |member: &&Operand| [key_type, first_type].contains(&member.known_type());
            list.iter()
                .filter(is_judged)
                .try_for_each(|member| pair(operand, member))
        }
        Condition::And(conditions) | Condition::Or(conditions) => conditions
            .iter()
            .try_for_each(|condition| check_values(condition, keys)),
        Condition::Not(condition) => check_values(condition, keys),
        Condition::Exists(_) | Condition::NotExists(_) | Condition::HasType(..) => Ok(()),
    }
}
