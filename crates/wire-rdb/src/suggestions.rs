//! Suggestions and dictionaries: texts with scores, as RediSearch saves them.
//!
//! ```text
//! texts: 2 count, then of each 5 text with a zero, 4 score
//!        and from version 1 on 5 payload with any byte, from version 2 on 2 number of documents
//! suggestions (trietype0): module's number, texts, 0
//! dictionaries (scdtype00, version 1, beside keys): 2 count, of each 5 name with a zero, texts of version 0; 0
//! ```
//!
//! Follows what RediSearch 2.10 was seen to write, and the newer version as its source reads it.

use crate::module::{self, c_text, double, end, number, text, write_c_text, write_double, write_end, write_number};
use crate::primitives::{Malformed, Reader, write_length};

pub(crate) const MODULE: u64 = module::number_of(b"trietype0");
pub(crate) const MODULE_OF_DICTIONARIES: u64 = module::number_of(b"scdtype00");
const VERSION: u64 = 1;
const VERSION_OF_PAYLOADS: u64 = 1;
const VERSION_OF_COUNTS: u64 = 2;
pub(crate) const VERSION_OF_DICTIONARIES: u64 = 1;

/// A text that is offered.
#[derive(Clone, Debug, PartialEq)]
pub struct Suggestion {
    /// The text, as it was added.
    pub text: Vec<u8>,
    /// The score, which the original keeps with 32 bits.
    pub score: f64,
    /// The bytes that are given with the text; empty if there are none.
    pub payload: Vec<u8>,
}

/// A list of words for FT.SPELLCHECK.
#[derive(Clone, Debug, PartialEq)]
pub struct Dictionary {
    /// The name.
    pub name: Vec<u8>,
    /// The words, in no order.
    pub words: Vec<Vec<u8>>,
}

pub(crate) fn is_known(version: u64) -> bool {
    version <= VERSION_OF_COUNTS
}

pub(crate) fn write(suggestions: &[Suggestion], out: &mut Vec<u8>) {
    write_length((MODULE | VERSION) as usize, out);
    write_number(suggestions.len() as u64, out);
    for suggestion in suggestions {
        write_c_text(&suggestion.text, out);
        write_double(score_as_kept(suggestion.score), out);
        write_c_text(&suggestion.payload, out);
    }
    write_end(out);
}

/// The nearest finite number of 32 bits.
fn score_as_kept(score: f64) -> f64 {
    f64::from((score as f32).clamp(f32::MIN, f32::MAX))
}

/// Reads the suggestions after the module's number.
pub(crate) fn read(version: u64, reader: &mut Reader<'_>) -> Result<Vec<Suggestion>, Malformed> {
    if !is_known(version) {
        return Err(Malformed);
    }
    let suggestions = texts(version, reader)?;
    end(reader)?;
    Ok(suggestions)
}

fn texts(version: u64, reader: &mut Reader<'_>) -> Result<Vec<Suggestion>, Malformed> {
    let mut texts = Vec::new();
    for _ in 0..number(reader)? {
        let (text, score) = (c_text(reader)?, double(reader)?);
        let payload = match version >= VERSION_OF_PAYLOADS {
            true => payload(reader)?,
            false => Vec::new(),
        };
        if version >= VERSION_OF_COUNTS {
            number(reader)?;
        }
        texts.push(Suggestion { text, score, payload });
    }
    Ok(texts)
}

/// A payload without its last byte: the original writes one more than there is, which is anything.
fn payload(reader: &mut Reader<'_>) -> Result<Vec<u8>, Malformed> {
    let mut payload = text(reader)?;
    payload.pop().ok_or(Malformed)?;
    Ok(payload)
}

/// Writes the parts of dictionaries, without the module's number.
pub(crate) fn write_dictionaries(dictionaries: &[Dictionary], out: &mut Vec<u8>) {
    write_number(dictionaries.len() as u64, out);
    for dictionary in dictionaries {
        write_c_text(&dictionary.name, out);
        write_number(dictionary.words.len() as u64, out);
        for word in &dictionary.words {
            write_c_text(word, out);
            write_double(1.0, out);
        }
    }
    write_end(out);
}

/// Reads the parts of dictionaries.
pub(crate) fn read_dictionaries(reader: &mut Reader<'_>) -> Result<Vec<Dictionary>, Malformed> {
    let mut dictionaries = Vec::new();
    for _ in 0..number(reader)? {
        let name = c_text(reader)?;
        let words = texts(0, reader)?.into_iter().map(|word| word.text).collect();
        dictionaries.push(Dictionary { name, words });
    }
    end(reader)?;
    Ok(dictionaries)
}

#[cfg(test)]
mod tests {
    use super::Suggestion;
    use crate::value::{Value, dump, restore};

    /// The payload of three texts, as RediSearch 2.10.5 in Redis 8.2.3 gave it.
    const RECORDED: &[u8] = b"\x07\x81\xb6\xb8\x9e\xb7*^\xd0\x01\x02\x03\x05\x06\xc3\x9cber\x00\x04\x00\x00\x00\x00\x00\x00\x08@\x05\x01\x00\x05\x0chello world\x00\x04\x00\x00\x00\x00\x00\x00\xf0?\x05\x01\x00\x05\x05help\x00\x04\x00\x00\x00\x00\x00\x00\x04@\x05\x04pay\x00\x00\x0c\x00\xf2H\x8d\x1c\xc5\xf0/R";

    #[test]
    fn suggestions_are_read_and_written_alike() {
        let Ok(value) = restore(RECORDED) else {
            panic!("no suggestions");
        };
        let suggestion = |text: &str, score, payload: &str| Suggestion {
            text: text.into(),
            score,
            payload: payload.into(),
        };
        let expected = [
            suggestion("Über", 3.0, ""),
            suggestion("hello world", 1.0, ""),
            suggestion("help", 2.5, "pay"),
        ];
        assert_eq!(value, Value::Suggestions(expected.to_vec()));
        let written = dump(&value);
        assert_eq!(written[..written.len() - 10], RECORDED[..RECORDED.len() - 10]);
    }

    #[test]
    fn the_byte_after_a_payload_means_nothing() {
        let mut payload = RECORDED[..RECORDED.len() - 10].to_vec();
        let behind = payload.len() - 2;
        payload[behind] = 0x8c;
        assert_eq!(restore(&crate::seal(payload)), restore(RECORDED));
    }

    #[test]
    fn unsound_suggestions_are_refused() {
        let body = &RECORDED[..RECORDED.len() - 10];
        for length in 1..body.len() {
            assert!(restore(&crate::seal(body[..length].to_vec())).is_err(), "{length}");
        }
        let single = |text: &str, score| {
            vec![Suggestion {
                text: text.into(),
                score,
                payload: Vec::new(),
            }]
        };
        let twice = [single("a", 1.0), single("a", 2.0)].concat();
        assert!(restore(&dump(&Value::Suggestions(single("a", 1e300)))).is_ok());
        for suggestions in [Vec::new(), single("", 1.0), single("a", f64::NAN), twice] {
            assert!(restore(&dump(&Value::Suggestions(suggestions))).is_err());
        }
    }
}
