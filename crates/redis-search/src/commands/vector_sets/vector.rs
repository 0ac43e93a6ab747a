//! The vector in a request: `FP32 blob` or `VALUES count number ...`.

use quartet_layer_redis::module_api::{ErrorReply, parse};
use quartet_search::vectors::set::codec::DIMENSIONS_MAX;
use quartet_wire_resp::Arguments;

pub const INVALID: &str = "ERR invalid vector specification";

/// Parses the vector at a position. Returns it with the position after it. Infinities are refused,
/// which Redis accepts and then answers with NaN.
pub fn read(arguments: Arguments<'_>, at: usize) -> Result<(Vec<f32>, usize), ErrorReply> {
    let read = || {
        let (form, second) = (arguments.get(at)?, arguments.get(at + 1)?);
        let (vector, next) = if parse::is(form, "fp32") {
            (of_blob(second)?, at + 2)
        } else if parse::is(form, "values") {
            let count = usize::try_from(parse::integer(second)?).ok()?;
            let is_possible = count <= arguments.len().saturating_sub(at + 2);
            let words = is_possible.then(|| arguments.tail(at + 2))?;
            (of_words(words, count)?, at + 2 + count)
        } else {
            return None;
        };
        Some((vector, next))
    };
    read().ok_or(INVALID.into())
}

/// The vector in little-endian floats of four bytes; none if it is no possible one.
pub fn of_blob(blob: &[u8]) -> Option<Vec<f32>> {
    let (floats, remainder) = blob.as_chunks::<4>();
    let is_whole = remainder.is_empty() && floats.len() <= DIMENSIONS_MAX;
    let vector: Vec<f32> = is_whole.then(|| floats.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())?;
    is_possible(&vector).then_some(vector)
}

/// The vector whose numbers are the first `count` words; none if it is no possible one.
pub fn of_words(words: Arguments<'_>, count: usize) -> Option<Vec<f32>> {
    let numbers = words.iter().take(count);
    let vector: Vec<f32> = numbers
        .map(|text| Some(parse::float(text)? as f32))
        .collect::<Option<_>>()?;
    is_possible(&vector).then_some(vector)
}

fn is_possible(vector: &[f32]) -> bool {
    let squares: f32 = vector.iter().map(|number| number * number).sum();
    (1..=DIMENSIONS_MAX).contains(&vector.len()) && squares.is_finite()
}

pub fn mismatch(length: usize, expected: usize) -> ErrorReply {
    format!("ERR Vector dimension mismatch - got {length} but set has {expected}").into()
}

pub fn input_mismatch(length: usize, expected: usize) -> ErrorReply {
    format!("ERR Input dimension mismatch for projection - got {length} but projection expects {expected}").into()
}
