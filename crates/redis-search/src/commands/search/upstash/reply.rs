//! Figures as replies. Numbers that are not whole are bulk strings in RESP2, as short as they can
//! be.

use quartet_search::upstash::Figure;
use quartet_wire_resp::{Protocol, Reply};

pub fn figure(reply: &mut Reply<'_>, figure: &Figure) {
    match figure {
        Figure::Null => reply.null(),
        Figure::Integer(number) => reply.integer(*number),
        Figure::Number(number) => self::number(reply, *number),
        Figure::Text(text) => reply.bulk(text.as_bytes()),
        Figure::Map(pairs) => {
            reply.map(pairs.len());
            for (name, figure) in pairs {
                reply.bulk(name.as_bytes());
                self::figure(reply, figure);
            }
        }
        Figure::List(figures) => {
            reply.array(figures.len());
            figures.iter().for_each(|figure| self::figure(reply, figure));
        }
    }
}

pub fn number(reply: &mut Reply<'_>, number: f64) {
    match reply.protocol() {
        Protocol::Resp2 => reply.bulk(number.to_string().as_bytes()),
        Protocol::Resp3 => reply.double(number),
    }
}

/// A score, which was computed in single precision.
pub fn score(reply: &mut Reply<'_>, score: f32) {
    match reply.protocol() {
        Protocol::Resp2 => reply.bulk(score.to_string().as_bytes()),
        Protocol::Resp3 => reply.double(score.into()),
    }
}
