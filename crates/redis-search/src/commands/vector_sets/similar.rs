//! VSIM.

use quartet_layer_redis::module_api::{Context, ErrorReply, parse};
use quartet_search::vectors::set::filter::{Filter, Malformed, TEXT_BYTES_MAX};
use quartet_search::vectors::set::{self, Neighbor, Query};
use quartet_wire_resp::{Arguments, Protocol};

use super::key::{Set, wrong_arity};
use super::vector::{self, input_mismatch, mismatch};

struct Options {
    with_scores: bool,
    with_attributes: bool,
    is_exact: bool,
    count: i64,
    /// Zero means the default.
    effort: i64,
    farthest: f64,
    filter: Option<Filter>,
    /// Zero means the default.
    looked_at_max: i64,
}

const EFFORT: i64 = 100;
/// Nodes that a search with a filter visits for each requested neighbor.
const LOOKED_AT: i64 = 100;

/// Vectors that are compared with the lock held, about: some milliseconds.
pub const COMPARED_WITH_LOCK: u64 = 10_000;

/// Operands and operators of a condition that take about as long as a vector that is compared.
const OPERANDS_OF_VECTOR: u64 = 16;

impl Options {
    fn read(arguments: Arguments<'_>) -> Result<Options, ErrorReply> {
        let mut options = Options {
            with_scores: false,
            with_attributes: false,
            is_exact: false,
            count: 10,
            effort: 0,
            farthest: 2.0,
            filter: None,
            looked_at_max: 0,
        };
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            let flags = [
                ("withscores", &mut options.with_scores),
                ("withattribs", &mut options.with_attributes),
                ("truth", &mut options.is_exact),
            ];
            if let Some((_, flag)) = flags.into_iter().find(|(name, _)| parse::is(word, name)) {
                *flag = true;
                continue;
            }
            if parse::is(word, "nothread") {
                continue;
            }
            let value = words.next().ok_or("ERR syntax error in VSIM command")?;
            options.take(word, value)?;
        }
        Ok(options)
    }

    fn take(&mut self, word: &[u8], value: &[u8]) -> Result<(), ErrorReply> {
        let number = |error: &'static str| {
            let number = parse::integer(value).filter(|number| *number > 0);
            number.ok_or(ErrorReply::new(error))
        };
        if parse::is(word, "count") {
            self.count = number("ERR invalid COUNT")?;
        } else if parse::is(word, "epsilon") {
            let farthest = parse::float(value).filter(|farthest| *farthest > 0.0);
            self.farthest = farthest.ok_or("ERR invalid EPSILON")?;
        } else if parse::is(word, "ef") {
            self.effort = number("ERR invalid EF")?;
        } else if parse::is(word, "filter-ef") {
            self.looked_at_max = number("ERR invalid FILTER-EF")?;
        } else if parse::is(word, "filter") {
            let filter = Filter::parse(value).map_err(|malformed| match malformed {
                Malformed::At(at) => {
                    let remainder = String::from_utf8_lossy(parse::before_nul(&value[at..])).into_owned();
                    format!("ERR syntax error in FILTER expression near: {remainder}")
                }
                Malformed::TooLong => format!("ERR FILTER expression is longer than {TEXT_BYTES_MAX} bytes"),
            });
            self.filter = Some(filter?);
        } else {
            return Err("ERR syntax error in VSIM command".into());
        }
        Ok(())
    }
}

pub fn similar(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    if arguments.len() < 4 {
        return Err(wrong_arity("VSIM"));
    }
    let Some(set) = Set::read(context, &arguments[1])? else {
        context.reply.array(0);
        return Ok(());
    };
    let (vector, at) = searched(context, &set, arguments)?;
    let options = Options::read(arguments.tail(at))?;
    let positive = |number: i64, usual: i64| if number == 0 { usual } else { number };
    let looked_at_max = positive(options.looked_at_max, options.count.saturating_mul(LOOKED_AT));
    let query = Query {
        vector: &vector,
        count: options.count as usize,
        effort: positive(options.effort, EFFORT) as usize,
        filter: options.filter.as_ref(),
        looked_at_max: looked_at_max as u64,
        is_exact: options.is_exact,
    };
    let operands = options.filter.as_ref().map_or(0, Filter::size) as u64;
    let weight = 1 + operands / OPERANDS_OF_VECTOR;
    let work = query.compared(&set.head).saturating_mul(weight);
    if work > COMPARED_WITH_LOCK && context.must_end_before_long() {
        return Ok(());
    }
    let mut neighbors = set::search(&mut set.rows(context), &set.head, &query);
    let farthest = options.farthest as f32;
    let count = neighbors
        .iter()
        .take_while(|neighbor| neighbor.distance / 2.0 <= farthest)
        .count();
    neighbors.truncate(count);
    answer(context, &set, &options, &neighbors);
    Ok(())
}

/// The query vector, and the position after it.
fn searched(
    context: &mut Context<'_, '_>,
    set: &Set,
    arguments: Arguments<'_>,
) -> Result<(Vec<f32>, usize), ErrorReply> {
    let head = &set.head;
    if parse::is(&arguments[2], "ele") {
        let id = set
            .element(context, &arguments[3])
            .ok_or("ERR element not found in set")?;
        let (coded, _) = set::vector_of(&mut set.rows(context), head, id);
        return Ok((coded.decoded(head.quantization, head.dimensions), 4));
    }
    let (vector, at) = vector::read(arguments, 2)?;
    if head.projected_from > 0 && vector.len() != head.dimensions {
        if vector.len() != head.projected_from {
            return Err(input_mismatch(vector.len(), head.projected_from));
        }
        return Ok((set::projected(&mut set.rows(context), head, &vector), at));
    }
    match vector.len() == head.dimensions {
        true => Ok((vector, at)),
        false => Err(mismatch(vector.len(), head.dimensions)),
    }
}

fn answer(context: &mut Context<'_, '_>, set: &Set, options: &Options, neighbors: &[Neighbor]) {
    let is_map = context.reply.protocol() == Protocol::Resp3;
    let values = usize::from(options.with_scores) + usize::from(options.with_attributes);
    match is_map && values > 0 {
        true => context.reply.map(neighbors.len()),
        false => context.reply.array(neighbors.len() * (1 + values)),
    }
    for neighbor in neighbors {
        context.reply.bulk(&neighbor.element);
        if is_map && values == 2 {
            context.reply.array(2);
        }
        if options.with_scores {
            context.reply.double(1.0 - f64::from(neighbor.distance) / 2.0);
        }
        if options.with_attributes {
            match set::attributes_of(&mut set.rows(context), neighbor.id) {
                Some(attributes) => context.reply.bulk(&attributes),
                None => context.reply.null(),
            }
        }
    }
}
