//! CMS.*: count-min sketches.

use crate::count_min::{self, Matrix, Overflow, Sums};
use crate::{Space, dump::Head};

use super::groups::COUNT_MIN;
use super::requests::*;
use super::stored::{self, Found};
use crate::TooLarge;
use quartet_layer_redis::module_api::definition::*;
use quartet_layer_redis::module_api::{Context, parse};
use quartet_wire_rdb::sketch::SketchKind;
use quartet_wire_resp::Arguments;

const FAMILY: Family = Family::of(COUNT_MIN).keys(ONE_KEY);

#[rustfmt::skip]
pub const COMMANDS: &[Definition] = &[
    FAMILY.row("cms.initbydim", -1, WRITE | DENYOOM, "Creates a sketch of given dimensions.", Answers(by_dimensions)),
    FAMILY.row("cms.initbyprob", -1, WRITE | DENYOOM, "Creates a sketch for a tolerated error.", Answers(by_probability)),
    FAMILY.row("cms.incrby", -1, WRITE | DENYOOM, "Increases the counts of items.", Answers(increase)).complexity("O(n) in the number of items"),
    FAMILY.row("cms.query", -1, READONLY, "Returns the counts of items.", Answers(query)).complexity("O(n) in the number of items"),
    FAMILY.row("cms.merge", -1, WRITE | DENYOOM, "Merges several sketches into one.", Answers(merge)).keys(MERGED_KEYS).complexity("O(n) in the number of sketches"),
    FAMILY.row("cms.info", -1, READONLY, "Returns width, depth and total count of a sketch.", Answers(information)),
];

const ABSENT: &str = "CMS: key does not exist";

fn matrix(sketch: &mut Found) -> &mut Matrix {
    match &mut sketch.head {
        Head::CountMin(matrix) => matrix,
        _ => unreachable!("the key was looked up by its kind"),
    }
}

fn by_dimensions(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_arity(arguments, arguments.len() == 4)?;
    check_absent(context, &arguments[1])?;
    let at_least_one = |text| parse::integer(text).filter(|number| *number >= 1);
    let width = at_least_one(&arguments[2]).ok_or("CMS: invalid width")?;
    let depth = at_least_one(&arguments[3]).ok_or("CMS: invalid depth")?;
    create(context, &arguments[1], width as u64, depth as u64)
}

fn by_probability(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_arity(arguments, arguments.len() == 4)?;
    check_absent(context, &arguments[1])?;
    let share = |text| parse::float(text).filter(|number| *number > 0.0 && *number < 1.0);
    let error = share(&arguments[2]).ok_or("CMS: invalid overestimation value")?;
    let probability = share(&arguments[3]).ok_or("CMS: invalid prob value")?;
    let (width, depth) = count_min::dimensions(error, probability);
    create(context, &arguments[1], width, depth)
}

fn check_absent(context: &mut Context<'_, '_>, name: &[u8]) -> Result<(), ErrorReply> {
    match context.keys().find(name) {
        None => Ok(()),
        Some(_) => Err("CMS: key already exists".into()),
    }
}

fn create(context: &mut Context<'_, '_>, name: &[u8], width: u64, depth: u64) -> Result<(), ErrorReply> {
    let is_in_range = (1..=i64::MAX as u64).contains(&width)
        && (1..=i64::MAX as u64).contains(&depth)
        && width <= i64::MAX as u64 / depth;
    if !is_in_range {
        return Err("CMS: invalid init arguments".into());
    }
    let matrix = Matrix::new(width, depth);
    let matrix = matrix.and_then(|matrix| check_budget(context, matrix.space_bytes()).map(|()| matrix));
    let matrix = matrix.map_err(|TooLarge| "CMS: Insufficient memory to create the key")?;
    stored::create(&mut context.keys(), name, &Head::CountMin(matrix));
    context.reply.ok();
    Ok(())
}

fn increase(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_arity(arguments, arguments.len() >= 4 && arguments.len().is_multiple_of(2))?;
    let name = &arguments[1];
    let mut sketch = stored::to_change(context, name, SketchKind::CountMin).required(ABSENT)?;
    let increment = |at: usize| {
        let increment = parse::integer(&arguments[at]).ok_or("CMS: Cannot parse number")?;
        u64::try_from(increment).map_err(|_| "CMS: Number cannot be negative")
    };
    for at in (3..arguments.len()).step_by(2) {
        increment(at)?;
    }
    context.reply.array(arguments.len() / 2 - 1);
    for at in (2..arguments.len()).step_by(2) {
        let increment = increment(at + 1)?;
        let mut rows = sketch.rows(context);
        let count = matrix(&mut sketch).add(&mut rows, &arguments[at], increment);
        match count == u64::from(u32::MAX) {
            true => context.reply.error("CMS: INCRBY overflow"),
            false => context.reply.integer(count as i64),
        }
    }
    sketch.save(context, name);
    Ok(())
}

fn query(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_arity(arguments, arguments.len() >= 3)?;
    let mut sketch = stored::read(context, &arguments[1], SketchKind::CountMin).required(ABSENT)?;
    context.reply.array(arguments.len() - 2);
    for item in arguments.iter().skip(2) {
        let mut rows = sketch.rows(context);
        let count = matrix(&mut sketch).query(&mut rows, item);
        context.reply.integer(count as i64);
    }
    Ok(())
}

fn merge(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_arity(arguments, arguments.len() >= 4)?;
    let name = &arguments[1];
    let mut target = stored::to_change(context, name, SketchKind::CountMin).required(ABSENT)?;
    let keys = parse::integer(&arguments[2]).ok_or("CMS: invalid numkeys")?;
    if keys <= 0 {
        return Err("CMS: Number of keys must be positive".into());
    }
    let operands = arguments.tail(3);
    let weights = position(operands, "weights");
    let keys = usize::try_from(keys).ok().filter(|keys| *keys > 0);
    let is_counted = |count: Option<usize>| keys.is_some() && count == Some(operands.len());
    match weights {
        None if is_counted(keys) => {}
        None => return Err("CMS: wrong number of keys".into()),
        Some(_) if weights == keys && is_counted(keys.and_then(|keys| keys.checked_mul(2)?.checked_add(1))) => {}
        Some(_) => return Err("CMS: wrong number of keys/weights".into()),
    }
    let keys = keys.expect("the number of keys was compared");
    let mut workspace = context.workspace();
    workspace.take(keys * size_of::<(Found, Matrix, i64, Matrix, i64)>())?;
    let mut sources = Vec::with_capacity(keys);
    for index in 0..keys {
        let weight = match weights {
            None => 1,
            Some(at) => parse::integer(&operands[at + 1 + index]).ok_or("CMS: invalid weight value")?,
        };
        let mut source = stored::read(context, &operands[index], SketchKind::CountMin).required(ABSENT)?;
        let (source_matrix, target_matrix) = (*matrix(&mut source), *matrix(&mut target));
        if (source_matrix.width, source_matrix.depth) != (target_matrix.width, target_matrix.depth) {
            return Err("CMS: width/depth is not equal".into());
        }
        sources.push((source, source_matrix, weight));
    }
    merge_sources(context, &mut target, &sources).map_err(|Overflow| "CMS: MERGE overflow")?;
    target.save(context, name);
    context.reply.ok();
    Ok(())
}

/// An error rolls the command back.
fn merge_sources(
    context: &mut Context<'_, '_>,
    target: &mut Found,
    sources: &[(Found, Matrix, i64)],
) -> Result<(), Overflow> {
    let counts: Vec<(Matrix, i64)> = sources.iter().map(|(_, matrix, weight)| (*matrix, *weight)).collect();
    let merged = *matrix(target);
    let (mut sums, mut part) = (Sums::default(), Vec::new());
    merged.each_part(|at, bytes| {
        sums.begin(bytes);
        part.resize(bytes, 0);
        for (source, _, weight) in sources {
            source.rows(context).read(at, &mut part);
            sums.add(&part, *weight)?;
        }
        target.rows(context).write(at, &sums.to_bytes()?);
        Ok(())
    })?;
    matrix(target).count = Matrix::merged_count(&counts)?;
    Ok(())
}

fn information(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_arity(arguments, arguments.len() == 2)?;
    let mut sketch = stored::read(context, &arguments[1], SketchKind::CountMin).required(ABSENT)?;
    let matrix = *matrix(&mut sketch);
    let figures = [
        ("width", matrix.width),
        ("depth", matrix.depth),
        ("count", matrix.count),
    ];
    reply_figures(context, &figures.map(|(name, figure)| (name, figure as i64)));
    Ok(())
}
