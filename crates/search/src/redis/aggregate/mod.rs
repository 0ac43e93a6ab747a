//! Aggregation of the documents that were found: steps that each take records and give records.
//!
//! The caller brings each document's properties as a [`Record`]; the steps are plain data, so how
//! they are written in a request is not known here. A property that no earlier step gives is
//! refused before anything runs.

mod collect;
mod distinct;
mod expression;
mod functions;
mod reducers;
mod times;
mod value;

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

pub use expression::Expression;
pub use reducers::Reducer;
pub use value::{PathValues, Record, Value, sort_key};

use crate::error::SearchError;
use crate::redis::aggregate::reducers::Reduced;
use crate::redis::aggregate::value::in_order;
use crate::time::Time;

/// Default number of records of a SORTBY without a following LIMIT.
const SORTED_DEFAULT: usize = 10;

/// Records that a step takes between two looks at the time.
const RECORDS_BETWEEN_CHECKS: u32 = 256;

/// Bytes that a step adds between two checks of its memory.
const BYTES_BETWEEN_CHECKS: usize = 64 << 10;

/// Most steps of an aggregation.
pub const STEPS_MAX: usize = 256;

/// Most groups of a GROUPBY. More are refused rather than cut.
pub const GROUPS_MAX: usize = 1_000_000;

/// One step of an aggregation.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// One record for each combination of the properties' values.
    GroupBy {
        /// Names of properties, maybe none: then all is one group.
        properties: Vec<String>,
        /// The functions of each group, with the names of their results.
        reducers: Vec<(Reducer, String)>,
    },
    /// Records in an order.
    SortBy {
        /// Names of properties, and whether they ascend.
        keys: Vec<(String, bool)>,
        /// The most returned records; zero for all.
        max: Option<usize>,
    },
    /// A property computed for each record.
    Apply {
        /// How.
        expression: Expression,
        /// Its name.
        name: String,
    },
    /// The records for which an expression is true.
    Filter(Expression),
    /// Some of the records.
    Limit {
        /// The number of records that are skipped.
        offset: usize,
        /// The number of records that are taken.
        count: usize,
    },
}

impl Step {
    /// The original's words for a property that nothing gives.
    fn lacks(&self, name: &str) -> String {
        match self {
            Step::GroupBy { properties, .. } if properties.iter().any(|property| property == name) => {
                format!("No such property `{name}`")
            }
            Step::GroupBy { .. } => format!("Property `{name}` not present in document or pipeline"),
            Step::SortBy { .. } => format!("Property `{name}` not loaded nor in schema"),
            _ => format!("Property `{name}` not loaded nor in pipeline"),
        }
    }

    /// The original's word for it.
    fn name(&self) -> String {
        match self {
            Step::GroupBy { .. } => "Grouper".into(),
            Step::SortBy { .. } => "Sorter".into(),
            Step::Apply { expression, .. } => format!("Projector - {}", expression.kind()),
            Step::Filter(expression) => format!("Filter - {}", expression.kind()),
            Step::Limit { .. } => "Pager/Limiter".into(),
        }
    }

    fn properties(&self) -> Vec<&str> {
        match self {
            Step::GroupBy { properties, reducers } => {
                let reduced = reducers.iter().flat_map(|(reducer, _)| reducer.properties());
                properties.iter().map(String::as_str).chain(reduced).collect()
            }
            Step::SortBy { keys, .. } => keys.iter().map(|(name, _)| name.as_str()).collect(),
            Step::Apply { expression, .. } | Step::Filter(expression) => expression.properties(),
            Step::Limit { .. } => Vec::new(),
        }
    }
}

/// A property that a step takes.
pub struct Use<'s> {
    /// Its name.
    pub name: &'s str,
    /// The number of steps before it.
    pub at: usize,
    /// Whether an expression takes it.
    pub in_expression: bool,
}

/// The properties that the steps take from the documents, in the order in which they are named.
/// `is_known` says whether documents have a property there. Refuses one that neither they nor an
/// earlier step give.
pub fn wanted(steps: &[Step], is_known: &dyn Fn(&Use<'_>) -> bool) -> Result<Vec<String>, SearchError> {
    if steps.len() > STEPS_MAX {
        return Err(SearchError::Limit(format!(
            "An aggregation has at most {STEPS_MAX} steps"
        )));
    }
    let mut used_names: Vec<String> = Vec::new();
    let mut names_seen: HashSet<&str> = HashSet::new();
    let mut defined: HashSet<&str> = HashSet::new();
    let mut is_grouped = false;
    for (at, step) in steps.iter().enumerate() {
        let in_expression = matches!(step, Step::Apply { .. } | Step::Filter(_));
        for name in step.properties() {
            if defined.contains(name) || names_seen.contains(name) && !is_grouped {
                continue;
            }
            let used = Use {
                name,
                at,
                in_expression,
            };
            if is_grouped || !is_known(&used) {
                return Err(SearchError::NoProperty(step.lacks(name)));
            }
            used_names.push(name.to_owned());
            names_seen.insert(name);
        }
        match step {
            Step::GroupBy { properties, reducers } => {
                is_grouped = true;
                let names = reducers.iter().map(|(_, name)| name);
                defined = properties.iter().chain(names).map(String::as_str).collect();
            }
            Step::Apply { name, .. } => drop(defined.insert(name)),
            _ => {}
        }
    }
    Ok(used_names)
}

/// Returns true if a step uses the matched terms of documents.
pub fn ask_for_terms(steps: &[Step]) -> bool {
    steps.iter().any(|step| match step {
        Step::Apply { expression, .. } | Step::Filter(expression) => expression.asks_for_terms(),
        _ => false,
    })
}

/// The time and the memory of an aggregation.
pub struct Budget<'b> {
    /// If it ends before the steps, and parts are an answer, the step that runs takes no more
    /// records, and the others take the records so far.
    pub time: Time<'b>,
    /// Called from time to time with the approximate bytes of the records. Refuses more.
    pub holds: &'b mut dyn FnMut(usize) -> Result<(), SearchError>,
}

/// Runs the steps over the records of documents. `watch` learns after each step
/// what it was, in the original's words, and how many records it gave.
pub fn run(
    steps: &[Step],
    mut records: Vec<Record>,
    budget: &mut Budget<'_>,
    watch: &mut dyn FnMut(String, usize),
) -> Result<Vec<Record>, SearchError> {
    for (at, step) in steps.iter().enumerate() {
        let mut pace = Pace {
            time: budget.time,
            records: 0,
            holds: &mut *budget.holds,
            bytes: records.iter().map(Record::size).sum(),
            known_bytes: 0,
        };
        pace.tell()?;
        records = match step {
            Step::GroupBy { .. } => grouped(step, &records, &mut pace)?,
            Step::SortBy { keys, max } => {
                pace.time.is_over()?;
                let is_limited = matches!(steps.get(at + 1), Some(Step::Limit { .. }));
                let default = if is_limited { 0 } else { SORTED_DEFAULT };
                sorted(keys, max.unwrap_or(default), records)
            }
            Step::Apply { expression, name } => applied(expression, name, records, &mut pace)?,
            Step::Filter(expression) => filtered(expression, records, &mut pace)?,
            Step::Limit { offset, count } => records.into_iter().skip(*offset).take(*count).collect(),
        };
        // The sorter itself takes the head of a sorted list.
        let is_sorted = at > 0 && matches!(steps[at - 1], Step::SortBy { .. });
        if !(is_sorted && matches!(step, Step::Limit { offset: 0, .. })) {
            watch(step.name(), records.len());
        }
    }
    Ok(records)
}

/// Looks at the time once for many records.
struct Pace<'t> {
    time: Time<'t>,
    records: u32,
    holds: &'t mut dyn FnMut(usize) -> Result<(), SearchError>,
    /// Bytes that are held.
    bytes: usize,
    /// The bytes that `holds` knows of.
    known_bytes: usize,
}

impl Pace<'_> {
    fn tell(&mut self) -> Result<(), SearchError> {
        self.known_bytes = self.bytes;
        (self.holds)(self.bytes)
    }

    /// Adds bytes that are held from here on.
    fn grow(&mut self, bytes: usize) -> Result<(), SearchError> {
        self.bytes += bytes;
        match self.bytes - self.known_bytes >= BYTES_BETWEEN_CHECKS {
            true => self.tell(),
            false => Ok(()),
        }
    }

    /// Called for each record. Returns true if the step takes no more.
    fn is_over(&mut self) -> Result<bool, SearchError> {
        self.records += 1;
        match self.records.is_multiple_of(RECORDS_BETWEEN_CHECKS) {
            true => self.time.is_over(),
            false => Ok(false),
        }
    }
}

/// Groups records one by one.
pub struct Grouping<'s> {
    properties: &'s [String],
    reducers: &'s [(Reducer, String)],
    groups: HashMap<Vec<Value>, Vec<Reduced<'s>>>,
    /// The values of the present record.
    values: Vec<Value>,
    /// Bytes that the groups keep, about.
    bytes: usize,
}

/// Bytes of a group beside its values, about, and of a reducer of it.
const GROUP_BYTES: usize = 64;
const REDUCED_BYTES: usize = size_of::<Reduced<'_>>();

impl<'s> Grouping<'s> {
    /// The groups of a step; nothing if it is another than GROUPBY.
    pub fn of(step: &'s Step) -> Option<Grouping<'s>> {
        let Step::GroupBy { properties, reducers } = step else {
            return None;
        };
        Some(Grouping {
            properties,
            reducers,
            groups: HashMap::new(),
            values: vec![Value::Null; properties.len()],
            bytes: 0,
        })
    }

    /// Adds a record to its group. If a property has several values, the record is in the group of
    /// each.
    pub fn add(&mut self, record: &Record) -> Result<(), SearchError> {
        let mut combinations: usize = 1;
        for (value, name) in self.values.iter_mut().zip(self.properties) {
            value.become_like(record.get(name));
            if let Value::List(values) = value {
                combinations = combinations.saturating_mul(values.len().max(1));
            }
        }
        if combinations > GROUPS_MAX {
            return Err(too_many_groups());
        }
        if !self.values.iter().any(|value| matches!(value, Value::List(_))) {
            return self.add_to_group(record);
        }
        let lists = self.values.clone();
        for combination in 0..combinations {
            let mut index = combination;
            // The last property's values follow each other.
            for (value, list) in self.values.iter_mut().zip(&lists).rev() {
                if let Value::List(values) = list {
                    let count = values.len().max(1);
                    value.become_like(values.get(index % count).unwrap_or(&Value::Null));
                    index /= count;
                }
            }
            self.add_to_group(record)?;
        }
        Ok(())
    }

    fn add_to_group(&mut self, record: &Record) -> Result<(), SearchError> {
        let count = self.groups.len();
        let group = match self.groups.get_mut(&self.values) {
            Some(group) => group,
            None if count == GROUPS_MAX => {
                return Err(too_many_groups());
            }
            None => {
                let reduced = self.reducers.iter().map(|(reducer, _)| Reduced::new(reducer));
                let values = self.values.iter().map(Value::size).sum::<usize>();
                self.bytes += GROUP_BYTES + values + self.reducers.len() * REDUCED_BYTES;
                self.groups.entry(self.values.clone()).or_insert(reduced.collect())
            }
        };
        self.bytes += group.iter_mut().map(|reduced| reduced.add(record)).sum::<usize>();
        Ok(())
    }

    /// Bytes that the groups keep, about.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// A record for each group, in the order of their values.
    pub fn records(self) -> Vec<Record> {
        let mut groups: Vec<_> = self.groups.into_iter().collect();
        groups.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        let results = self.reducers.iter().map(|(_, name)| name);
        let names: Vec<&String> = self.properties.iter().chain(results).collect();
        let record = |(values, group): (Vec<Value>, Vec<Reduced>)| {
            let values = values.into_iter().chain(group.into_iter().map(Reduced::result));
            names.iter().map(|name| (*name).clone()).zip(values).collect()
        };
        groups.into_iter().map(record).collect()
    }
}

fn too_many_groups() -> SearchError {
    SearchError::Limit(format!("A GROUPBY has at most {GROUPS_MAX} groups"))
}

fn grouped(step: &Step, records: &[Record], pace: &mut Pace<'_>) -> Result<Vec<Record>, SearchError> {
    let mut grouping = Grouping::of(step).expect("the step is a GROUPBY");
    for record in records {
        if pace.is_over()? {
            break;
        }
        let before = grouping.bytes();
        grouping.add(record)?;
        pace.grow(grouping.bytes() - before)?;
    }
    Ok(grouping.records())
}

fn sorted(keys: &[(String, bool)], max: usize, mut records: Vec<Record>) -> Vec<Record> {
    records.sort_by(|a, b| {
        let orders = keys
            .iter()
            .map(|(name, ascends)| in_order(a.get(name), b.get(name), *ascends));
        orders.fold(Ordering::Equal, Ordering::then)
    });
    if max > 0 {
        records.truncate(max);
    }
    records
}

fn applied(
    expression: &Expression,
    name: &str,
    mut records: Vec<Record>,
    pace: &mut Pace<'_>,
) -> Result<Vec<Record>, SearchError> {
    let mut done = 0;
    for record in &mut records {
        if pace.is_over()? {
            break;
        }
        let value = expression.value(record)?;
        pace.grow(value.size())?;
        record.set(name, value);
        done += 1;
    }
    records.truncate(done);
    Ok(records)
}

fn filtered(expression: &Expression, records: Vec<Record>, pace: &mut Pace<'_>) -> Result<Vec<Record>, SearchError> {
    let mut retained = Vec::new();
    for record in records {
        if pace.is_over()? {
            break;
        }
        if expression.value(&record)?.is_true() {
            retained.push(record);
        }
    }
    Ok(retained)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records() -> Vec<Record> {
        let record = |at: u32| {
            let mut record = Record::default();
            record.set("n", Value::Number(at.into()));
            record.set("g", Value::text(format!("g{}", at % 3)));
            if !at.is_multiple_of(4) {
                record.set("m", Value::Number(f64::from(at) * 1.5));
            }
            record
        };
        (0..12).map(record).collect()
    }

    fn shown(records: Vec<Record>) -> Vec<String> {
        let record = |record: &Record| {
            let pairs = record.iter().map(|(name, value)| format!("{name}={value}"));
            pairs.collect::<Vec<_>>().join(" ")
        };
        records.iter().map(record).collect()
    }

    /// The records after these steps, without limits of time and memory.
    fn ran(steps: &[Step], records: Vec<Record>) -> Result<Vec<Record>, SearchError> {
        run(
            steps,
            records,
            &mut Budget {
                time: Time::until(&|| false),
                holds: &mut |_| Ok(()),
            },
            &mut |_, _| {},
        )
    }

    fn group(reducers: Vec<(Reducer, String)>) -> Vec<String> {
        let properties = vec!["g".to_owned()];
        shown(ran(&[Step::GroupBy { properties, reducers }], records()).unwrap())
    }

    fn reduced(name: &str, arguments: &[&str]) -> Vec<String> {
        let reducer = Reducer::parse(name, arguments).unwrap();
        group(vec![(reducer, "r".to_owned())])
    }

    /// As the original answered for the same documents, but that 2.10 counts absent values in AVG
    /// and answers 0 where there is no number.
    #[test]
    fn groups_are_reduced_as_the_original_does() {
        assert_eq!(reduced("COUNT", &[]), ["g=g0 r=4", "g=g1 r=4", "g=g2 r=4"]);
        assert_eq!(reduced("SUM", &["@n"]), ["g=g0 r=18", "g=g1 r=22", "g=g2 r=26"]);
        assert_eq!(reduced("MIN", &["@m"]), ["g=g0 r=4.5", "g=g1 r=1.5", "g=g2 r=3"]);
        assert_eq!(reduced("MAX", &["@m"]), ["g=g0 r=13.5", "g=g1 r=15", "g=g2 r=16.5"]);
        assert_eq!(reduced("AVG", &["@m"])[0], "g=g0 r=9");
        assert_eq!(reduced("SUM", &["@g"])[0], "g=g0 r=nan");
        assert_eq!(
            reduced("QUANTILE", &["@n", "0.5"]),
            ["g=g0 r=3", "g=g1 r=4", "g=g2 r=5"]
        );
        assert_eq!(reduced("QUANTILE", &["@m", "0.9"])[2], "g=g2 r=16.5");
        assert_eq!(reduced("STDDEV", &["@m"])[1], "g=g1 r=6.87386354243");
        assert_eq!(reduced("COUNT_DISTINCT", &["@n"])[0], "g=g0 r=4");
        assert_eq!(reduced("FIRST_VALUE", &["@n", "BY", "@n", "DESC"])[0], "g=g0 r=9");
        assert_eq!(reduced("TOLIST", &["@m"])[0], "g=g0 r=4.5,9,13.5");
    }

    /// Estimates of groups add up to one of all.
    #[test]
    fn estimates_of_groups_are_merged() {
        let estimates = Step::GroupBy {
            properties: vec!["g".to_owned()],
            reducers: vec![(Reducer::parse("HLL", &["@n"]).unwrap(), "estimate".to_owned())],
        };
        let sum = Step::GroupBy {
            properties: vec![],
            reducers: vec![(Reducer::parse("hll_sum", &["@estimate"]).unwrap(), "r".to_owned())],
        };
        let shown_records = shown(ran(&[estimates, sum], records()).unwrap());
        assert_eq!(shown_records, ["r=12"]);
        assert_eq!(reduced("HLL_SUM", &["@n"])[0], "g=g0 r=0");
        let missing = Reducer::parse("HLL", &[]).unwrap_err().to_string();
        assert_eq!(missing, "Missing arguments for HLL");
    }

    #[test]
    fn without_numbers_there_is_no_minimum_and_no_sum() {
        for (name, arguments, answer) in [
            ("SUM", &["@z"][..], "nan"),
            ("AVG", &["@z"], "nan"),
            ("QUANTILE", &["@z", "0.5"], "nan"),
            ("MIN", &["@z"], "inf"),
            ("MAX", &["@z"], "-inf"),
            ("STDDEV", &["@z"], "0"),
            ("RANDOM_SAMPLE", &["@z", "1"], ""),
        ] {
            assert_eq!(reduced(name, arguments)[0], format!("g=g0 r={answer}"), "{name}");
        }
    }

    #[test]
    fn a_record_is_in_the_group_of_each_value_of_a_list() {
        let list = |values: &[&str]| Value::List(values.iter().copied().map(Value::text).collect());
        let record = |a: Value, b: Value| {
            [("a".to_owned(), a), ("b".to_owned(), b)]
                .into_iter()
                .collect::<Record>()
        };
        let records = vec![
            record(list(&["x", "y"]), list(&["1", "2"])),
            record(list(&["y", "y"]), list(&["2"])),
            record(list(&[]), Value::text("1")),
        ];
        let steps = [Step::GroupBy {
            properties: vec!["a".into(), "b".into()],
            reducers: vec![(Reducer::Count, "c".into())],
        }];
        let groups = shown(ran(&steps, records).unwrap());
        let expected = ["a= b=1 c=1", "a=x b=1 c=1", "a=x b=2 c=1", "a=y b=1 c=1", "a=y b=2 c=3"];
        assert_eq!(groups, expected);
        let long = Value::List((0..2000).map(|number| Value::Number(f64::from(number))).collect());
        let refused = ran(&steps, vec![record(long.clone(), long)]);
        assert!(matches!(refused, Err(SearchError::Limit(_))));
    }

    #[test]
    fn missing_values_are_a_group_and_are_last() {
        let properties = vec!["m".to_owned()];
        let count = (Reducer::parse("COUNT", &[]).unwrap(), "c".to_owned());
        let steps = [Step::GroupBy {
            properties,
            reducers: vec![count],
        }];
        let groups = ran(&steps, records()).unwrap();
        assert_eq!(groups.len(), 10);
        for ascends in [true, false] {
            let keys = vec![("m".to_owned(), ascends)];
            let sorted = shown(ran(&[Step::SortBy { keys, max: None }], records()).unwrap());
            assert_eq!(sorted.len(), 10);
            assert_eq!(sorted[9], "n=0 g=g0");
        }
    }

    #[test]
    fn steps_follow_each_other() {
        let expression = |text: &str| Expression::parse(text.as_bytes()).unwrap();
        let steps = [
            Step::Apply {
                expression: expression("@n*2"),
                name: "d".into(),
            },
            Step::Filter(expression("@d>15")),
            Step::SortBy {
                keys: vec![("d".into(), false)],
                max: None,
            },
            Step::Limit { offset: 1, count: 2 },
        ];
        assert_eq!(wanted(&steps, &|used| used.name == "n").unwrap(), ["n"]);
        let shown_records = shown(ran(&steps, records()).unwrap());
        assert_eq!(shown_records, ["n=10 g=g1 m=15 d=20", "n=9 g=g0 m=13.5 d=18"]);
    }

    #[test]
    fn a_property_that_nothing_gives_is_refused() {
        let filter = Step::Filter(Expression::parse(b"@zz > 1").unwrap());
        let refused = wanted(&[filter], &|_| false).unwrap_err();
        assert_eq!(refused.to_string(), "Property `zz` not loaded nor in pipeline");
        let group = Step::GroupBy {
            properties: vec!["g".into()],
            reducers: vec![],
        };
        let behind = Step::SortBy {
            keys: vec![("n".into(), true)],
            max: None,
        };
        assert!(wanted(&[group, behind], &|_| true).is_err());
    }

    #[test]
    fn a_missing_value_in_an_expression_is_an_error() {
        let filter = Step::Filter(Expression::parse(b"@m > 9").unwrap());
        let refused = ran(&[filter], records()).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "m: has no value, consider using EXISTS if applicable"
        );
        let filter = Step::Filter(Expression::parse(b"exists(@m)").unwrap());
        assert_eq!(ran(&[filter], records()).unwrap().len(), 9);
    }
}
