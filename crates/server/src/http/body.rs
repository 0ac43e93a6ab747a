//! The memory that a request's body takes when it is read: expanded, and as values.
//!
//! A body of a few kilobytes expands a thousandfold, and as values `[],[],[]` takes a hundred times
//! its length. So both are taken from the process's budget before they are made, at each door of
//! HTTP, and given back with the [`Body`].

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::Arc;

use quartet_engine::{Memory, Reserved};

use crate::http::Head;
use crate::http::compression::{self, Unreadable};

/// Shorter bodies are read without taking memory for their values.
const COUNTED_BYTES_MIN: usize = 64 << 10;

/// Most memory that a layer needs for JSON, in bytes: for each element or member, and beside it for
/// each list and object. Measured with bodies that consist of the smallest values.
#[derive(Clone, Copy, Debug)]
pub struct JsonCost {
    pub element_bytes: usize,
    pub list_bytes: usize,
    pub object_bytes: usize,
}

/// A body as it was before the peer compressed it, and the memory taken for it.
#[derive(Debug)]
pub struct Body<'b> {
    bytes: Cow<'b, [u8]>,
    reserved: Reserved,
    request_bytes_max: u64,
}

impl<'b> Body<'b> {
    /// A body that was not compressed: its connection counts it.
    pub fn of_plain(sent: &'b [u8], memory: &Arc<Memory>) -> Body<'b> {
        Body {
            bytes: sent.into(),
            reserved: Reserved::new(memory.clone()),
            request_bytes_max: memory.request_bytes_max(),
        }
    }

    /// The body expanded, if that is at most `bytes_max` long.
    pub fn expanded(
        head: &Head<'_>,
        sent: &'b [u8],
        bytes_max: usize,
        memory: &Arc<Memory>,
    ) -> Result<Body<'b>, Unreadable> {
        let mut body = Body::of_plain(sent, memory);
        let reserved = &mut body.reserved;
        let mut takes = |bytes: usize| reserved.try_set(bytes as u64);
        body.bytes = compression::decoded(head, sent, bytes_max, &mut takes)?;
        Ok(body)
    }

    /// Takes memory for the values of a JSON body and a copy of its bytes, before they are read.
    /// False: there is none, and the request must be refused.
    #[must_use]
    pub fn take_values(&mut self, cost: JsonCost) -> bool {
        if self.bytes.len() < COUNTED_BYTES_MIN {
            return true;
        }
        let bytes = memory_of_values(&self.bytes, cost);
        let fits = bytes <= self.request_bytes_max;
        fits && self
            .reserved
            .try_set(self.reserved.bytes() + bytes + self.bytes.len() as u64)
    }

    /// The values are read, and the body is not needed any longer: of its memory only `bytes` stay
    /// taken.
    pub fn keep(mut self, bytes: usize) -> Reserved {
        self.reserved.set(self.reserved.bytes().min(bytes as u64));
        self.reserved
    }
}

impl Deref for Body<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// An upper bound for any text, without the copies of its bytes.
fn memory_of_values(text: &[u8], cost: JsonCost) -> u64 {
    let (mut is_string, mut is_escaped) = (false, false);
    let mut bytes = cost.element_bytes;
    for byte in text {
        match (is_string, byte) {
            (true, _) if is_escaped => is_escaped = false,
            (true, b'\\') => is_escaped = true,
            (_, b'"') => is_string = !is_string,
            (false, b',') => bytes += cost.element_bytes,
            (false, b'[') => bytes += cost.list_bytes,
            (false, b'{') => bytes += cost.object_bytes,
            _ => {}
        }
    }
    bytes as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const COST: JsonCost = JsonCost {
        element_bytes: 100,
        list_bytes: 10,
        object_bytes: 1,
    };

    #[test]
    fn values_are_counted_outside_of_strings() {
        for (text, expected) in [
            ("1", 100),
            ("[1,2]", 100 + 10 + 100),
            (r#"{"a,[{":"\",,\\","b":[]}"#, 100 + 1 + 100 + 10),
            (r#"",,,"#, 100),
        ] {
            assert_eq!(memory_of_values(text.as_bytes(), COST), expected, "{text}");
        }
    }

    /// Other tests of this process count rows at the same time; this is far more than they do.
    const MUCH: u64 = 1 << 40;

    /// A gzip body of 15 KB that expanded to 16 MB ended a server of 256 MiB when 24 connections
    /// sent it; and `{"L":[]}` a million times did by itself.
    #[test]
    fn a_body_that_has_no_room_is_refused_before_it_is_made() {
        let memory = Arc::new(Memory::default());
        memory.set_budget(Some(MUCH));
        let mut other_peers = Reserved::new(memory.clone());
        other_peers.set(MUCH - (4 << 20));
        let headers = [httparse::Header {
            name: "content-encoding",
            value: b"gzip",
        }];
        let head = Head {
            method: "POST",
            target: "/",
            headers: &headers,
        };
        let zip = |bytes: usize| compression::encoded_as("gzip", &b",".repeat(bytes)).unwrap();
        let long = zip(9 << 20);
        let refused = Body::expanded(&head, &long, 16 << 20, &memory);
        assert_eq!(refused.err(), Some(Unreadable::NoMemory));
        assert_eq!(memory.reserved_bytes(), other_peers.bytes());
        let short = zip(1 << 20);
        let mut body = Body::expanded(&head, &short, 16 << 20, &memory).unwrap();
        assert_eq!((body.len(), body[0]), (1 << 20, b','));
        let expanded = memory.reserved_bytes() - other_peers.bytes();
        assert!((1 << 20..=2 << 20).contains(&expanded), "{expanded}");
        assert!(!body.take_values(COST));
        other_peers.set(0);
        assert!(body.take_values(COST));
        assert!(memory.reserved_bytes() >= 102 << 20);
        let retained = body.keep(5);
        assert_eq!(memory.reserved_bytes(), 5);
        drop(retained);
        assert_eq!(memory.reserved_bytes(), 0);
    }
}
