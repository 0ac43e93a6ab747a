//! JSON documents, as RedisJSON saves them: their text.
//!
//! ```text
//! module's number, version 3: 5 text 0
//! version 2: 5 text, 2 and 1 if an index follows: 5 its name, 5 a path; 0
//! ```
//!
//! Follows what RedisJSON 2.8 was seen to write; version 2 is that of 1.x as its source reads it.

use crate::module::{self, end, number, text, write_end, write_text};
use crate::primitives::{Malformed, Reader, write_length};

pub(crate) const MODULE: u64 = module::number_of(b"ReJSON-RL");
const VERSION: u64 = 3;
const VERSION_WITH_INDEX: u64 = 2;

pub(crate) fn is_known(version: u64) -> bool {
    (VERSION_WITH_INDEX..=VERSION).contains(&version)
}

pub(crate) fn write(document: &[u8], out: &mut Vec<u8>) {
    write_length((MODULE | VERSION) as usize, out);
    write_text(document, out);
    write_end(out);
}

/// Reads the text after the module's number. The caller verifies that it is JSON.
pub(crate) fn read(version: u64, reader: &mut Reader<'_>) -> Result<Vec<u8>, Malformed> {
    if !is_known(version) {
        return Err(Malformed);
    }
    let document = text(reader)?;
    if version == VERSION_WITH_INDEX && number(reader)? > 0 {
        text(reader)?;
        text(reader)?;
    }
    end(reader)?;
    Ok(document)
}

#[cfg(test)]
mod tests {
    use crate::value::{Value, dump, restore};

    /// The payload of a document, as RedisJSON 2.8.3 in Redis 8.2.3 gave it.
    const RECORDED: &[u8] =
        b"\x07\x81E\xe2R8\xdf\x91,\x03\x05'{\"a\":[1,-2,2.5,null,true,\"x\xc3\xa9\"],\"b\":{}}\x00\x0c\x00\xc4?\xc1{(TJ\x1c";

    #[test]
    fn a_document_is_read_and_written_alike() {
        let Ok(value) = restore(RECORDED) else {
            panic!("no document");
        };
        assert_eq!(
            value,
            Value::Json("{\"a\":[1,-2,2.5,null,true,\"xé\"],\"b\":{}}".into())
        );
        let written = dump(&value);
        assert_eq!(written[..written.len() - 10], RECORDED[..RECORDED.len() - 10]);
    }

    #[test]
    fn the_older_form_is_read_and_others_are_not() {
        let older = |tail: &[u8]| restore(&crate::seal([b"\x07\x81E\xe2R8\xdf\x91,\x02\x05\x011", tail].concat()));
        assert_eq!(older(b"\x02\x00\x00"), Ok(Value::Json(b"1".to_vec())));
        assert_eq!(older(b"\x02\x01\x05\x01i\x05\x01p\x00"), Ok(Value::Json(b"1".to_vec())));
        assert!(older(b"\x02\x01\x00").is_err());
        let body = &RECORDED[..RECORDED.len() - 10];
        for length in 1..body.len() {
            assert!(restore(&crate::seal(body[..length].to_vec())).is_err(), "{length}");
        }
        let mut newer = body.to_vec();
        newer[9] = 4;
        assert!(restore(&crate::seal(newer)).is_err());
    }
}
