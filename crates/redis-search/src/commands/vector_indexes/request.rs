//! The arguments of `VECTOR.*`.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use quartet_layer_redis::module_api::{ErrorReply, parse};
use quartet_search::vectors::set::Head;
use quartet_search::vectors::set::codec::Quantization;
use quartet_wire_resp::Arguments;

use crate::commands::vector_sets::{ELEMENT_BYTES_MAX, of_blob, of_words};

/// Most components of a vector.
const DIMENSIONS_MAX: usize = 32_768;

/// Most IDs that a query answers.
const COUNT_MAX: usize = 1000;

const SYNTAX: &str = "ERR syntax error";

const INVALID: &str =
    "ERR A vector is given as VALUES with a count and as many numbers, as FP32 with a blob, or as BASE64-FP32";

const NO_MODEL: &str = "ERR This server has no embedding model: give the vector as VALUES, FP32 or BASE64-FP32";

pub struct CreateRequest {
    pub dimensions: usize,
    pub metric: Quantization,
    pub exists_ok: bool,
}

impl CreateRequest {
    /// Parses the arguments after the index's name.
    pub fn read(words: Arguments<'_>) -> Result<CreateRequest, ErrorReply> {
        let (mut dimensions, mut metric, mut exists_ok) = (None, None, false);
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if parse::is(word, "dim") && dimensions.is_none() {
                let word = words.next().ok_or(SYNTAX)?;
                let number = number(word).filter(|number| (1..=DIMENSIONS_MAX).contains(number));
                dimensions = Some(number.ok_or_else(|| format!("ERR DIM takes a number from 1 to {DIMENSIONS_MAX}"))?);
            } else if parse::is(word, "metric") && metric.is_none() {
                let word = words.next().ok_or(SYNTAX)?;
                metric = Some(self::metric(word).ok_or("ERR METRIC takes COSINE, EUCLIDEAN or DOT")?);
            } else if parse::is(word, "existsok") {
                exists_ok = true;
            } else {
                return Err(SYNTAX.into());
            }
        }
        Ok(CreateRequest {
            dimensions: dimensions.ok_or("ERR DIM is missing")?,
            metric: metric.ok_or("ERR METRIC is missing")?,
            exists_ok,
        })
    }
}

fn metric(word: &[u8]) -> Option<Quantization> {
    match word.to_ascii_uppercase().as_slice() {
        b"COSINE" => Some(Quantization::PlainCosine),
        b"EUCLIDEAN" => Some(Quantization::PlainEuclidean),
        b"DOT" => Some(Quantization::PlainProduct),
        _ => None,
    }
}

fn number(word: &[u8]) -> Option<usize> {
    usize::try_from(parse::integer(word)?).ok()
}

#[derive(Clone, Copy)]
pub enum Profile {
    Fast,
    Balanced,
    Precise,
}

pub struct QueryRequest {
    pub vector: Vec<f32>,
    pub count: usize,
    pub profile: Profile,
}

impl QueryRequest {
    /// Parses the arguments after the index's name. PROFILE may precede or follow the vector.
    pub fn read(mut words: Arguments<'_>) -> Result<QueryRequest, ErrorReply> {
        let (mut query_vector, mut count, mut profile) = (None, None, None);
        while let Some(word) = words.get(0) {
            if parse::is(word, "topk") && count.is_none() {
                let requested = words.get(1).and_then(number);
                let requested = requested.filter(|count| (1..=COUNT_MAX).contains(count));
                count = Some(requested.ok_or_else(|| format!("ERR TOPK takes a number from 1 to {COUNT_MAX}"))?);
                words = words.tail(2);
            } else if parse::is(word, "profile") && profile.is_none() {
                profile = Some(self::profile(words.get(1).ok_or(SYNTAX)?)?);
                words = words.tail(2);
            } else if query_vector.is_none() {
                let (vector, behind) = vector(words)?;
                (query_vector, words) = (Some(vector), behind);
            } else {
                return Err(SYNTAX.into());
            }
        }
        Ok(QueryRequest {
            vector: query_vector.ok_or(INVALID)?,
            count: count.ok_or("ERR TOPK is missing")?,
            profile: profile.unwrap_or(Profile::Balanced),
        })
    }
}

fn profile(word: &[u8]) -> Result<Profile, ErrorReply> {
    match word.to_ascii_uppercase().as_slice() {
        b"FAST" => Ok(Profile::Fast),
        b"BALANCED" => Ok(Profile::Balanced),
        b"PRECISE" => Ok(Profile::Precise),
        _ => Err("ERR PROFILE takes FAST, BALANCED or PRECISE".into()),
    }
}

/// Parses a vector, and returns the words after it.
pub fn vector(words: Arguments<'_>) -> Result<(Vec<f32>, Arguments<'_>), ErrorReply> {
    let (form, argument) = (words.get(0).ok_or(INVALID)?, words.get(1).ok_or(INVALID)?);
    let (vector, length) = match form.to_ascii_uppercase().as_slice() {
        b"VALUES" => {
            let count = number(argument).filter(|count| *count <= words.len() - 2);
            (
                count.and_then(|count| of_words(words.tail(2), count)),
                2 + count.unwrap_or(0),
            )
        }
        b"FP32" => (of_blob(argument), 2),
        b"BASE64-FP32" => (BASE64_STANDARD.decode(argument).ok().as_deref().and_then(of_blob), 2),
        b"TEXT" | b"DATA" => return Err(NO_MODEL.into()),
        _ => return Err(INVALID.into()),
    };
    Ok((vector.ok_or(INVALID)?, words.tail(length)))
}

pub fn check_dimensions(vector: &[f32], head: &Head) -> Result<(), ErrorReply> {
    let (length, expected) = (vector.len(), head.dimensions);
    match length == expected {
        true => Ok(()),
        false => Err(format!("ERR The vector has {length} elements, and those of the index have {expected}").into()),
    }
}

pub fn checked_id(id: &[u8]) -> Result<&[u8], ErrorReply> {
    match id.len() {
        0 => Err("ERR An ID cannot be empty".into()),
        1..=ELEMENT_BYTES_MAX => Ok(id),
        _ => Err(format!("ERR An ID has at most {ELEMENT_BYTES_MAX} bytes").into()),
    }
}
