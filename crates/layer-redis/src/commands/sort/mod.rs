//! SORT and SORT_RO: the elements of a list, set or sorted set in order, and what other keys hold
//! for them.
//!
//! Follows sort.c of Redis 7.0.15. A request has three steps: its options are parsed, the elements
//! are sorted and cut by LIMIT, and each remaining element is replied or stored, as itself or as
//! the values of the GET patterns. [`pattern`] looks up another key's value for an element,
//! [`weight`] parses a number to sort by.
//!
//! Nothing is written before every value has been read, so the destination may be the sorted key or
//! one that a pattern names.
//!
//! Where Redis leaves an order open, it is settled here: texts are compared byte by byte (Redis: by
//! the server's locale, up to the first NUL, unless the result is stored), and elements whose texts
//! of BY are equal keep their native order.

mod pattern;
#[cfg(test)]
mod tests;
mod weight;

use std::cmp::Ordering;
use std::ops::Range;

use quartet_wire_resp::Arguments;

use self::pattern::Pattern;
use crate::access::acl::selector::Selector;
use crate::commands::sorted_sets::SortedSet;
use crate::commands::{lists, sets, sorted_sets};
use crate::handler::command_memory::{GatheredList, Workspace};
use crate::handler::context::Context;
use crate::handler::definition::*;
use crate::handler::groups::Groups;
use crate::keyspace::{Entry, Keyspace, Kind};
use crate::{command::errors, command::parse};

const NO_NUMBER: &str = "ERR One or more scores can't be converted into double";

const COST: &str = "O(N+M*log(M)) where N is the number of elements and M that of those returned, O(N) without sorting";

const SORTED: Specification = Specification::new("RO access", Begin::Index(1), Find::ONE);
/// The names of these keys are computed from elements, and STORE may be at any position: clients
/// cannot extract either.
const MEANT_BY_PATTERNS: Specification = Specification::new("RO access", Begin::Unknown, Find::Unknown);
const STORED: Specification = Specification::new("OW update", Begin::Unknown, Find::Unknown);

const FAMILY: Family = Family::of(Group::Generic)
    .keys(Keys::Computed(sorted_and_stored, &[SORTED, MEANT_BY_PATTERNS, STORED]))
    .complexity(COST);

#[rustfmt::skip]
pub const COMMANDS: &[Definition] = &[
    FAMILY.row("sort", -2, WRITE | DENYOOM | DANGEROUS | ORDERED_CATEGORIES | MOVABLE_KEYS, "Sorts a list, set or sorted set, and returns or stores the result.", Answers(sort)),
    FAMILY.row("sort_ro", -2, READONLY | DANGEROUS | ORDERED_CATEGORIES | MOVABLE_KEYS | KNOWS_SIZE, "Sorts a list, set or sorted set, and returns the result.", Answers(sort_ro)).keys(Keys::Computed(only_sorted, &[SORTED, MEANT_BY_PATTERNS])).since("7.0.0"),
];

fn only_sorted(_: Arguments<'_>) -> Vec<usize> {
    vec![1]
}

/// Positions of the sorted key and of the last STORE's: the key that the command writes, also where
/// a key has the name of an option. Words that are no options are passed over, as the request may
/// yet turn out malformed.
fn sorted_and_stored(arguments: Arguments<'_>) -> Vec<usize> {
    let mut stored = None;
    let mut position = 2;
    while position < arguments.len() {
        let word = &arguments[position];
        let stores = parse::is(word, "store") && position + 1 < arguments.len();
        if stores {
            stored = Some(position + 1);
        }
        position += 1 + match () {
            () if parse::is(word, "limit") => 2,
            () if stores || parse::is(word, "by") || parse::is(word, "get") => 1,
            () => 0,
        };
    }
    let sorted = (arguments.len() > 1).then_some(1);
    sorted.into_iter().chain(stored).collect()
}

fn sort(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let options = Options::read(arguments, true)?;
    check_permission(context, &options, arguments)?;
    run(context, &arguments[1], options)
}

fn sort_ro(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let options = Options::read(arguments, false)?;
    check_permission(context, &options, arguments)?;
    run(context, &arguments[1], options)
}

/// Patterns may name any key, so a user of patterns must be allowed to read all.
fn check_permission(
    context: &Context<'_, '_>,
    options: &Options<'_>,
    arguments: Arguments<'_>,
) -> Result<(), ErrorReply> {
    let by = options.by.as_ref().is_some_and(|by| !by.is_constant());
    if !by && options.get.is_empty() {
        return Ok(());
    }
    if context.user_may(arguments, Selector::may_read_all_keys) {
        return Ok(());
    }
    let option = if by { "BY" } else { "GET" };
    Err(format!("ERR {option} option of SORT denied due to insufficient ACL permissions.").into())
}

fn run(context: &mut Context<'_, '_>, name: &[u8], options: Options<'_>) -> Result<(), ErrorReply> {
    let mut workspace = context.workspace();
    let mut gathered = context.groups.gathered_list();
    let elements = match context.read(name) {
        None => Vec::new(),
        Some(entry) => {
            let range = options.wanted(length(&entry) as usize);
            let in_order = options.leaves_order(entry.kind, context.client.is_script);
            let looked_at = match in_order {
                // A plain set is walked from its first member.
                true if entry.kind == Kind::Set => range.end,
                true => range.len(),
                false => length(&entry) as usize,
            };
            let lookups = 1 + options.get.len() as u64 + u64::from(options.by.is_some());
            if context.must_end_before((looked_at as u64).saturating_mul(lookups)) {
                return Ok(());
            }
            match in_order {
                true => in_order_of_its_own(&mut context.keys(), &entry, range, options.descending, &mut gathered)?,
                false => {
                    context.takes_elements(&mut workspace, [&entry])?;
                    let mut elements = sorted(context, &entry, &options)?;
                    elements.truncate(range.end);
                    elements.drain(..range.start);
                    elements
                }
            }
        }
    };
    check_lookups(elements.len(), options.get.len())?;
    match options.store {
        None => answer(context, &elements, &options.get),
        Some(destination) => store(context, destination, elements, &options.get)?,
    }
    Ok(())
}

/// Limits the product of patterns and elements, the number of look-ups of one request.
fn check_lookups(elements: usize, patterns: usize) -> Result<(), ErrorReply> {
    if patterns > PATTERNS_FREE && elements.saturating_mul(patterns) > LOOKUPS_MAX {
        return Err("ERR SORT asks for too many values".into());
    }
    Ok(())
}

fn answer(context: &mut Context<'_, '_>, elements: &[Vec<u8>], get: &[Pattern<'_>]) {
    context.reply.array(elements.len() * get.len().max(1));
    for element in elements {
        if get.is_empty() {
            context.reply.bulk(element);
        }
        if context.reply.is_full() {
            return;
        }
        for pattern in get {
            match pattern.value(context, element) {
                Some(value) => context.reply.bulk(&value),
                None => context.reply.null(),
            }
        }
    }
}

/// Makes the destination a list of the result, in which an absent value is the empty string. No
/// result: the key is removed.
fn store(
    context: &mut Context<'_, '_>,
    destination: &[u8],
    mut elements: Vec<Vec<u8>>,
    get: &[Pattern<'_>],
) -> Result<(), ErrorReply> {
    if !get.is_empty() {
        let mut values = Gathered::of(context.groups);
        for (element, pattern) in elements
            .iter()
            .flat_map(|element| get.iter().map(move |get| (element, get)))
        {
            let value = pattern.value(context, element).unwrap_or_default();
            values.add(value.len())?;
            values.all.push(value);
        }
        elements = values.all;
    }
    lists::store(&mut context.keys(), destination, &elements);
    context.reply.integer(elements.len() as i64);
    Ok(())
}

/// Values that patterns have found. Elements that are equal find the same long value again and
/// again.
struct Gathered<'m, T> {
    all: Vec<T>,
    bytes_left: usize,
    workspace: Workspace<'m>,
}

impl<'m, T> Gathered<'m, T> {
    fn of(groups: Groups<'m>) -> Gathered<'m, T> {
        Gathered {
            all: Vec::new(),
            bytes_left: groups.reply_bytes_max(),
            workspace: groups.workspace(),
        }
    }

    /// Adds one element of this size: an error if all together are more than one command may keep.
    fn add(&mut self, bytes: usize) -> Result<(), ErrorReply> {
        let remaining = self.bytes_left.checked_sub(bytes + size_of::<T>());
        self.bytes_left = remaining.ok_or(errors::EFFECTS_TOO_LARGE)?;
        self.workspace.take(bytes + size_of::<T>())?;
        Ok(())
    }
}

/// Up to this number of patterns, a request may look up values for any number of elements.
const PATTERNS_FREE: usize = 16;
const LOOKUPS_MAX: usize = 16 << 20;

/// The options of a request. The last of those given twice counts, but GET adds up and a BY without
/// a star stays.
struct Options<'a> {
    by: Option<Pattern<'a>>,
    /// Some BY has no star: every element would weigh the same, so they are not sorted.
    keeps_order: bool,
    descending: bool,
    alphabetical: bool,
    /// Below zero: from the first.
    offset: i64,
    /// Below zero: all.
    count: i64,
    get: Vec<Pattern<'a>>,
    store: Option<&'a [u8]>,
}

impl<'a> Options<'a> {
    fn read(arguments: Arguments<'a>, may_store: bool) -> Result<Options<'a>, ErrorReply> {
        let mut options = Options {
            by: None,
            keeps_order: false,
            descending: false,
            alphabetical: false,
            offset: 0,
            count: -1,
            get: Vec::new(),
            store: None,
        };
        let mut words = arguments.iter().skip(2);
        while let Some(word) = words.next() {
            let mut next = || words.next().ok_or(ErrorReply::new(errors::SYNTAX));
            if parse::is(word, "asc") {
                options.descending = false;
            } else if parse::is(word, "desc") {
                options.descending = true;
            } else if parse::is(word, "alpha") {
                options.alphabetical = true;
            } else if parse::is(word, "limit") {
                let (offset, count) = (next()?, next()?);
                options.offset = parse::required_integer(offset)?;
                options.count = parse::required_integer(count)?;
            } else if parse::is(word, "store") && may_store {
                options.store = Some(next()?);
            } else if parse::is(word, "by") {
                let pattern = Pattern::of(next()?);
                options.keeps_order |= pattern.is_constant();
                options.by = Some(pattern);
            } else if parse::is(word, "get") {
                options.get.push(Pattern::of(next()?));
            } else {
                return Err(errors::SYNTAX.into());
            }
        }
        Ok(options)
    }

    /// Elements are answered in the order of the key. A set has no order: its elements are sorted
    /// after all if they are stored, or shown to a script.
    fn leaves_order(&self, kind: Kind, is_script: bool) -> bool {
        let has_order = match kind {
            Kind::List | Kind::SortedSet => true,
            Kind::Set => self.store.is_none() && !is_script,
            _ => false,
        };
        self.keeps_order && has_order
    }

    /// Returns the indexes that LIMIT leaves of `count` elements.
    fn wanted(&self, length: usize) -> Range<usize> {
        let clamp = |number: i64| usize::try_from(number).unwrap_or(length).min(length);
        let start = clamp(self.offset.max(0));
        start..start + clamp(self.count).min(length - start)
    }
}

/// The number of elements to sort; zero for a value that cannot be sorted.
fn length(entry: &Entry) -> u64 {
    match entry.kind {
        Kind::List => lists::length(entry),
        Kind::Set => sets::len(entry),
        Kind::SortedSet => SortedSet::of(entry.clone()).len(),
        _ => 0,
    }
}

/// The elements of these indexes as the key has them, or turned round, at the cost of these: what
/// LIMIT leaves out is not looked at. A set is never turned round.
fn in_order_of_its_own(
    keys: &mut Keyspace<'_, '_>,
    entry: &Entry,
    range: Range<usize>,
    descending: bool,
    gathered: &mut GatheredList<'_>,
) -> Result<Vec<Vec<u8>>, ErrorReply> {
    let mut visit = |element: &[u8]| gathered.push(element);
    let length = length(entry);
    let range = range.start as u64..range.end as u64;
    let from_end = length - range.end..length - range.start;
    match entry.kind {
        Kind::List if descending => lists::range(keys, entry, from_end, &mut visit),
        Kind::List => lists::range(keys, entry, range, &mut visit),
        Kind::SortedSet => {
            let ranks = if descending { from_end } else { range };
            let set = SortedSet::of(entry.clone());
            set.visit(keys.tx, ranks, descending, &mut |member, _| visit(member));
        }
        _ => {
            let (mut cursor, mut seen) = (0, 0);
            while seen < range.end {
                let remaining = range.end - seen;
                cursor = sets::page(keys, entry, cursor, remaining, &mut |member| {
                    if range.contains(&seen) {
                        visit(member);
                    }
                    seen += 1;
                });
                if cursor == 0 {
                    break;
                }
            }
        }
    }
    let mut elements = std::mem::take(gathered.all()?);
    if entry.kind == Kind::List && descending {
        elements.reverse();
    }
    Ok(elements)
}

/// All elements in the order of the options.
fn sorted(context: &mut Context<'_, '_>, entry: &Entry, options: &Options<'_>) -> Result<Vec<Vec<u8>>, ErrorReply> {
    let keys = &mut context.keys();
    let mut elements = match entry.kind {
        Kind::List => lists::elements(keys, entry),
        Kind::Set => sets::members(keys, entry),
        Kind::SortedSet => sorted_sets::members(keys, entry),
        Kind::String | Kind::Hash | Kind::Stream | Kind::Json | Kind::Module(_) => {
            return Err(errors::WRONG_TYPE.into());
        }
    };
    let turned = |order: Ordering| if options.descending { order.reverse() } else { order };
    let by = options.by.as_ref().filter(|_| !options.keeps_order);
    if !options.alphabetical && !options.keeps_order {
        let mut weighed = weigh(context, elements, by)?;
        weighed.sort_unstable_by(|(a, left), (b, right)| turned(compare(*a, *b).then_with(|| left.cmp(right))));
        return Ok(weighed.into_iter().map(|(_, element)| element).collect());
    }
    let Some(by) = by else {
        elements.sort_unstable_by(|left, right| turned(left.cmp(right)));
        return Ok(elements);
    };
    let mut gathered = Gathered::of(context.groups);
    for element in elements {
        let text = by.value(context, &element);
        gathered.add(element.len() + text.as_ref().map_or(0, Vec::len))?;
        gathered.all.push((text, element));
    }
    let mut texts = gathered.all;
    // An absent text sorts before all others.
    texts.sort_by(|(left, _), (right, _)| turned(left.cmp(right)));
    Ok(texts.into_iter().map(|(_, element)| element).collect())
}

/// The elements with their weights: what the pattern finds for them, or themselves. An absent
/// weight is 0.
fn weigh(
    context: &mut Context<'_, '_>,
    elements: Vec<Vec<u8>>,
    by: Option<&Pattern<'_>>,
) -> Result<Vec<(f64, Vec<u8>)>, ErrorReply> {
    let mut weighed = Vec::with_capacity(elements.len());
    for element in elements {
        let weight = match by {
            None => weight::weight(&element),
            Some(by) => by
                .value(context, &element)
                .map_or(Some(0.0), |text| weight::weight(&text)),
        };
        weighed.push((weight.ok_or(NO_NUMBER)?, element));
    }
    Ok(weighed)
}

/// Compares weights, which are never NaN. Both zeros are equal.
fn compare(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).expect("a weight is a number")
}
