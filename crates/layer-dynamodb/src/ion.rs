//! Items as Amazon Ion text, in the forms of the service's exports.
//!
//! ```text
//! S "text"   N 12.5 or 125d-1   B {{base64}}   BOOL true   NULL null   M {name:…}   L […]
//! SS $dynamodb_SS::["a"]        NS $dynamodb_NS::[1.]      BS $dynamodb_BS::[{{…}}]
//! ```

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use crate::json::write_string;
use crate::number::Number;
use crate::value::{Item, Value};

/// Appends a line of an export: the item, in a structure of its own.
pub fn write_line(item: &Item, out: &mut Vec<u8>) {
    out.extend_from_slice(b"$ion_1_0 {Item:");
    write_members(item, out);
    out.extend_from_slice(b"}\n");
}

fn write_members(item: &Item, out: &mut Vec<u8>) {
    out.push(b'{');
    for (position, (name, value)) in item.iter().enumerate() {
        if position > 0 {
            out.push(b',');
        }
        write_string(out, name);
        out.push(b':');
        write_value(value, out);
    }
    out.push(b'}');
}

fn write_value(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::S(text) => write_string(out, text),
        Value::N(number) => write_number(*number, out),
        Value::B(bytes) => write_blob(bytes, out),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Null => out.extend_from_slice(b"null"),
        Value::M(members) => write_members(members, out),
        Value::L(elements) => write_list(elements, out, write_value),
        Value::SS(set) => {
            out.extend_from_slice(b"$dynamodb_SS::");
            write_list(set, out, |text, out| write_string(out, text));
        }
        Value::NS(set) => {
            out.extend_from_slice(b"$dynamodb_NS::");
            write_list(set, out, |number, out| write_number(*number, out));
        }
        Value::BS(set) => {
            out.extend_from_slice(b"$dynamodb_BS::");
            write_list(set, out, |bytes, out| write_blob(bytes, out));
        }
    }
}

fn write_list<'v, T: 'v>(
    elements: impl IntoIterator<Item = &'v T>,
    out: &mut Vec<u8>,
    write: impl Fn(&T, &mut Vec<u8>),
) {
    out.push(b'[');
    for (position, element) in elements.into_iter().enumerate() {
        if position > 0 {
            out.push(b',');
        }
        write(element, out);
    }
    out.push(b']');
}

/// As a decimal, which is what a number with a point or with `d` before its exponent is.
fn write_number(number: Number, out: &mut Vec<u8>) {
    let (negative, exponent, coefficient) = number.parts();
    if negative {
        out.push(b'-');
    }
    out.extend_from_slice(coefficient.to_string().as_bytes());
    match exponent {
        0 => out.push(b'.'),
        exponent => out.extend_from_slice(format!("d{exponent}").as_bytes()),
    }
}

fn write_blob(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"{{");
    out.extend_from_slice(BASE64_STANDARD.encode(bytes).as_bytes());
    out.extend_from_slice(b"}}");
}
