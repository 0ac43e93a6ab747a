//! COLLECT: what the records of a group are, instead of one number about them.
//!
//! ```text
//! FIELDS (* | count @name...) [SORTBY count @name [ASC|DESC]...] [LIMIT offset count] [DISTINCT]
//! ```
//!
//! Follows what RediSearch 8.10 tests of it; defaults and texts of errors are its own.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use crate::error::SearchError;
use crate::redis::aggregate::value::{Record, Value, in_order, size_of_pairs};

/// Default number of collected records with a sort and without LIMIT.
const SORTED_DEFAULT: usize = 10;

/// Most fields of one COLLECT.
const FIELDS_MAX: usize = 1025;

/// Most names after SORTBY.
const SORT_KEYS_MAX: usize = 8;

/// The greatest offset and count of LIMIT.
const LIMIT_MAX: usize = i32::MAX as usize;

/// The fields that are collected, and the records.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Collect {
    /// Names of properties; all of them if there is no list.
    fields: Option<Vec<String>>,
    /// Names of properties, and whether they ascend.
    sort_keys: Vec<(String, bool)>,
    limit: Option<(usize, usize)>,
    /// Records whose fields are equal are collected once.
    is_distinct: bool,
}

fn refused(text: impl Into<String>) -> SearchError {
    SearchError::Arguments(text.into())
}

/// The words that are left.
struct Words<'w>(std::slice::Iter<'w, &'w str>);

impl<'w> Words<'w> {
    fn take(&mut self, word: &str) -> bool {
        let is_next = self
            .0
            .as_slice()
            .first()
            .is_some_and(|next| next.eq_ignore_ascii_case(word));
        if is_next {
            self.0.next();
        }
        is_next
    }

    fn next(&mut self, option: &str) -> Result<&'w str, SearchError> {
        let missing = || {
            refused(format!(
                "Bad arguments for COLLECT: {option}: Expected an argument, but none provided"
            ))
        };
        self.0.next().copied().ok_or_else(missing)
    }

    /// As many words as `count` says.
    fn counted(&mut self, count: &str, option: &str) -> Result<Words<'w>, SearchError> {
        let count: usize = count
            .parse()
            .map_err(|_| refused(format!("Bad arguments for COLLECT: {option}: Invalid argument count")))?;
        let remaining = self.0.as_slice();
        if count > remaining.len() {
            return Err(refused(format!(
                "Not enough arguments were provided based on argument count for {option}"
            )));
        }
        let (chosen, remainder) = remaining.split_at(count);
        self.0 = remainder.iter();
        Ok(Words(chosen.iter()))
    }
}

fn property(word: &str) -> Result<String, SearchError> {
    let name = word.strip_prefix('@').or(word.starts_with('$').then_some(word));
    let missing = || refused(format!("Missing prefix: name requires '@' prefix ({word})"));
    name.map(str::to_owned).ok_or_else(missing)
}

impl Collect {
    pub(super) fn parse(arguments: &[&str]) -> Result<Collect, SearchError> {
        let mut words = Words(arguments.iter());
        if !words.take("FIELDS") {
            return Err(refused("Bad arguments for COLLECT: FIELDS: Required argument missing"));
        }
        let mut collect = Collect {
            fields: fields(&mut words)?,
            ..Collect::default()
        };
        while let Some(word) = words.0.as_slice().first() {
            if words.take("SORTBY") {
                collect.sort_keys = sort_keys(&mut words)?;
            } else if words.take("LIMIT") {
                collect.limit = Some(limit(&mut words)?);
            } else if words.take("DISTINCT") {
                collect.is_distinct = true;
            } else {
                return Err(refused(format!("Bad arguments for COLLECT: {word}: Unknown argument")));
            }
        }
        Ok(collect)
    }

    /// Names of the properties that it reads.
    pub(super) fn properties(&self) -> impl Iterator<Item = &str> {
        let sort_keys = self.sort_keys.iter().map(|(name, _)| name);
        self.fields.iter().flatten().chain(sort_keys).map(String::as_str)
    }

    fn projected(&self, record: &Record) -> Vec<(String, Value)> {
        let is_there = |(_, value): &(&str, &Value)| **value != Value::Null;
        let owned = |(name, value): (&str, &Value)| (name.to_owned(), value.clone());
        match &self.fields {
            None => record.iter().filter(is_there).map(owned).collect(),
            Some(fields) => {
                let pairs = fields.iter().map(|name| (name.as_str(), record.get(name)));
                pairs.filter(is_there).map(owned).collect()
            }
        }
    }

    fn compare(&self, a: &Collected, b: &Collected) -> Ordering {
        let values = a.sorted_by.iter().zip(&b.sorted_by);
        let orders = values
            .zip(&self.sort_keys)
            .map(|((a, b), (_, ascends))| in_order(a, b, *ascends));
        orders.fold(Ordering::Equal, Ordering::then)
    }
}

fn fields(words: &mut Words<'_>) -> Result<Option<Vec<String>>, SearchError> {
    let first = words.next("FIELDS")?;
    if first == "*" {
        return Ok(None);
    }
    let count: usize = first
        .parse()
        .map_err(|_| refused("Expected number of fields or `*` after FIELDS"))?;
    if !(1..=FIELDS_MAX).contains(&count) {
        let text = format!("FIELDS count must be in [1, {FIELDS_MAX}]");
        return Err(SearchError::Limit(text));
    }
    let names = words.counted(first, "FIELDS")?.0.map(|word| property(word));
    names.collect::<Result<_, _>>().map(Some)
}

fn sort_keys(words: &mut Words<'_>) -> Result<Vec<(String, bool)>, SearchError> {
    let count = words.next("SORTBY")?;
    let mut sort_words = words.counted(count, "SORTBY")?;
    let mut keys = Vec::new();
    while !sort_words.0.as_slice().is_empty() {
        let name = property(sort_words.next("SORTBY")?)?;
        let descends = sort_words.take("DESC");
        if !descends {
            sort_words.take("ASC");
        }
        keys.push((name, !descends));
    }
    match keys.len() {
        0 => Err(refused("SORTBY requires at least one sort field")),
        count if count > SORT_KEYS_MAX => Err(SearchError::Limit(format!(
            "SORTBY exceeds maximum of {SORT_KEYS_MAX} fields"
        ))),
        _ => Ok(keys),
    }
}

fn limit(words: &mut Words<'_>) -> Result<(usize, usize), SearchError> {
    let number = |word: &str| word.parse::<usize>().ok();
    let offset = number(words.next("LIMIT")?).ok_or_else(|| refused("LIMIT offset must be a non-negative integer"))?;
    let count = number(words.next("LIMIT")?).filter(|count| *count > 0);
    let count = count.ok_or_else(|| refused("LIMIT count must be a positive integer"))?;
    for (which, number) in [("offset", offset), ("count", count)] {
        if number > LIMIT_MAX {
            return Err(SearchError::Limit(format!(
                "LIMIT {which} exceeds maximum of {LIMIT_MAX}"
            )));
        }
    }
    Ok((offset, count))
}

struct Collected {
    sorted_by: Vec<Value>,
    fields: Vec<(String, Value)>,
}

impl Collected {
    fn size(&self) -> usize {
        let sorted_by = self.sorted_by.iter().map(|value| size_of::<Value>() + value.size());
        size_of::<Collected>() + sorted_by.sum::<usize>() + size_of_pairs(&self.fields)
    }
}

/// The records of a group so far.
#[derive(Default)]
pub(super) struct Collection(Vec<Collected>);

impl Collection {
    /// Returns the approximate number of bytes that the record adds.
    pub fn add(&mut self, collect: &Collect, record: &Record) -> usize {
        let sorted_by = collect.sort_keys.iter().map(|(name, _)| record.get(name).clone());
        let collected = Collected {
            sorted_by: sorted_by.collect(),
            fields: collect.projected(record),
        };
        let bytes = collected.size();
        self.0.push(collected);
        bytes
    }

    /// Equal records keep the order of insertion.
    pub fn result(mut self, collect: &Collect) -> Value {
        self.0.sort_by(|a, b| collect.compare(a, b));
        let mut seen = BTreeSet::new();
        let maps = self.0.into_iter().map(|collected| Value::Map(collected.fields));
        let distinct = maps.filter(|map| !collect.is_distinct || seen.insert(map.clone()));
        let default = if collect.sort_keys.is_empty() {
            LIMIT_MAX
        } else {
            SORTED_DEFAULT
        };
        let (offset, count) = collect.limit.unwrap_or((0, default));
        Value::List(distinct.skip(offset).take(count).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collected(arguments: &str) -> String {
        let arguments: Vec<&str> = arguments.split(' ').collect();
        let collect = match Collect::parse(&arguments) {
            Ok(collect) => collect,
            Err(error) => return error.to_string(),
        };
        let mut collection = Collection::default();
        for (name, taste) in [
            ("kiwi", Some(3.0)),
            ("lime", Some(2.0)),
            ("lemon", Some(2.0)),
            ("fig", None),
        ] {
            let mut record = Record::default();
            record.set("name", Value::text(name));
            record.set("taste", taste.map_or(Value::Null, Value::Number));
            collection.add(&collect, &record);
        }
        collection.result(&collect).to_string()
    }

    #[test]
    fn fields_are_collected_sorted_and_limited() {
        assert_eq!(
            collected("FIELDS 1 @name"),
            "{name: kiwi},{name: lime},{name: lemon},{name: fig}"
        );
        assert_eq!(
            collected("FIELDS * SORTBY 2 @taste DESC LIMIT 1 2"),
            "{name: lime, taste: 2},{name: lemon, taste: 2}"
        );
        assert_eq!(
            collected("FIELDS 1 @taste DISTINCT SORTBY 1 @taste"),
            "{taste: 2},{taste: 3},{}"
        );
    }

    #[test]
    fn wrong_arguments_are_refused() {
        for (arguments, error) in [
            (
                "SORTBY 1 @a",
                "Bad arguments for COLLECT: FIELDS: Required argument missing",
            ),
            ("FIELDS x", "Expected number of fields or `*` after FIELDS"),
            ("FIELDS 0", "FIELDS count must be in [1, 1025]"),
            (
                "FIELDS 2 @a",
                "Not enough arguments were provided based on argument count for FIELDS",
            ),
            ("FIELDS 1 a", "Missing prefix: name requires '@' prefix (a)"),
            ("FIELDS * SORTBY 1 a", "Missing prefix: name requires '@' prefix (a)"),
            ("FIELDS * LIMIT 0 0", "LIMIT count must be a positive integer"),
            (
                "FIELDS * LIMIT 0",
                "Bad arguments for COLLECT: LIMIT: Expected an argument, but none provided",
            ),
            (
                "FIELDS * LIMIT 0 9999999999",
                "LIMIT count exceeds maximum of 2147483647",
            ),
            ("FIELDS * WHAT", "Bad arguments for COLLECT: WHAT: Unknown argument"),
        ] {
            assert_eq!(collected(arguments), error);
        }
    }
}
