//! Samples, labels and queries as replies.

use std::ops::ControlFlow;

use quartet_layer_redis::module_api::{Context, ErrorReply};
use quartet_wire_resp::{Protocol, Reply};

use super::definition::labels_of;
use super::gatherings;
use super::reading;
use super::requests::Query;
use super::series::Series;
use crate::codec::Sample;

/// The largest power of ten that is written as a whole number with zeros.
const WHOLE_MAGNITUDE_MAX: i32 = 15;

/// Writes a value: in RESP2 a line, as RedisTimeSeries writes doubles.
pub fn value(reply: &mut Reply<'_>, value: f64) {
    match reply.protocol() {
        Protocol::Resp3 => reply.double(value),
        Protocol::Resp2 => reply.simple(&text(value)),
    }
}

/// The shortest text that reads back as the value: a whole part and perhaps a fraction, or digits
/// and a power of ten for what is below one or needs more zeros.
fn text(value: f64) -> String {
    if value.is_nan() {
        return "NaN".into();
    }
    if value.is_infinite() {
        return if value > 0.0 {
            "Infinity".into()
        } else {
            "-Infinity".into()
        };
    }
    let exponential = format!("{value:E}");
    let (digits, magnitude) = exponential.split_once('E').expect("a power of ten");
    let magnitude: i32 = magnitude.parse().expect("a whole power");
    let digit_count = digits.bytes().filter(u8::is_ascii_digit).count() as i32;
    let is_plain = magnitude >= 0 && (magnitude <= WHOLE_MAGNITUDE_MAX || digit_count > magnitude);
    match is_plain || value == 0.0 {
        true => format!("{value}"),
        false => exponential,
    }
}

/// Writes a timestamp with its values.
pub fn sample(reply: &mut Reply<'_>, timestamp: u64, values: &[f64]) {
    reply.array(1 + values.len());
    reply.integer(timestamp as i64);
    values.iter().for_each(|number| value(reply, *number));
}

/// Writes the samples of a query.
pub fn samples(
    context: &mut Context<'_, '_>,
    series: &Series,
    query: &Query,
    is_reverse: bool,
) -> Result<(), ErrorReply> {
    let groups = context.groups;
    let (mut keys, reply) = context.keys_and_reply();
    let mark = reply.mark();
    let mut count = 0;
    reading::run(
        &mut keys,
        groups,
        series,
        query,
        is_reverse,
        &mut |timestamp, values| {
            sample(reply, timestamp, values);
            count += 1;
            match reply.is_full() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        },
    )?;
    reply.array_since(mark, count);
    Ok(())
}

/// Writes the last sample, or with `takes_latest` the sample of the bucket that is still gathered.
pub fn last_sample(context: &mut Context<'_, '_>, series: &Series, takes_latest: bool) {
    let latest = match takes_latest {
        true => gatherings::latest(&mut context.keys(), series),
        false => None,
    };
    match latest.or_else(|| series.last(&mut context.keys())) {
        Some(Sample { timestamp, value }) => sample(&mut context.reply, timestamp, &[value]),
        None => context.reply.array(0),
    }
}

/// Starts pairs: a map in RESP3, in RESP2 an array of pairs.
pub fn pairs(reply: &mut Reply<'_>, count: usize) {
    match reply.protocol() {
        Protocol::Resp3 => reply.map(count),
        Protocol::Resp2 => reply.array(count),
    }
}

/// Starts pairs that were written since a mark.
pub fn entries_since(reply: &mut Reply<'_>, mark: usize, count: usize) {
    match reply.protocol() {
        Protocol::Resp3 => reply.map_since(mark, count),
        Protocol::Resp2 => reply.array_since(mark, count),
    }
}

/// Starts one of them.
pub fn pair(reply: &mut Reply<'_>) {
    if reply.protocol() == Protocol::Resp2 {
        reply.array(2);
    }
}

/// The labels that a query shows.
pub enum ShownLabels {
    None,
    All,
    Selected(Vec<Vec<u8>>),
}

pub fn labels(reply: &mut Reply<'_>, all: &[(&[u8], &[u8])], label_choice: &ShownLabels) {
    match label_choice {
        ShownLabels::None => pairs(reply, 0),
        ShownLabels::All => {
            pairs(reply, all.len());
            for (label, value) in all {
                pair(reply);
                reply.bulk(label);
                reply.bulk(value);
            }
        }
        ShownLabels::Selected(selected) => {
            pairs(reply, selected.len());
            for label_name in selected {
                pair(reply);
                match all.iter().find(|(label, _)| label.eq_ignore_ascii_case(label_name)) {
                    Some((label, value)) => {
                        reply.bulk(label);
                        reply.bulk(value);
                    }
                    None => {
                        reply.bulk(label_name);
                        reply.null();
                    }
                }
            }
        }
    }
}

/// The number of parts of an entry after its name and labels, in either protocol.
pub struct FurtherParts {
    pub in_resp2: usize,
    pub in_resp3: usize,
}

/// Writes the name of a series and its labels, of an entry with further parts.
pub fn head(reply: &mut Reply<'_>, series: &Series, label_choice: &ShownLabels, parts: FurtherParts) {
    if reply.protocol() == Protocol::Resp2 {
        reply.array(2 + parts.in_resp2);
    }
    reply.bulk(&series.name);
    if reply.protocol() == Protocol::Resp3 {
        reply.array(1 + parts.in_resp3);
    }
    labels(reply, &labels_of(&series.entry), label_choice);
}

/// Writes a map of one name with a list of texts.
pub fn named_list<'t>(reply: &mut Reply<'_>, name: &str, texts: impl ExactSizeIterator<Item = &'t [u8]>) {
    reply.map(1);
    reply.bulk(name.as_bytes());
    reply.array(texts.len());
    texts.for_each(|text| reply.bulk(text));
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn values_are_written_as_the_original_writes_them() {
        for (value, expected) in [
            (0.15, "1.5E-1"),
            (12.5, "12.5"),
            (0.001, "1E-3"),
            (123456.789, "123456.789"),
            (1e15, "1000000000000000"),
            (1e16, "1E16"),
            (1e21, "1E21"),
            (12345678901234568.0, "12345678901234568"),
            (123456789012345678.0, "1.2345678901234568E17"),
            (-0.0, "-0"),
            (0.0, "0"),
            (-12.25, "-12.25"),
            (5e-324, "5E-324"),
            (f64::MAX, "1.7976931348623157E308"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "Infinity"),
        ] {
            assert_eq!(text(value), expected);
        }
    }
}
