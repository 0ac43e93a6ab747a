//! Commands about ranges: ZRANGE and the commands it has replaced, ZCOUNT, ZREMRANGEBY.
//!
//! A range of indexes, scores or names is first turned into a range of ranks. So its length is
//! known before anything is read, the reply is written while the rows are scanned, and LIMIT skips
//! without visiting.

use std::ops::Range;

use quartet_engine::Transaction;
use quartet_wire_resp::{Arguments, Protocol, Reply};

use super::members::read;
use super::value::{self, SortedSet, order_of, pair_bound, remove_ranks, score_bound};
use crate::command::error_reply::ErrorReply;
use crate::handler::context::Context;
use crate::keyspace::{KeyBytes, Kind};
use crate::{command::errors, command::parse};

const NOT_SCORES: &str = "ERR min or max is not a float";
const NOT_NAMES: &str = "ERR min or max not valid string range item";

/// The order that a range is a range of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Rank,
    Score,
    Name,
}

/// Which pairs are meant.
enum Span<'a> {
    /// Indexes as Redis counts them: inclusive, negative from the end.
    Rank(i64, i64),
    /// Bounds in the set's order, the end excluded.
    Score(KeyBytes, KeyBytes),
    Name(NameEnd<'a>, NameEnd<'a>),
}

/// One end of a range of names.
#[derive(Clone, Copy)]
enum NameEnd<'a> {
    First,
    Last,
    Before(&'a [u8]),
    After(&'a [u8]),
}

impl NameEnd<'_> {
    fn is_below(self, member: &[u8]) -> bool {
        match self {
            NameEnd::First => true,
            NameEnd::Last => false,
            NameEnd::Before(name) => name <= member,
            NameEnd::After(name) => name < member,
        }
    }
}

/// A range command's arguments, read.
struct Request<'a> {
    span: Span<'a>,
    reverse: bool,
    offset: i64,
    /// Negative: no limit.
    limit: i64,
    with_scores: bool,
}

/// The part that the command's name has decided already.
#[derive(Clone, Copy)]
struct Form {
    by: Option<By>,
    reverse: Option<bool>,
    stores: bool,
}

const FREE: Form = Form {
    by: None,
    reverse: None,
    stores: false,
};

const fn fixed(by: By, reverse: bool) -> Form {
    Form {
        by: Some(by),
        reverse: Some(reverse),
        stores: false,
    }
}

pub fn zrange(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    answer(context, arguments, FREE)
}

pub fn zrevrange(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    answer(context, arguments, fixed(By::Rank, true))
}

pub fn zrangebyscore(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    answer(context, arguments, fixed(By::Score, false))
}

pub fn zrevrangebyscore(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    answer(context, arguments, fixed(By::Score, true))
}

pub fn zrangebylex(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    answer(context, arguments, fixed(By::Name, false))
}

pub fn zrevrangebylex(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    answer(context, arguments, fixed(By::Name, true))
}

fn answer(context: &mut Context<'_, '_>, arguments: Arguments<'_>, form: Form) -> Result<(), ErrorReply> {
    let request = request(arguments.tail(1), form)?;
    let Some(set) = read(context, &arguments[1])? else {
        context.reply.array(0);
        return Ok(());
    };
    let ranks = request.ranks(context.tx, &set);
    if context.must_end_before(ranks.end - ranks.start) {
        return Ok(());
    }
    let reply = &mut context.reply;
    write_head(reply, (ranks.end - ranks.start) as usize, request.with_scores);
    set.visit(context.tx, ranks, request.reverse, &mut |member, score| {
        write_pair(reply, member, score, request.with_scores);
    });
    Ok(())
}

pub fn zrangestore(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let request = request(arguments.tail(2), Form { stores: true, ..FREE })?;
    let mut pairs = Vec::new();
    if let Some(set) = read(context, &arguments[2])? {
        let ranks = request.ranks(context.tx, &set);
        if context.must_end_before(ranks.end - ranks.start) {
            return Ok(());
        }
        set.visit(context.tx, ranks, request.reverse, &mut |member, score| {
            pairs.push((member.to_vec(), score));
        });
    }
    let config = context.config();
    value::replace(&mut context.keys(), config, &arguments[1], &pairs);
    context.reply.integer(pairs.len() as i64);
    Ok(())
}

pub fn zcount(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    count(context, arguments, By::Score)
}

pub fn zlexcount(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    count(context, arguments, By::Name)
}

fn count(context: &mut Context<'_, '_>, arguments: Arguments<'_>, by: By) -> Result<(), ErrorReply> {
    let span = span(by, arguments.get(2), arguments.get(3))?;
    let ranks = read(context, &arguments[1])?.map_or(0..0, |set| span.ranks(context.tx, &set, false));
    context.reply.integer((ranks.end - ranks.start) as i64);
    Ok(())
}

pub fn zremrangebyrank(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    remove(context, arguments, By::Rank)
}

pub fn zremrangebyscore(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    remove(context, arguments, By::Score)
}

pub fn zremrangebylex(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    remove(context, arguments, By::Name)
}

fn remove(context: &mut Context<'_, '_>, arguments: Arguments<'_>, by: By) -> Result<(), ErrorReply> {
    let span = span(by, arguments.get(2), arguments.get(3))?;
    let (groups, config) = (context.groups, context.config());
    let mut keys = context.keys();
    let mut removed = 0;
    if let Some(entry) = keys.find_kind(&arguments[1], Kind::SortedSet)? {
        let set = SortedSet::of(entry);
        let ranks = span.ranks(keys.tx, &set, false);
        if ranks != (0..set.len()) && groups.must_end_before(ranks.end - ranks.start) {
            return Ok(());
        }
        removed = (ranks.end - ranks.start) as i64;
        remove_ranks(&mut keys, config, &arguments[1], &set, ranks);
    }
    context.reply.integer(removed);
    Ok(())
}

/// The head of an array of `count` members, or of members with their scores.
pub fn write_head(reply: &mut Reply<'_>, count: usize, with_scores: bool) {
    let flat = with_scores && reply.protocol() == Protocol::Resp2;
    reply.array(if flat { count * 2 } else { count });
}

/// An element of such an array. With its score it is an array of its own in RESP3.
pub fn write_pair(reply: &mut Reply<'_>, member: &[u8], score: f64, with_scores: bool) {
    if with_scores && reply.protocol() == Protocol::Resp3 {
        reply.array(2);
    }
    reply.bulk(member);
    if with_scores {
        reply.double(score);
    }
}

/// Reads what follows the command's name and, if it stores, its destination: key, two ends,
/// options.
fn request(arguments: Arguments<'_>, form: Form) -> Result<Request<'_>, ErrorReply> {
    let mut form = form;
    let (mut offset, mut limit, mut with_scores) = (0, -1, false);
    let mut words = arguments.iter().skip(3);
    while let Some(word) = words.next() {
        if !form.stores && parse::is(word, "withscores") {
            with_scores = true;
        } else if parse::is(word, "limit") && words.len() >= 2 {
            offset = parse::required_integer(words.next().expect("one of two words"))?;
            limit = parse::required_integer(words.next().expect("two of two words"))?;
        } else if form.reverse.is_none() && parse::is(word, "rev") {
            form.reverse = Some(true);
        } else if form.by.is_none() && parse::is(word, "bylex") {
            form.by = Some(By::Name);
        } else if form.by.is_none() && parse::is(word, "byscore") {
            form.by = Some(By::Score);
        } else {
            return Err(errors::SYNTAX.into());
        }
    }
    let (by, reverse) = (form.by.unwrap_or(By::Rank), form.reverse.unwrap_or(false));
    check_options(by, limit, with_scores)?;
    let (mut min, mut max) = (arguments.get(1), arguments.get(2));
    if reverse && by != By::Rank {
        std::mem::swap(&mut min, &mut max);
    }
    Ok(Request {
        span: span(by, min, max)?,
        reverse,
        offset,
        limit,
        with_scores,
    })
}

fn check_options(by: By, limit: i64, with_scores: bool) -> Result<(), ErrorReply> {
    if limit != -1 && by == By::Rank {
        return Err("ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX".into());
    }
    if with_scores && by == By::Name {
        return Err("ERR syntax error, WITHSCORES not supported in combination with BYLEX".into());
    }
    Ok(())
}

impl Request<'_> {
    /// The ranks to visit, counted from the lowest score even if the range is reversed.
    fn ranks(&self, tx: &mut Transaction<'_>, set: &SortedSet) -> Range<u64> {
        let ranks = self.span.ranks(tx, set, self.reverse);
        match self.span {
            Span::Rank(..) if self.reverse => set.len() - ranks.end..set.len() - ranks.start,
            Span::Rank(..) => ranks,
            _ => limited(ranks, self.reverse, self.offset, self.limit),
        }
    }
}

/// The part of the range that LIMIT leaves. A negative offset leaves nothing.
fn limited(ranks: Range<u64>, reverse: bool, offset: i64, limit: i64) -> Range<u64> {
    let length = ranks.end - ranks.start;
    let skipped = u64::try_from(offset).unwrap_or(length).min(length);
    let count = u64::try_from(limit).unwrap_or(length).min(length - skipped);
    if reverse {
        let end = ranks.end - skipped;
        end - count..end
    } else {
        let start = ranks.start + skipped;
        start..start + count
    }
}

fn span<'a>(by: By, min: Option<&'a [u8]>, max: Option<&'a [u8]>) -> Result<Span<'a>, ErrorReply> {
    let (min, max) = (min.unwrap_or_default(), max.unwrap_or_default());
    match by {
        By::Rank => Ok(Span::Rank(parse::required_integer(min)?, parse::required_integer(max)?)),
        By::Score => score_end(min, false)
            .zip(score_end(max, true))
            .map(|(min, max)| Span::Score(min, max))
            .ok_or(ErrorReply::new(NOT_SCORES)),
        By::Name => name_end(min, false)
            .zip(name_end(max, true))
            .map(|(min, max)| Span::Name(min, max))
            .ok_or(ErrorReply::new(NOT_NAMES)),
    }
}

impl Span<'_> {
    /// `reverse` is the direction in which a range of names is looked for.
    fn ranks(&self, tx: &mut Transaction<'_>, set: &SortedSet, reverse: bool) -> Range<u64> {
        let (start, end) = match self {
            Span::Rank(start, stop) => return parse::index_range(*start, *stop, set.len()),
            Span::Score(min, max) => (rank_of_score(tx, set, min), rank_of_score(tx, set, max)),
            Span::Name(min, max) if set.first_order(tx) != set.last_order(tx) => {
                return run_of_names(tx, set, *min, *max, reverse);
            }
            Span::Name(min, max) => (rank_of_name(tx, set, *min), rank_of_name(tx, set, *max)),
        };
        start..end.max(start)
    }
}

/// The ends of all scores need no look-up.
fn rank_of_score(tx: &mut Transaction<'_>, set: &SortedSet, bound: &KeyBytes) -> u64 {
    if *bound == score_bound(order_of(f64::NEG_INFINITY)) {
        0
    } else if *bound == score_bound(order_of(f64::INFINITY) + 1) {
        set.len()
    } else {
        set.rank(tx, bound)
    }
}

/// For a set whose scores differ, so that names are in no order. Redis promises nothing then; its
/// behaviour with a small set is used for all: nothing unless the set's first and last pair allow
/// something, else the pairs from the first that is past the one end of the range to the next that
/// is past the other. Takes time with the set's length.
fn run_of_names(
    tx: &mut Transaction<'_>,
    set: &SortedSet,
    min: NameEnd<'_>,
    max: NameEnd<'_>,
    reverse: bool,
) -> Range<u64> {
    let (near, far) = if reverse { (max, min) } else { (min, max) };
    let is_past = |end: NameEnd<'_>, member: &[u8]| end.is_below(member) != reverse;
    let (mut seen, mut first_fits, mut last_fits) = (0, false, false);
    let (mut start, mut end) = (None, None);
    set.visit(tx, 0..set.len(), reverse, &mut |member, _| {
        if seen == 0 {
            first_fits = !is_past(far, member);
        }
        last_fits = is_past(near, member);
        if start.is_none() && last_fits {
            start = Some(seen);
        }
        if start.is_some() && end.is_none() && is_past(far, member) {
            end = Some(seen);
        }
        seen += 1;
    });
    let Some(start) = start.filter(|_| first_fits && last_fits) else {
        return 0..0;
    };
    let end = end.unwrap_or(set.len());
    if reverse {
        set.len() - end..set.len() - start
    } else {
        start..end
    }
}

/// The place of an end in a set whose pairs all have one score.
fn rank_of_name(tx: &mut Transaction<'_>, set: &SortedSet, end: NameEnd<'_>) -> u64 {
    let (name, after) = match end {
        NameEnd::First => return 0,
        NameEnd::Last => return set.len(),
        NameEnd::Before(name) => (name, false),
        NameEnd::After(name) => (name, true),
    };
    let mut bound = pair_bound(set.first_order(tx), name);
    if after {
        bound.push(0);
    }
    set.rank(tx, &bound)
}

/// Parses a bound of the range: `5`, `(5`, `inf`.
fn score_end(text: &[u8], is_max: bool) -> Option<KeyBytes> {
    let exclusive = text.strip_prefix(b"(");
    let order = order_of(end_float(exclusive.unwrap_or(text))?);
    // Both ends are bounds below a score: an included end of the range, or an excluded start, is
    // below the next one.
    Some(score_bound(order + u64::from(is_max == exclusive.is_none())))
}

/// Looser than other floats, as in Redis: no text is zero, blanks may be in front, a NUL ends it,
/// and too large a number is infinite.
fn end_float(text: &[u8]) -> Option<f64> {
    let text = parse::before_nul(text);
    if text.is_empty() {
        return Some(0.0);
    }
    let text = text.trim_ascii_start();
    parse::float(text).or_else(|| {
        let value: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
        (!value.is_nan()).then_some(value)
    })
}

/// `-`, `+`, `[name`, `(name`.
fn name_end(text: &[u8], is_max: bool) -> Option<NameEnd<'_>> {
    match text {
        b"-" => Some(NameEnd::First),
        b"+" => Some(NameEnd::Last),
        [b'[', name @ ..] if is_max => Some(NameEnd::After(name)),
        [b'[', name @ ..] => Some(NameEnd::Before(name)),
        [b'(', name @ ..] if is_max => Some(NameEnd::Before(name)),
        [b'(', name @ ..] => Some(NameEnd::After(name)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(protocol: Protocol, with_scores: bool, expected: &str) {
        let mut out = Vec::new();
        let mut reply = Reply::new(&mut out, protocol);
        write_head(&mut reply, 1, with_scores);
        write_pair(&mut reply, b"a", 1.5, with_scores);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn pairs_nest_only_in_the_newer_protocol() {
        check(Protocol::Resp2, false, "*1\r\n$1\r\na\r\n");
        check(Protocol::Resp2, true, "*2\r\n$1\r\na\r\n$3\r\n1.5\r\n");
        check(Protocol::Resp3, false, "*1\r\n$1\r\na\r\n");
        check(Protocol::Resp3, true, "*1\r\n*2\r\n$1\r\na\r\n,1.5\r\n");
    }

    #[test]
    fn limits_cut_from_the_start_of_the_range() {
        assert_eq!(limited(2..8, false, 1, 2), 3..5);
        assert_eq!(limited(2..8, true, 1, 2), 5..7);
        assert_eq!(limited(2..8, false, -1, 2), 8..8);
        assert_eq!(limited(2..8, true, i64::MAX, i64::MAX), 2..2);
        assert_eq!(limited(2..8, false, 0, i64::MIN), 2..8);
    }
}
