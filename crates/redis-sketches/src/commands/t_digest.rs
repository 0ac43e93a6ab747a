//! TDIGEST.*: quantiles of a stream of numbers.
//!
//! The original merges the nodes of a digest that it reads. Here a command that only reads merges
//! them in memory and leaves the key as it is.

use crate::dump::Head;
use crate::t_digest::{Digest, Head as DigestHead, Overflow};

use super::groups::T_DIGEST;
use super::requests::*;
use super::stored::{self, Found, Looked};
use crate::TooLarge;
use quartet_layer_redis::module_api::WRONG_TYPE;
use quartet_layer_redis::module_api::definition::*;
use quartet_layer_redis::module_api::{Context, parse};
use quartet_wire_rdb::sketch::SketchKind;
use quartet_wire_resp::Arguments;

const FAMILY: Family = Family::of(T_DIGEST)
    .keys(ONE_KEY)
    .complexity("O(n) in the number of centroids");

#[rustfmt::skip]
pub const COMMANDS: &[Definition] = &[
    FAMILY.row("tdigest.create", -1, WRITE | DENYOOM, "Creates a t-digest sketch.", Answers(create)).complexity("O(1)"),
    FAMILY.row("tdigest.add", -1, WRITE | DENYOOM, "Adds numbers to a t-digest sketch.", Answers(add)).complexity("O(n) in the number of values"),
    FAMILY.row("tdigest.reset", -1, WRITE | DENYOOM, "Empties a t-digest sketch.", Answers(reset)).complexity("O(1)"),
    FAMILY.row("tdigest.merge", -1, WRITE | DENYOOM, "Merges several t-digest sketches into one.", Answers(merge)).keys(MERGED_KEYS).complexity("O(n * k): n centroids, k sketches"),
    FAMILY.row("tdigest.min", -1, READONLY, "Returns the smallest number.", Answers(minimum)).complexity("O(1)"),
    FAMILY.row("tdigest.max", -1, READONLY, "Returns the largest number.", Answers(maximum)).complexity("O(1)"),
    FAMILY.row("tdigest.quantile", -1, READONLY, "Returns the numbers below which given shares are.", Answers(quantile)),
    FAMILY.row("tdigest.byrank", -1, READONLY, "Returns the numbers at given ranks.", Answers(by_rank)),
    FAMILY.row("tdigest.byrevrank", -1, READONLY, "Returns the numbers at given ranks from above.", Answers(by_rank_from_above)),
    FAMILY.row("tdigest.rank", -1, READONLY, "Returns the ranks of numbers.", Answers(rank)),
    FAMILY.row("tdigest.revrank", -1, READONLY, "Returns the ranks of numbers from above.", Answers(rank_from_above)),
    FAMILY.row("tdigest.cdf", -1, READONLY, "Returns the shares of numbers up to given ones.", Answers(share)),
    FAMILY.row("tdigest.trimmed_mean", -1, READONLY, "Returns the mean between two quantiles.", Answers(trimmed_mean)),
    FAMILY.row("tdigest.info", -1, READONLY, "Returns the figures of a t-digest sketch.", Answers(information)).complexity("O(1)"),
];

const COMPRESSION: i64 = 100;
const ABSENT: &str = "ERR T-Digest: key does not exist";
const OVERFLOW: &str = "ERR T-Digest: overflow detected";

fn head(sketch: &mut Found) -> &mut DigestHead {
    match &mut sketch.head {
        Head::TDigest(head) => head,
        _ => unreachable!("the key was looked up by its kind"),
    }
}

fn find(context: &mut Context<'_, '_>, name: &[u8]) -> Result<Found, ErrorReply> {
    stored::read(context, name, SketchKind::TDigest).required(ABSENT)
}

/// All nodes of a digest, merged.
fn merged(context: &mut Context<'_, '_>, sketch: &mut Found) -> Result<Digest, ErrorReply> {
    let head = *head(sketch);
    // The nodes as bytes and as numbers.
    context.workspace().take(2 * head.space_bytes() as usize)?;
    let mut digest = Digest::read(head, &mut sketch.rows(context));
    digest.compress();
    Ok(digest)
}

fn compression(text: &[u8]) -> Result<i64, ErrorReply> {
    let compression = parse::integer(text).ok_or("ERR T-Digest: error parsing compression parameter")?;
    match compression > 0 {
        true => Ok(compression),
        false => Err("ERR T-Digest: compression parameter needs to be a positive integer".into()),
    }
}

/// An empty digest, if there is memory for it.
fn new_digest(context: &Context<'_, '_>, compression: f64, error: &'static str) -> Result<DigestHead, ErrorReply> {
    let head = DigestHead::new(compression);
    let head = head.and_then(|head| check_budget(context, head.space_bytes()).map(|()| head));
    head.map_err(|TooLarge| error.into())
}

fn create(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_arity(arguments, matches!(arguments.len(), 2 | 4))?;
    match stored::to_change(context, &arguments[1], SketchKind::TDigest) {
        Looked::Absent => {}
        Looked::Found(_) => return Err("ERR T-Digest: key already exists".into()),
        Looked::Other => return Err(WRONG_TYPE.into()),
    }
    let compression = match arguments.len() {
        2 => COMPRESSION,
        _ if position(arguments.tail(2), "compression").is_none() => {
            return Err("ERR T-Digest: wrong keyword".into());
        }
        _ => compression(&arguments[3])?,
    };
    let head = new_digest(context, compression as f64, "ERR T-Digest: allocation failed")?;
    stored::create(&mut context.keys(), &arguments[1], &Head::TDigest(head));
    context.reply.ok();
    Ok(())
}

fn reset(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_arity(arguments, arguments.len() == 2)?;
    let mut sketch = stored::to_change(context, &arguments[1], SketchKind::TDigest).required(ABSENT)?;
    let head = head(&mut sketch);
    *head = head.reset();
    sketch.rows(context).clear();
    sketch.save(context, &arguments[1]);
    context.reply.ok();
    Ok(())
}

fn add(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_arity(arguments, arguments.len() >= 3)?;
    let mut sketch = stored::to_change(context, &arguments[1], SketchKind::TDigest).required(ABSENT)?;
    let number = |text: &[u8]| parse::float(text).ok_or("ERR T-Digest: error parsing val parameter");
    for text in arguments.iter().skip(2) {
        if !number(text)?.is_finite() {
            return Err("ERR T-Digest: val parameter needs to be a finite number".into());
        }
    }
    context.workspace().take(2 * head(&mut sketch).space_bytes() as usize)?;
    for text in arguments.iter().skip(2) {
        let mut rows = sketch.rows(context);
        let added = head(&mut sketch).add(&mut rows, number(text)?);
        added.map_err(|Overflow| OVERFLOW)?;
    }
    sketch.save(context, &arguments[1]);
    context.reply.ok();
    Ok(())
}

/// Options of TDIGEST.MERGE.
struct MergeOptions {
    compression: Option<i64>,
    replaces: bool,
}

impl MergeOptions {
    fn read(arguments: Arguments<'_>, options: Arguments<'_>) -> Result<MergeOptions, ErrorReply> {
        let mut read = MergeOptions {
            compression: None,
            replaces: false,
        };
        if options.is_empty() {
            return Ok(read);
        }
        let compression_at = position(options, "compression");
        if let Some(at) = compression_at {
            let argument = options.get(at + 1).ok_or_else(|| wrong_arity(arguments))?;
            read.compression = Some(compression(argument)?);
        }
        read.replaces = position(options, "override").is_some();
        match compression_at.is_some() || read.replaces {
            true => Ok(read),
            false => Err("ERR T-Digest: wrong keyword".into()),
        }
    }
}

fn merge(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_arity(arguments, arguments.len() >= 4)?;
    let name = &arguments[1];
    let mut before = match stored::to_change(context, name, SketchKind::TDigest) {
        Looked::Absent => None,
        Looked::Found(sketch) => Some(sketch),
        Looked::Other => return Err(WRONG_TYPE.into()),
    };
    let keys = parse::integer(&arguments[2]).ok_or("ERR T-Digest: error parsing numkeys")?;
    if keys <= 0 {
        return Err("ERR T-Digest: numkeys needs to be a positive integer".into());
    }
    let keys = usize::try_from(keys).unwrap_or(usize::MAX);
    check_arity(arguments, keys <= arguments.len() - 3)?;
    let options = MergeOptions::read(arguments, arguments.tail(3 + keys))?;
    let mut workspace = context.workspace();
    workspace.take(keys * size_of::<Found>())?;
    let mut sources = Vec::with_capacity(keys);
    let mut largest = 0.0f64;
    for source in arguments.iter().skip(3).take(keys) {
        let mut sketch = find(context, source)?;
        largest = largest.max(head(&mut sketch).compression);
        sources.push(sketch);
    }
    let compression = match (options.compression, &mut before) {
        (Some(compression), _) => compression as f64,
        (None, Some(before)) if !options.replaces => head(before).compression,
        (None, _) => largest,
    };
    let error = "ERR T-Digest: allocation of destination digest failed";
    let empty = new_digest(context, compression, error)?;
    workspace.take(2 * empty.space_bytes() as usize)?;
    let mut digest = Digest {
        head: empty,
        nodes: Vec::new(),
    };
    let previous = before.filter(|_| !options.replaces);
    for mut source in previous.into_iter().chain(sources) {
        let source = merged(context, &mut source)?;
        digest.merge(source).map_err(|Overflow| OVERFLOW)?;
    }
    let sketch = stored::created(context, name, &Head::TDigest(digest.head));
    digest.write(&mut sketch.rows(context));
    context.reply.ok();
    Ok(())
}

fn minimum(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    end(context, arguments, |head| head.min)
}

fn maximum(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    end(context, arguments, |head| head.max)
}

fn end(context: &mut Context<'_, '_>, arguments: Arguments<'_>, end: fn(&DigestHead) -> f64) -> Result<(), ErrorReply> {
    check_arity(arguments, arguments.len() == 2)?;
    let mut sketch = find(context, &arguments[1])?;
    let head = head(&mut sketch);
    let number = if head.size() > 0 { end(head) } else { f64::NAN };
    context.reply.double(number);
    Ok(())
}

/// Numbers of a request, each checked.
fn numbers(arguments: Arguments<'_>, check: impl Fn(&[u8]) -> Result<f64, ErrorReply>) -> Result<Vec<f64>, ErrorReply> {
    arguments.iter().skip(2).map(check).collect()
}

fn quantile(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_arity(arguments, arguments.len() >= 3)?;
    let mut sketch = find(context, &arguments[1])?;
    let quantiles = numbers(arguments, |text| {
        let quantile = parse::float(text).ok_or("ERR T-Digest: error parsing quantile")?;
        match (0.0..=1.0).contains(&quantile) {
            true => Ok(quantile),
            false => Err("ERR T-Digest: quantile should be in [0,1]".into()),
        }
    })?;
    let digest = merged(context, &mut sketch)?;
    context.reply.array(quantiles.len());
    for rising in quantiles.chunk_by(|quantile, next| quantile <= next) {
        for number in digest.quantiles(rising) {
            context.reply.double(number);
        }
    }
    Ok(())
}

fn by_rank(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    reply_by_ranks(context, arguments, false)
}

fn by_rank_from_above(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    reply_by_ranks(context, arguments, true)
}

fn reply_by_ranks(context: &mut Context<'_, '_>, arguments: Arguments<'_>, above: bool) -> Result<(), ErrorReply> {
    check_arity(arguments, arguments.len() >= 3)?;
    let mut sketch = find(context, &arguments[1])?;
    let ranks = numbers(arguments, |text| {
        let rank = parse::integer(text).ok_or("ERR T-Digest: error parsing rank")?;
        match rank >= 0 {
            true => Ok(rank as f64),
            false => Err("ERR T-Digest: rank needs to be non negative".into()),
        }
    })?;
    let digest = merged(context, &mut sketch)?;
    context.reply.array(ranks.len());
    ranks
        .iter()
        .for_each(|rank| context.reply.double(digest.by_rank(*rank, above)));
    Ok(())
}

fn rank(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    reply_ranks(context, arguments, false)
}

fn rank_from_above(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    reply_ranks(context, arguments, true)
}

fn reply_ranks(context: &mut Context<'_, '_>, arguments: Arguments<'_>, above: bool) -> Result<(), ErrorReply> {
    check_arity(arguments, arguments.len() >= 3)?;
    let mut sketch = find(context, &arguments[1])?;
    let values = numbers(arguments, |text| {
        parse::float(text).ok_or_else(|| "ERR T-Digest: error parsing value".into())
    })?;
    let digest = merged(context, &mut sketch)?;
    context.reply.array(values.len());
    values
        .iter()
        .for_each(|value| context.reply.integer(digest.rank(*value, above) as i64));
    Ok(())
}

fn share(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_arity(arguments, arguments.len() >= 3)?;
    let mut sketch = find(context, &arguments[1])?;
    let values = numbers(arguments, |text| {
        parse::float(text).ok_or_else(|| "ERR T-Digest: error parsing cdf".into())
    })?;
    let digest = merged(context, &mut sketch)?;
    context.reply.array(values.len());
    values
        .iter()
        .for_each(|value| context.reply.double(digest.share_up_to(*value)));
    Ok(())
}

fn trimmed_mean(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_arity(arguments, arguments.len() == 4)?;
    let mut sketch = find(context, &arguments[1])?;
    let low = parse::float(&arguments[2]).ok_or("ERR T-Digest: error parsing low_cut_percentile")?;
    let high = parse::float(&arguments[3]).ok_or("ERR T-Digest: error parsing high_cut_percentile")?;
    if ![low, high].iter().all(|share| (0.0..=1.0).contains(share)) {
        return Err("ERR T-Digest: low_cut_percentile and high_cut_percentile should be in [0,1]".into());
    }
    if low >= high {
        return Err("ERR T-Digest: low_cut_percentile should be lower than high_cut_percentile".into());
    }
    let mean = merged(context, &mut sketch)?.trimmed_mean(low, high);
    context.reply.double(mean);
    Ok(())
}

fn information(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_arity(arguments, arguments.len() == 2)?;
    let mut sketch = find(context, &arguments[1])?;
    let head = *head(&mut sketch);
    let figures = [
        ("Compression", head.compression as i64),
        ("Capacity", head.capacity as i64),
        ("Merged nodes", head.merged_nodes as i64),
        ("Unmerged nodes", head.unmerged_nodes as i64),
        ("Merged weight", head.merged_weight),
        ("Unmerged weight", head.unmerged_weight),
        ("Observations", head.size()),
        ("Total compressions", head.compressions),
        ("Memory usage", head.memory_bytes() as i64),
    ];
    reply_figures(context, &figures);
    Ok(())
}
