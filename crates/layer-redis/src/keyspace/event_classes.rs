//! The classes of keyspace events, and their letters in `notify-keyspace-events`.

/// Publish on `__keyspace@<db>__:<key>`, and on `__keyevent@<db>__:<event>`.
pub const KEYSPACE: u32 = 1;
pub const KEYEVENT: u32 = 1 << 1;
pub const GENERIC: u32 = 1 << 2;
pub const STRING: u32 = 1 << 3;
pub const LIST: u32 = 1 << 4;
pub const SET: u32 = 1 << 5;
pub const HASH: u32 = 1 << 6;
pub const SORTED_SET: u32 = 1 << 7;
pub const EXPIRED: u32 = 1 << 8;
pub const EVICTED: u32 = 1 << 9;
pub const STREAM: u32 = 1 << 10;
pub const MISSED: u32 = 1 << 11;
pub const MODULE: u32 = 1 << 12;
pub const NEW: u32 = 1 << 13;
pub const OVERWRITTEN: u32 = 1 << 14;
pub const TYPE_CHANGED: u32 = 1 << 15;
pub const ALL: u32 = GENERIC | STRING | LIST | SET | HASH | SORTED_SET | EXPIRED | EVICTED | STREAM | MODULE;

const LETTERS: &[(char, u32)] = &[
    ('K', KEYSPACE),
    ('E', KEYEVENT),
    ('A', ALL),
    ('g', GENERIC),
    ('$', STRING),
    ('l', LIST),
    ('s', SET),
    ('h', HASH),
    ('z', SORTED_SET),
    ('x', EXPIRED),
    ('e', EVICTED),
    ('t', STREAM),
    ('m', MISSED),
    ('d', MODULE),
    ('n', NEW),
    ('o', OVERWRITTEN),
    ('c', TYPE_CHANGED),
];

/// The classes that a value of `notify-keyspace-events` names; none if it names no kind of channel.
pub fn classes(text: &str) -> u32 {
    let letters = LETTERS.iter().filter(|(letter, _)| text.contains(*letter));
    let classes = letters.fold(0, |classes, (_, bits)| classes | bits);
    if classes & (KEYSPACE | KEYEVENT) == 0 {
        0
    } else {
        classes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_need_a_kind_of_channel() {
        for (text, expected) in [
            ("", 0),
            ("A", 0),
            ("K", KEYSPACE),
            ("Ex", KEYEVENT | EXPIRED),
            ("AK", KEYSPACE | ALL),
            ("KEmn", KEYSPACE | KEYEVENT | MISSED | NEW),
        ] {
            assert_eq!(classes(text), expected, "{text:?}");
        }
    }
}
