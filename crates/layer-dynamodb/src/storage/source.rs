//! The source of a search: a table or one of its indexes, the conditions on its keys, and where a
//! page starts.
//!
//! Faults of a Query's key conditions and of its start key are reported attribute by attribute, as
//! the service does it: for the hash attribute first those of the start key and then those of the
//! conditions, then the same for the range attribute.

use quartet_model::KeyRange;

use crate::storage::key::{self, KeyPart};
use crate::storage::table::{Index, Table, has_type};
use crate::wire::expression::condition::Comparison;
use crate::wire::expression::{KeyTerm, KeyTest};
use crate::wire::failure::Failure;
use crate::wire::value::{Item, Value};

/// The table or index that is searched.
pub struct Source<'t> {
    pub table: &'t Table,
    pub index: Option<&'t Index>,
}

impl<'t> Source<'t> {
    pub fn prefix(&self) -> Vec<u8> {
        key::items(self.table.id, self.index.map_or(0, |index| index.id))
    }

    fn hash_parts(&self) -> &'t [KeyPart] {
        self.index
            .map_or(std::slice::from_ref(&self.table.hash), |index| &index.hash)
    }

    fn range_parts(&self) -> &'t [KeyPart] {
        self.index.map_or(self.table.range.as_slice(), |index| &index.range)
    }

    /// The attributes it is ordered by, without those that only distinguish equal entries of an
    /// index.
    pub fn keys(&self) -> impl Iterator<Item = &'t KeyPart> {
        self.hash_parts().iter().chain(self.range_parts())
    }

    /// The term that names a partition by its first hash attribute.
    pub fn partition_term(&self, value: &Value) -> KeyTerm {
        KeyTerm {
            attribute: self.hash_parts()[0].name.clone(),
            test: KeyTest::Compare(Comparison::Equal, value.clone()),
        }
    }

    fn is_composite(&self) -> bool {
        self.hash_parts().len() > 1 || self.range_parts().len() > 1
    }

    /// The rows that the terms select, which `check_query` found in order.
    pub fn query_range(&self, terms: &[KeyTerm]) -> Result<KeyRange, Failure> {
        let hash = self
            .hash_parts()
            .iter()
            .filter_map(|part| term(terms, part)?.test.equal_to());
        let hash: Vec<&Value> = hash.collect();
        let mut prefix = self.prefix();
        key::write_partition(&hash, &mut prefix);
        let mut used = hash.len();
        for part in self.range_parts() {
            let Some(term) = term(terms, part) else { break };
            used += 1;
            match term.test.equal_to() {
                Some(value) => key::write_range(value, &mut prefix),
                None if used == terms.len() => return Ok(key::test_range(&prefix, &term.test)),
                None => return Err(not_supported()),
            }
        }
        match used < terms.len() {
            true => Err(not_supported()),
            false => Ok(KeyRange::prefix(&prefix)),
        }
    }

    /// Refuses key conditions that select no part of one partition, and a start key that is no
    /// place in that part.
    pub fn check_query(&self, terms: &[KeyTerm], start: Option<&Item>) -> Result<(), Failure> {
        if !self.is_composite() && !(1..=2).contains(&terms.len()) {
            return Err(wrong_count());
        }
        if start.is_some_and(|start| start.len() != self.start_keys_count()) {
            return Err(invalid_start());
        }
        for (position, part) in self.keys().enumerate() {
            if let Some(start) = start {
                check_start_part(part, start)?;
            }
            match position < self.hash_parts().len() {
                true => self.check_hash_term(part, terms)?,
                false => self.check_range_term(position, part, terms)?,
            }
        }
        match start {
            Some(start) => {
                self.check_table_keys(start)?;
                self.check_start_within(terms, start)
            }
            None => Ok(()),
        }
    }

    fn check_hash_term(&self, part: &KeyPart, terms: &[KeyTerm]) -> Result<(), Failure> {
        if !self.is_composite() && self.range_parts().is_empty() && terms.len() > 1 {
            return Err(not_supported());
        }
        let term = term(terms, part).ok_or_else(|| missed(part))?;
        check_term(part, term)?;
        match term.test.equal_to() {
            Some(_) => Ok(()),
            None => Err(not_supported()),
        }
    }

    /// Range attributes are used in their order: none may have a term if an earlier one has none,
    /// or has one other than an equality.
    fn check_range_term(&self, position: usize, part: &KeyPart, terms: &[KeyTerm]) -> Result<(), Failure> {
        let is_before = |term: &KeyTerm| self.keys().take(position).any(|part| part.name == term.attribute);
        let is_later = |part: &KeyPart| term(terms, part).is_some();
        match term(terms, part) {
            Some(term) => {
                check_term(part, term)?;
                self.check_range_before(position, part, terms)
            }
            None if terms.iter().all(is_before) || self.keys().skip(position).any(is_later) => Ok(()),
            None => Err(missed(part)),
        }
    }

    fn check_range_before(&self, position: usize, part: &KeyPart, terms: &[KeyTerm]) -> Result<(), Failure> {
        let is_open = |part: &&KeyPart| term(terms, part).is_none_or(|term| term.test.equal_to().is_none());
        let before = self.keys().take(position).skip(self.hash_parts().len());
        let open: Vec<&str> = before.filter(is_open).map(|part| part.name.as_str()).collect();
        match open.is_empty() {
            true => Ok(()),
            false => Err(Failure::validation(format!(
                "RANGE key attributes {} must have equality conditions specified in the query because a condition is present on \
                 key attribute {}",
                open.join(", "),
                part.name
            ))),
        }
    }

    /// Refuses what is no place in the order of a Scan.
    pub fn check_scan(&self, start: Option<&Item>) -> Result<(), Failure> {
        let Some(start) = start else { return Ok(()) };
        if start.len() != self.start_keys_count() {
            return Err(match self.index {
                Some(_) => invalid_start(),
                None => unsuited_start(),
            });
        }
        for part in self.index.iter().flat_map(|index| index.keys()) {
            check_start_part(part, start)?;
        }
        self.check_table_keys(start)
    }

    /// The number of attributes that identify an entry.
    fn start_keys_count(&self) -> usize {
        let index_parts = self.index.iter().flat_map(|index| index.keys());
        let own = index_parts.filter(|part| !self.table.is_key(&part.name)).count();
        self.table.keys().count() + own
    }

    fn check_table_keys(&self, start: &Item) -> Result<(), Failure> {
        if !self.table.holds_keys(start) {
            return Err(unsuited_start());
        }
        for part in self.table.keys() {
            refuse_empty(part, &start[&part.name], "The provided starting key is invalid: ")?;
        }
        Ok(())
    }

    /// Refuses a start key outside of the terms' selection.
    fn check_start_within(&self, terms: &[KeyTerm], start: &Item) -> Result<(), Failure> {
        let fulfils = |part: &KeyPart| term(terms, part).is_none_or(|term| term.test.holds(&start[&part.name]));
        let has_range = self.range_parts().iter().any(|part| term(terms, part).is_some());
        let in_partition = self.hash_parts().iter().all(fulfils);
        if !has_range && self.index.is_none() && self.table.range.is_none() && in_partition {
            return Err(Failure::validation(format!(
                "The provided exclusive start key is invalid: ExclusiveStartKey: {}",
                crate::wire::value::item_json(start)
            )));
        }
        match (has_range, in_partition) {
            (false, false) => Err(outside_query()),
            (true, _) if !self.range_parts().iter().all(fulfils) => Err(Failure::validation(
                "The provided starting key does not match the range key predicate",
            )),
            (true, false) => Err(Failure::validation(
                "The query can return at most one row and cannot be restarted",
            )),
            _ => Ok(()),
        }
    }

    /// The row that a start key names. It need not exist.
    pub fn row_key(&self, start: &Item) -> Result<Vec<u8>, Failure> {
        match self.index {
            None => Ok(self.table.item_key(start)),
            Some(index) => index.item_key(self.table, start).ok_or_else(invalid_start),
        }
    }
}

fn term<'k>(terms: &'k [KeyTerm], part: &KeyPart) -> Option<&'k KeyTerm> {
    terms.iter().find(|term| term.attribute == part.name)
}

fn missed(part: &KeyPart) -> Failure {
    Failure::validation(format!("Query condition missed key schema element: {}", part.name))
}

fn not_supported() -> Failure {
    Failure::validation("Query key condition not supported")
}

fn check_term(part: &KeyPart, term: &KeyTerm) -> Result<(), Failure> {
    if term.test == KeyTest::Unindexed {
        return Err(Failure::validation(
            "Attempted conditional constraint is not an indexable operation",
        ));
    }
    for value in term.test.values() {
        if !has_type(value, part.kind) {
            return Err(Failure::invalid("Condition parameter type does not match schema type"));
        }
        if term.test.equal_to().is_some() {
            refuse_empty(part, value, "")?;
        }
    }
    Ok(())
}

fn check_start_part(part: &KeyPart, start: &Item) -> Result<(), Failure> {
    let value = start.get(&part.name).ok_or_else(invalid_start)?;
    if !has_type(value, part.kind) {
        return Err(invalid_start());
    }
    refuse_empty(part, value, "The provided starting key is invalid: ")
}

fn invalid_start() -> Failure {
    Failure::validation("The provided starting key is invalid")
}

fn unsuited_start() -> Failure {
    Failure::validation("The provided starting key is invalid: The provided key element does not match the schema")
}

pub fn wrong_count() -> Failure {
    Failure::validation("Conditions can be of length 1 or 2 only")
}

pub fn outside_query() -> Failure {
    Failure::validation("The provided starting key is outside query boundaries based on provided conditions")
}

/// Refuses an empty text, or no bytes, as the value of a key attribute.
pub fn refuse_empty(part: &KeyPart, value: &Value, prefix: &str) -> Result<(), Failure> {
    let kind = match value {
        Value::S(text) if text.is_empty() => "string",
        Value::B(bytes) if bytes.is_empty() => "binary",
        _ => return Ok(()),
    };
    Err(Failure::validation(format!(
        "{prefix}One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an \
         empty {kind} value. Key: {}",
        part.name
    )))
}
