//! Libraries of functions as a payload: FUNCTION DUMP and RESTORE.

use crate::primitives::{Reader, write_string};
use crate::{open, seal};

/// The opcode of a library; its code follows as a string.
const FUNCTION2: u8 = 245;

/// Returns the payload of libraries with these codes, version and checksum included.
pub fn dump<'a>(codes: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut payload = Vec::new();
    for code in codes {
        payload.push(FUNCTION2);
        write_string(code, &mut payload);
    }
    seal(payload)
}

/// Returns the codes of a payload's libraries. The error is Redis' own reply.
pub fn restore(payload: &[u8]) -> Result<Vec<Vec<u8>>, &'static str> {
    let body = open(payload).ok_or("ERR DUMP payload version or checksum are wrong")?;
    let mut reader = Reader::new(body);
    let mut codes = Vec::new();
    while let Ok(kind) = reader.byte() {
        if kind != FUNCTION2 {
            return Err("ERR given type is not a function");
        }
        codes.push(
            reader
                .string()
                .map_err(|_| "ERR failed loading the given functions payload")?,
        );
    }
    Ok(codes)
}
