//! TS.GET, MGET, RANGE, REVRANGE, MRANGE, MREVRANGE, NRANGE, NREVRANGE, QUERYINDEX and QUERYLABELS.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use quartet_layer_redis::module_api::definition::*;
use quartet_layer_redis::module_api::{Context, ELEMENT_BYTES, parse};
use quartet_wire_resp::{Arguments, Protocol};

use super::definition::labels_of;
use super::filters::{Filters, each_label};
use super::groups::SERIES;
use super::reading::{self, Values};
use super::replies::{self, FurtherParts, ShownLabels};
use super::requests::*;
use super::series::Series;
use crate::aggregation::{Accumulator, Aggregator};
use crate::codec::Sample;

const RANGE: &str = "O(N) in the number of samples of the range";
const RANGES: &str = "O(N) in the number of samples of the ranges of all series";
const COUNTED: Keys = Keys::Counted { count: 1, also: 0 };

/// Each command checks the number of its arguments itself, and COMMAND INFO shows -1.
const FAMILY: Family = Family::of(SERIES).complexity(RANGES);

#[rustfmt::skip]
pub const COMMANDS: &[Definition] = &[
    FAMILY.row("ts.get", -1, READONLY, "Returns the last sample.", Answers(get)).keys(ONE_KEY).complexity("O(1)"),
    FAMILY.row("ts.mget", -1, READONLY, "Returns the last sample of each series that passes filters.", Answers(get_many)).complexity("O(N) in the number of series"),
    FAMILY.row("ts.range", -1, READONLY, "Returns the samples of a range.", Answers(range)).keys(ONE_KEY).complexity(RANGE),
    FAMILY.row("ts.revrange", -1, READONLY, "Returns the samples of a range, the last first.", Answers(reverse_range)).keys(ONE_KEY).since("1.4.0").complexity(RANGE),
    FAMILY.row("ts.mrange", -1, READONLY, "Returns the samples of a range of each series that passes filters.", Answers(ranges)),
    FAMILY.row("ts.mrevrange", -1, READONLY, "Returns the samples of a range of each series that passes filters, the last first.", Answers(reverse_ranges)).since("1.4.0"),
    FAMILY.row("ts.nrange", -1, READONLY, "Returns the samples of a range of several series, by their timestamps.", Answers(joined_range)).keys(COUNTED).since("8.10.0"),
    FAMILY.row("ts.nrevrange", -1, READONLY, "Returns the samples of a range of several series, by their timestamps, the last first.", Answers(joined_reverse_range)).keys(COUNTED).since("8.10.0"),
    FAMILY.row("ts.queryindex", -1, READONLY, "Returns the series that pass filters.", Answers(index)).complexity("O(N) in the number of series"),
    FAMILY.row("ts.querylabels", -1, READONLY, "Returns the names or values of labels.", Answers(label_texts)).since("8.10.0").complexity("O(N) in the number of series"),
];

const SELECTED_MAX: usize = 50;
/// Words that end a list of labels.
const WORDS: [&str; 10] = [
    "WITHLABELS",
    "AGGREGATION",
    "LIMIT",
    "GROUPBY",
    "REDUCE",
    "FILTER",
    "FILTER_BY_VALUE",
    "FILTER_BY_TS",
    "COUNT",
    "EXCLUDEEMPTY",
];

fn get(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_arity(arguments, matches!(arguments.len(), 2 | 3))?;
    let series = Series::read(context, &arguments[1])?;
    let takes_latest = match arguments.get(2) {
        None => false,
        Some(word) if parse::is(word, "LATEST") => true,
        Some(_) => return Err("ERR TSDB: wrong 3rd argument".into()),
    };
    replies::last_sample(context, &series, takes_latest);
    Ok(())
}

fn range(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    range_of(context, arguments, false)
}

fn reverse_range(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    range_of(context, arguments, true)
}

fn range_of(context: &mut Context<'_, '_>, arguments: Arguments<'_>, is_reverse: bool) -> Result<(), ErrorReply> {
    check_arity(arguments, arguments.len() >= 4)?;
    let series = Series::read(context, &arguments[1])?;
    let query = Query::read(arguments, 2)?;
    replies::samples(context, &series, &query, is_reverse)
}

/// Reads which labels are shown.
fn shown_labels(arguments: Arguments<'_>) -> Result<ShownLabels, ErrorReply> {
    let shows_all = position(arguments, 1, "WITHLABELS").is_some();
    let Some(at) = position(arguments, 1, "SELECTED_LABELS") else {
        return Ok(if shows_all { ShownLabels::All } else { ShownLabels::None });
    };
    if shows_all {
        return Err("ERR TSDB: cannot accept WITHLABELS and SELECT_LABELS together".into());
    }
    let labels = (at + 1..arguments.len()).map(|at| &arguments[at]);
    let labels = labels.take_while(|label| !WORDS.iter().any(|word| parse::is(label, word)));
    let labels: Vec<Vec<u8>> = labels.map(<[u8]>::to_vec).collect();
    match labels.len() {
        0 => Err("ERR TSDB: SELECT_LABELS should have at least 1 parameter".into()),
        count if count > SELECTED_MAX => Err("ERR TSDB: reached max size for SELECT_LABELS".into()),
        _ => Ok(ShownLabels::Selected(labels)),
    }
}

fn get_many(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_arity(arguments, arguments.len() >= 3)?;
    let takes_latest = position(arguments, 1, "LATEST").is_some();
    let at = position(arguments, 1, "FILTER").ok_or_else(|| wrong_arity(arguments))?;
    let label_choice = shown_labels(arguments)?;
    let filters = Filters::read(arguments, at + 1, arguments.len())?;
    let all = filters.series(context)?;
    replies::pairs(&mut context.reply, all.len());
    for series in &all {
        context.note_use(&series.name);
        let parts = FurtherParts {
            in_resp2: 1,
            in_resp3: 1,
        };
        replies::head(&mut context.reply, series, &label_choice, parts);
        replies::last_sample(context, series, takes_latest);
    }
    Ok(())
}

fn index(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_arity(arguments, arguments.len() >= 2)?;
    let filters = Filters::read(arguments, 1, arguments.len())?;
    let all = filters.series(context)?;
    context.reply.set(all.len());
    all.iter().for_each(|series| context.reply.bulk(&series.name));
    Ok(())
}

fn label_texts(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_arity(arguments, arguments.len() >= 2)?;
    let (label, at) = match () {
        () if parse::is(&arguments[1], "LABELS") => (None, 2),
        () if parse::is(&arguments[1], "VALUES") => {
            let label = arguments.get(2).ok_or_else(|| wrong_arity(arguments))?;
            (Some(label), 3)
        }
        () => return Err("ERR TSDB: unknown subtype, must be one of LABELS|VALUES".into()),
    };
    let filters = match arguments.get(at) {
        None => None,
        Some(word) if !parse::is(word, "FILTER") => {
            return Err("ERR TSDB: unknown argument, expected FILTER".into());
        }
        Some(_) if arguments.len() == at + 1 => {
            return Err("ERR TSDB: FILTER given with no filter expressions".into());
        }
        Some(_) => Some(Filters::read(arguments, at + 1, arguments.len())?),
    };
    let texts = each_label(context, label, filters.as_ref())?;
    context.reply.set(texts.len());
    texts.iter().for_each(|text| context.reply.bulk(text));
    Ok(())
}

fn ranges(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    ranges_of(context, arguments, false)
}

fn reverse_ranges(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    ranges_of(context, arguments, true)
}

/// The groups of a query of many series.
struct Grouping<'a> {
    label: &'a [u8],
    reducer: Aggregator,
}

fn ranges_of(context: &mut Context<'_, '_>, arguments: Arguments<'_>, is_reverse: bool) -> Result<(), ErrorReply> {
    check_arity(arguments, arguments.len() >= 4)?;
    let query = Query::read(arguments, 1)?;
    let filter_at = position(arguments, 1, "FILTER").ok_or("ERR TSDB: missing FILTER argument")?;
    let label_choice = shown_labels(arguments)?;
    let group_at = position(arguments, 1, "GROUPBY");
    if group_at.is_some_and(|at| at < filter_at) {
        return Err("ERR TSDB: GROUPBY should always come after filter".into());
    }
    let excluded_at = position(arguments, 1, "EXCLUDEEMPTY");
    let excludes_empty = excluded_at.is_some_and(|at| group_at.is_none_or(|group_at| at != group_at + 1));
    let ends = [group_at, excluded_at.filter(|at| excludes_empty && *at > filter_at)];
    let filters_end = ends.into_iter().flatten().min().unwrap_or(arguments.len());
    if filters_end == filter_at + 1 {
        return Err("ERR TSDB: missing labels for filter argument".into());
    }
    let filters = Filters::read(arguments, filter_at + 1, filters_end)?;
    if excludes_empty && group_at.is_some() {
        return Err("ERR TSDB: EXCLUDEEMPTY is not allowed with GROUPBY".into());
    }
    let grouping = match group_at {
        Some(at) => Some(grouping(arguments, at, &query)?),
        None => None,
    };
    let all = filters.series(context)?;
    for series in &all {
        context.note_use(&series.name);
    }
    let ranges = Ranges {
        all: &all,
        query: &query,
        label_choice: &label_choice,
        is_reverse,
    };
    match grouping {
        Some(grouping) => grouped(context, &ranges, &grouping),
        None => each_range(context, &ranges, excludes_empty),
    }
}

fn grouping<'a>(arguments: Arguments<'a>, at: usize, query: &Query) -> Result<Grouping<'a>, ErrorReply> {
    let label = arguments.get(at + 1).ok_or_else(|| wrong_arity(arguments))?;
    let reduce_at = position(arguments, 1, "REDUCE");
    let reduce_at = reduce_at.filter(|_| arguments.len() - at == 4);
    let name = reduce_at
        .and_then(|at| arguments.get(at + 1))
        .ok_or_else(|| wrong_arity(arguments))?;
    let reducer = Aggregator::named(name);
    let no_reducer = [Aggregator::First, Aggregator::Last, Aggregator::OverTime];
    let reducer = reducer.filter(|reducer| !no_reducer.contains(reducer));
    let reducer = reducer.ok_or("ERR TSDB: Invalid reducer type")?;
    if query
        .aggregation
        .as_ref()
        .is_some_and(|aggregation| aggregation.aggregators.len() > 1)
    {
        return Err("ERR TSDB: GROUPBY is not allowed when multiple aggregators are specified".into());
    }
    Ok(Grouping { label, reducer })
}

/// A range of each of several series.
struct Ranges<'r> {
    all: &'r [Series],
    query: &'r Query,
    label_choice: &'r ShownLabels,
    is_reverse: bool,
}

fn each_range(context: &mut Context<'_, '_>, ranges: &Ranges<'_>, excludes_empty: bool) -> Result<(), ErrorReply> {
    let mark = context.reply.mark();
    let mut count = 0;
    for series in ranges.all {
        let entry = context.reply.mark();
        let parts = FurtherParts {
            in_resp2: 1,
            in_resp3: 2,
        };
        replies::head(&mut context.reply, series, ranges.label_choice, parts);
        if context.reply.protocol() == Protocol::Resp3 {
            let aggregators = ranges
                .query
                .aggregation
                .as_ref()
                .map_or(&[][..], |aggregation| &aggregation.aggregators);
            let names = aggregators.iter().map(|aggregator| aggregator.name().as_bytes());
            replies::named_list(&mut context.reply, "aggregators", names);
        }
        let samples = context.reply.mark();
        replies::samples(context, series, ranges.query, ranges.is_reverse)?;
        if excludes_empty && context.reply.since(samples) == b"*0\r\n" {
            context.reply.take_back(entry);
            continue;
        }
        count += 1;
        if context.reply.is_full() {
            break;
        }
    }
    replies::entries_since(&mut context.reply, mark, count);
    Ok(())
}

/// Writes one series for each value of a label: the numbers of a timestamp, reduced to one.
fn grouped(context: &mut Context<'_, '_>, ranges: &Ranges<'_>, grouping: &Grouping<'_>) -> Result<(), ErrorReply> {
    let Ranges {
        all,
        query,
        label_choice,
        is_reverse,
    } = *ranges;
    let mut groups: BTreeMap<Vec<u8>, Vec<&Series>> = BTreeMap::new();
    for series in all {
        let labels = labels_of(&series.entry);
        let own = labels.iter().find(|(label, _)| *label == grouping.label);
        if let Some((_, value)) = own {
            groups.entry(value.to_vec()).or_default().push(series);
        }
    }
    replies::pairs(&mut context.reply, groups.len());
    for (value, members) in groups {
        group_head(context, grouping, &value, &members, label_choice);
        let reduced = reduced(context, &members, query, grouping.reducer)?;
        let count = query
            .count
            .map_or(reduced.len(), |count| reduced.len().min(count as usize));
        context.reply.array(count);
        let write = |(timestamp, accumulator): (&u64, &Accumulator)| {
            let value = if accumulator.is_empty {
                f64::NAN
            } else {
                accumulator.result()
            };
            replies::sample(&mut context.reply, *timestamp, &[value]);
        };
        match is_reverse {
            true => reduced.iter().rev().take(count).for_each(write),
            false => reduced.iter().take(count).for_each(write),
        }
    }
    Ok(())
}

fn group_head(
    context: &mut Context<'_, '_>,
    grouping: &Grouping<'_>,
    value: &[u8],
    members: &[&Series],
    label_choice: &ShownLabels,
) {
    let reply = &mut context.reply;
    let names: Vec<&[u8]> = members.iter().map(|series| series.name.as_slice()).collect();
    let sources = names.join(b",".as_slice());
    let reducer = grouping.reducer.name().as_bytes();
    let labels: [(&[u8], &[u8]); 3] = [
        (grouping.label, value),
        (b"__reducer__", reducer),
        (b"__source__", &sources),
    ];
    let name = [grouping.label, value].join(b"=".as_slice());
    let is_map = reply.protocol() == Protocol::Resp3;
    if !is_map {
        reply.array(3);
    }
    reply.bulk(&name);
    if is_map {
        reply.array(4);
    }
    let all = match (label_choice, is_map) {
        (ShownLabels::All, true) => &labels[..1],
        _ => &labels[..],
    };
    replies::labels(reply, all, label_choice);
    if is_map {
        replies::named_list(reply, "reducers", [reducer].into_iter());
        replies::named_list(reply, "sources", names.into_iter());
    }
}

/// The numbers of each timestamp of several series, gathered.
fn reduced(
    context: &mut Context<'_, '_>,
    members: &[&Series],
    query: &Query,
    reducer: Aggregator,
) -> Result<BTreeMap<u64, Accumulator>, ErrorReply> {
    let groups = context.groups;
    let mut workspace = context.workspace();
    let mut reduced: BTreeMap<u64, Accumulator> = BTreeMap::new();
    let each = Query {
        count: None,
        ..query.clone()
    };
    for series in members {
        let mut refused = None;
        reading::run(
            &mut context.keys(),
            groups,
            series,
            &each,
            false,
            &mut |timestamp, values| {
                if !reduced.contains_key(&timestamp)
                    && let Err(error) = workspace.take(size_of::<(u64, Accumulator)>() * 2)
                {
                    refused = Some(error);
                    return ControlFlow::Break(());
                }
                let accumulator = reduced.entry(timestamp).or_insert_with(|| Accumulator::new(reducer));
                let value = values[0];
                accumulator.add(Sample { timestamp, value });
                ControlFlow::Continue(())
            },
        )?;
        if let Some(error) = refused {
            return Err(error);
        }
    }
    Ok(reduced)
}

fn joined_range(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    joined(context, arguments, false)
}

fn joined_reverse_range(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    joined(context, arguments, true)
}

/// The queries of several series that differ in their aggregators.
fn joined_queries(arguments: Arguments<'_>, at: usize, count: usize) -> Result<Vec<Query>, ErrorReply> {
    const UNEQUAL: &str = "ERR TSDB: the number of AGGREGATION arguments must be equal to numkeys";
    let aggregation_at = position(arguments, at, "AGGREGATION").filter(|_| count > 1);
    let Some(aggregation_at) = aggregation_at else {
        return Ok(vec![Query::read(arguments, at)?; count]);
    };
    let first = aggregation_at + 1;
    let mut lists = Vec::with_capacity(count);
    for at in first..first + count {
        let list = arguments.get(at).filter(|list| parse::integer(list).is_none());
        lists.push(aggregators(list.ok_or(UNEQUAL)?)?);
    }
    if arguments
        .get(first + count)
        .is_some_and(|word| Aggregator::named(word).is_some())
    {
        return Err(UNEQUAL.into());
    }
    let query = Query::read_of_lists(arguments, at, count)?;
    let queries = lists.into_iter().map(|aggregators| {
        let mut query = query.clone();
        if let Some(aggregation) = &mut query.aggregation {
            aggregation.aggregators = aggregators;
        }
        query
    });
    Ok(queries.collect())
}

fn joined(context: &mut Context<'_, '_>, arguments: Arguments<'_>, is_reverse: bool) -> Result<(), ErrorReply> {
    check_arity(arguments, arguments.len() >= 5)?;
    let count = parse::integer(&arguments[1]).and_then(|count| usize::try_from(count).ok());
    let count = count.filter(|count| *count > 0);
    let count = count.ok_or("ERR TSDB: numkeys must be a positive integer")?;
    check_arity(arguments, count <= arguments.len() - 4)?;
    let queries = joined_queries(arguments, 2 + count, count)?;
    let mut all = Vec::with_capacity(count);
    for at in 2..2 + count {
        all.push(Series::read(context, &arguments[at])?);
    }
    let widths = queries.iter().map(|query| {
        let aggregation = query.aggregation.as_ref();
        aggregation.map_or(1, |aggregation| aggregation.aggregators.len())
    });
    let starts: Vec<usize> = widths
        .scan(0, |end, width| {
            let start = *end;
            *end += width;
            Some(start)
        })
        .collect();
    let last_width = queries[count - 1].aggregation.as_ref();
    let width = starts[count - 1] + last_width.map_or(1, |aggregation| aggregation.aggregators.len());
    let groups = context.groups;
    let mut workspace = context.workspace();
    let mut rows: BTreeMap<u64, Values> = BTreeMap::new();
    let limit = queries[0].count;
    for ((series, query), start) in all.iter().zip(&queries).zip(&starts) {
        let mut refused = None;
        reading::run(
            &mut context.keys(),
            groups,
            series,
            query,
            is_reverse,
            &mut |timestamp, values| {
                if !rows.contains_key(&timestamp)
                    && let Err(error) = workspace.take(ELEMENT_BYTES + width * size_of::<f64>())
                {
                    refused = Some(error);
                    return ControlFlow::Break(());
                }
                let row = rows
                    .entry(timestamp)
                    .or_insert_with(|| Values::from_elem(f64::NAN, width));
                row[*start..start + values.len()].copy_from_slice(values);
                ControlFlow::Continue(())
            },
        )?;
        if let Some(error) = refused {
            return Err(error);
        }
    }
    let row_count = limit.map_or(rows.len(), |limit| rows.len().min(limit as usize));
    context.reply.array(row_count);
    let write = |(timestamp, values): (&u64, &Values)| {
        let reply = &mut context.reply;
        reply.array(2);
        reply.integer(*timestamp as i64);
        reply.array(values.len());
        values.iter().for_each(|value| replies::value(reply, *value));
    };
    match is_reverse {
        true => rows.iter().rev().take(row_count).for_each(write),
        false => rows.iter().take(row_count).for_each(write),
    }
    Ok(())
}
