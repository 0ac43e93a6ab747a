//! Unions, intersections and differences of sorted sets and sets.

use std::collections::HashMap;

use quartet_wire_resp::Arguments;

use super::range::{write_head, write_pair};
use super::value::{self, SortedSet, order_of};
use crate::command::error_reply::ErrorReply;
use crate::command::repetition::Repetition;
use crate::commands::sets;
use crate::handler::context::Context;
use crate::keyspace::{Entry, Keyspace, Kind};
use crate::{command::errors, command::parse};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Union,
    Intersection,
    Difference,
}

impl Operation {
    /// How many members it looks at or looks up.
    /// The keys all of whose members are gathered.
    fn walked(self, inputs: &[Input]) -> Vec<Entry> {
        let chosen: Vec<&Input> = match self {
            Operation::Union => inputs.iter().collect(),
            Operation::Intersection => inputs.iter().min_by_key(|input| input.len()).into_iter().collect(),
            Operation::Difference => inputs.iter().take(1).collect(),
        };
        chosen.into_iter().filter_map(Input::entry).cloned().collect()
    }

    fn lookups(self, inputs: &[Input]) -> u64 {
        let lens = inputs.iter().map(Input::len);
        let walked = match self {
            Operation::Union => return lens.sum(),
            Operation::Intersection => lens.min(),
            Operation::Difference => lens.take(1).next(),
        };
        walked.unwrap_or(0).saturating_mul(inputs.len() as u64)
    }
}

/// The combination of the scores that a member has in several inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aggregate {
    Sum,
    Min,
    Max,
}

/// The use of the result; it decides which options are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Answer,
    Store,
    Count,
}

struct Options {
    aggregate: Aggregate,
    with_scores: bool,
    /// 0: none.
    limit: u64,
}

/// One key that is combined.
struct Input {
    members: Members,
    weight: f64,
}

enum Members {
    Absent,
    Sorted(SortedSet),
    /// A plain set, every score 1.
    Plain(Entry),
}

type Pairs = Vec<(Vec<u8>, f64)>;

pub fn zunion(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    answer(context, arguments, Operation::Union)
}

pub fn zinter(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    answer(context, arguments, Operation::Intersection)
}

pub fn zdiff(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    answer(context, arguments, Operation::Difference)
}

pub fn zunionstore(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    store(context, arguments, Operation::Union)
}

pub fn zinterstore(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    store(context, arguments, Operation::Intersection)
}

pub fn zdiffstore(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    store(context, arguments, Operation::Difference)
}

fn answer(context: &mut Context<'_, '_>, arguments: Arguments<'_>, operation: Operation) -> Result<(), ErrorReply> {
    let (inputs, options) = inputs(context, arguments, 1, operation, Purpose::Answer)?;
    if context.must_end_before(operation.lookups(&inputs)) {
        return Ok(());
    }
    let mut workspace = context.workspace();
    context.takes_elements(&mut workspace, &operation.walked(&inputs))?;
    let pairs = combine(&mut context.keys(), inputs, operation, &options);
    let reply = &mut context.reply;
    write_head(reply, pairs.len(), options.with_scores);
    for (member, score) in &pairs {
        write_pair(reply, member, *score, options.with_scores);
    }
    Ok(())
}

fn store(context: &mut Context<'_, '_>, arguments: Arguments<'_>, operation: Operation) -> Result<(), ErrorReply> {
    let (inputs, options) = inputs(context, arguments, 2, operation, Purpose::Store)?;
    if context.must_end_before(operation.lookups(&inputs)) {
        return Ok(());
    }
    let mut workspace = context.workspace();
    context.takes_elements(&mut workspace, &operation.walked(&inputs))?;
    let pairs = combine(&mut context.keys(), inputs, operation, &options);
    let config = context.config();
    value::replace(&mut context.keys(), config, &arguments[1], &pairs);
    context.reply.integer(pairs.len() as i64);
    Ok(())
}

pub fn zintercard(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let (inputs, options) = inputs(context, arguments, 1, Operation::Intersection, Purpose::Count)?;
    let count = match options.limit {
        0 => u64::MAX,
        limit => limit,
    };
    let groups = context.groups;
    let must_end = |looked_up| groups.must_end_before(looked_up);
    let keys = &mut context.keys();
    let count = intersection(keys, inputs, Aggregate::Sum, count, &must_end, &mut |_| ());
    context.reply.integer(count as i64);
    Ok(())
}

/// Parses the keys and the options, from the number of keys on, which is at `position`. Keys are
/// checked before the options, as in Redis.
fn inputs(
    context: &mut Context<'_, '_>,
    arguments: Arguments<'_>,
    position: usize,
    operation: Operation,
    purpose: Purpose,
) -> Result<(Vec<Input>, Options), ErrorReply> {
    let announced = parse::required_integer(&arguments[position])?;
    if announced < 1 {
        let command = String::from_utf8_lossy(&arguments[0]).to_ascii_lowercase();
        return Err(format!("ERR at least 1 input key is needed for '{command}' command").into());
    }
    if announced > (arguments.len() - position - 1) as i64 {
        return Err(errors::SYNTAX.into());
    }
    let key_count = announced as usize;
    let mut inputs = Vec::with_capacity(key_count);
    let mut repetition = Repetition::default();
    for name in arguments.iter().skip(position + 1).take(key_count) {
        let members = open(context, name)?;
        let input = Input { members, weight: 1.0 };
        repetition.add(name, input.len())?;
        inputs.push(input);
    }
    let options = options(
        arguments.tail(position + 1 + key_count),
        operation,
        purpose,
        &mut inputs,
    )?;
    Ok((inputs, options))
}

fn open(context: &mut Context<'_, '_>, name: &[u8]) -> Result<Members, ErrorReply> {
    match context.read(name) {
        None => Ok(Members::Absent),
        Some(entry) if entry.kind == Kind::SortedSet => Ok(Members::Sorted(SortedSet::of(entry))),
        Some(entry) if entry.kind == Kind::Set => Ok(Members::Plain(entry)),
        Some(_) => Err(errors::WRONG_TYPE.into()),
    }
}

fn options(
    arguments: Arguments<'_>,
    operation: Operation,
    purpose: Purpose,
    inputs: &mut [Input],
) -> Result<Options, ErrorReply> {
    let mut options = Options {
        aggregate: Aggregate::Sum,
        with_scores: false,
        limit: 0,
    };
    let has_scores = operation != Operation::Difference && purpose != Purpose::Count;
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let remaining = words.len();
        if has_scores && remaining >= inputs.len() && parse::is(word, "weights") {
            for (input, text) in inputs.iter_mut().zip(&mut words) {
                input.weight = parse::float(text).ok_or("ERR weight value is not a float")?;
            }
        } else if has_scores && remaining >= 1 && parse::is(word, "aggregate") {
            options.aggregate = aggregate(words.next().unwrap_or_default())?;
        } else if purpose == Purpose::Answer && parse::is(word, "withscores") {
            options.with_scores = true;
        } else if purpose == Purpose::Count && remaining >= 1 && parse::is(word, "limit") {
            options.limit = limit(words.next().unwrap_or_default())?;
        } else {
            return Err(errors::SYNTAX.into());
        }
    }
    Ok(options)
}

fn aggregate(word: &[u8]) -> Result<Aggregate, ErrorReply> {
    match word {
        word if parse::is(word, "sum") => Ok(Aggregate::Sum),
        word if parse::is(word, "min") => Ok(Aggregate::Min),
        word if parse::is(word, "max") => Ok(Aggregate::Max),
        _ => Err(errors::SYNTAX.into()),
    }
}

fn limit(text: &[u8]) -> Result<u64, ErrorReply> {
    parse::integer(text)
        .and_then(|limit| u64::try_from(limit).ok())
        .ok_or(ErrorReply::new("ERR LIMIT can't be negative"))
}

impl Input {
    fn entry(&self) -> Option<&Entry> {
        match &self.members {
            Members::Absent => None,
            Members::Sorted(set) => Some(set.entry()),
            Members::Plain(entry) => Some(entry),
        }
    }

    fn len(&self) -> u64 {
        match &self.members {
            Members::Absent => 0,
            Members::Sorted(set) => set.len(),
            Members::Plain(entry) => sets::len(entry),
        }
    }

    fn score(&self, keys: &mut Keyspace<'_, '_>, member: &[u8]) -> Option<f64> {
        match &self.members {
            Members::Absent => None,
            Members::Sorted(set) => set.score(keys.tx, member),
            Members::Plain(entry) => sets::contains(keys, entry, member).then_some(1.0),
        }
    }

    fn pairs(&self, keys: &mut Keyspace<'_, '_>) -> Pairs {
        let mut pairs = Vec::with_capacity(self.len() as usize);
        match &self.members {
            Members::Absent => {}
            Members::Sorted(set) => set.visit(keys.tx, 0..set.len(), false, &mut |member, score| {
                pairs.push((member.to_vec(), score));
            }),
            Members::Plain(entry) => sets::each(keys, entry, &mut |member| pairs.push((member.to_vec(), 1.0))),
        }
        pairs
    }

    /// One page of the pairs from `place` on, the first being 0, and the place of the next page.
    fn page(&self, keys: &mut Keyspace<'_, '_>, place: u64) -> (Pairs, Option<u64>) {
        let mut pairs = Vec::new();
        let next = match &self.members {
            Members::Absent => None,
            Members::Sorted(set) => {
                let end = place.saturating_add(sets::PAGE).min(set.len());
                set.visit(keys.tx, place..end, false, &mut |member, score| {
                    pairs.push((member.to_vec(), score));
                });
                (end < set.len()).then_some(end)
            }
            Members::Plain(entry) => {
                let next = sets::page(keys, entry, place, sets::PAGE, &mut |member| {
                    pairs.push((member.to_vec(), 1.0))
                });
                (next > 0).then_some(next)
            }
        };
        (pairs, next)
    }

    /// Infinity times nothing is nothing.
    fn weighted(&self, score: f64) -> f64 {
        let weighted = score * self.weight;
        if weighted.is_nan() { 0.0 } else { weighted }
    }
}

impl Aggregate {
    /// Infinities that cancel out give zero. The least or greatest of a number and of no number is
    /// the number.
    fn of(self, a: f64, b: f64) -> f64 {
        match self {
            Aggregate::Sum if (a + b).is_nan() => 0.0,
            Aggregate::Sum => a + b,
            Aggregate::Min => a.min(b),
            Aggregate::Max => a.max(b),
        }
    }
}

/// The result in a sorted set's order.
fn combine(keys: &mut Keyspace<'_, '_>, inputs: Vec<Input>, operation: Operation, options: &Options) -> Pairs {
    let mut pairs = match operation {
        Operation::Union => union(keys, inputs, options.aggregate),
        Operation::Intersection => {
            let mut pairs = Vec::new();
            let keep = &mut |pair| pairs.push(pair);
            intersection(keys, inputs, options.aggregate, u64::MAX, &|_| false, keep);
            pairs
        }
        Operation::Difference => difference(keys, &inputs),
    };
    pairs.sort_unstable_by(|(a, a_score), (b, b_score)| (order_of(*a_score), a).cmp(&(order_of(*b_score), b)));
    pairs
}

fn union(keys: &mut Keyspace<'_, '_>, mut inputs: Vec<Input>, aggregate: Aggregate) -> Pairs {
    inputs.sort_by_key(Input::len);
    let mut scores: HashMap<Vec<u8>, f64> = HashMap::new();
    for input in &inputs {
        for (member, score) in input.pairs(keys) {
            let score = input.weighted(score);
            scores
                .entry(member)
                .and_modify(|sum| *sum = aggregate.of(*sum, score))
                .or_insert(score);
        }
    }
    scores.into_iter().collect()
}

/// Walks the smallest input and looks its members up in the others, until `count_max` members are
/// passed on, or until `must_end`, given the number of lookups, returns true. Returns the number of
/// those passed on.
fn intersection(
    keys: &mut Keyspace<'_, '_>,
    mut inputs: Vec<Input>,
    aggregate: Aggregate,
    count_max: u64,
    must_end: &dyn Fn(u64) -> bool,
    visit: &mut dyn FnMut((Vec<u8>, f64)),
) -> u64 {
    inputs.sort_by_key(Input::len);
    let (smallest, larger) = inputs.split_first().expect("at least one input");
    let (mut count, mut next, mut looked_up) = (0, Some(0), 0);
    while let Some(place) = next {
        let (pairs, behind) = smallest.page(keys, place);
        looked_up += (pairs.len() * inputs.len()) as u64;
        for (member, score) in pairs {
            if count >= count_max {
                return count;
            }
            let total = larger.iter().try_fold(smallest.weighted(score), |total, other| {
                let score = other.score(keys, &member)?;
                Some(aggregate.of(total, score * other.weight))
            });
            if let Some(total) = total {
                visit((member, total));
                count += 1;
            }
        }
        next = behind.filter(|_| !must_end(looked_up));
    }
    count
}

fn difference(keys: &mut Keyspace<'_, '_>, inputs: &[Input]) -> Pairs {
    let (first, subtracted) = inputs.split_first().expect("at least one input");
    let mut pairs = first.pairs(keys);
    pairs.retain(|(member, _)| !subtracted.iter().any(|other| other.score(keys, member).is_some()));
    pairs
}
