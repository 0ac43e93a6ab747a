//! The words that may follow the value in SET and the key in GETEX: conditions, GET, and what
//! becomes of the expiry.

use quartet_engine::Transaction;
use quartet_wire_resp::Arguments;
use xxhash_rust::xxh3::xxh3_64;

use crate::command::error_reply::ErrorReply;
use crate::keyspace::Entry;
use crate::keyspace::string_value::StringValue;
use crate::{command::errors, command::parse};

/// The request of SET or GETEX.
#[derive(Default)]
pub struct Options<'a> {
    pub condition: Condition<'a>,
    /// SET's GET: answer the value before.
    pub get: bool,
    pub lifetime: Lifetime<'a>,
}

/// The condition of SET or DELEX.
#[derive(Clone, Copy, Default)]
pub enum Condition<'a> {
    #[default]
    Always,
    IfAbsent,
    IfPresent,
    IfEqual(&'a [u8]),
    IfNotEqual(&'a [u8]),
    IfDigestEqual(&'a [u8]),
    IfDigestNotEqual(&'a [u8]),
}

/// The handling of the key's expiry.
#[derive(Clone, Copy, Default)]
pub enum Lifetime<'a> {
    /// Not said: SET clears the expiry, GETEX keeps it.
    #[default]
    Unsaid,
    Keep,
    Persist,
    Until(Unit, &'a [u8]),
}

/// How an expiry is given.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Seconds,
    Milliseconds,
    UnixSeconds,
    UnixMilliseconds,
}

/// Hexadecimal digits of a digest.
const DIGEST_DIGITS: usize = 16;

/// The options of SET: all arguments after the value.
pub fn of_set(arguments: Arguments<'_>) -> Result<Options<'_>, ErrorReply> {
    let mut options = Options::default();
    let mut words = arguments.iter().skip(3);
    while let Some(word) = words.next() {
        if parse::is(word, "GET") {
            options.get = true;
        } else if parse::is(word, "NX") && matches!(options.condition, Condition::Always | Condition::IfAbsent) {
            options.condition = Condition::IfAbsent;
        } else if parse::is(word, "XX") && matches!(options.condition, Condition::Always | Condition::IfPresent) {
            options.condition = Condition::IfPresent;
        } else if parse::is(word, "KEEPTTL") && matches!(options.lifetime, Lifetime::Unsaid | Lifetime::Keep) {
            options.lifetime = Lifetime::Keep;
        } else if let Some(unit) = unit(word) {
            options.lifetime = until(options.lifetime, unit, words.next())?;
        } else {
            let condition = Condition::on_value(word, words.next());
            let first = matches!(options.condition, Condition::Always);
            options.condition = condition.filter(|_| first).ok_or(errors::SYNTAX)?;
        }
    }
    options.condition.check_digest()?;
    Ok(options)
}

/// The options of MSETEX: all arguments after the values.
pub fn of_msetex(arguments: Arguments<'_>) -> Result<Options<'_>, ErrorReply> {
    let mut options = Options::default();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let is_first = matches!(options.condition, Condition::Always);
        if parse::is(word, "NX") && is_first {
            options.condition = Condition::IfAbsent;
        } else if parse::is(word, "XX") && is_first {
            options.condition = Condition::IfPresent;
        } else if parse::is(word, "KEEPTTL") && matches!(options.lifetime, Lifetime::Unsaid) {
            options.lifetime = Lifetime::Keep;
        } else {
            let unit = unit(word).ok_or(errors::SYNTAX)?;
            options.lifetime = until(options.lifetime, unit, words.next())?;
        }
    }
    Ok(options)
}

/// The options of GETEX: all arguments after the key.
pub fn of_getex(arguments: Arguments<'_>) -> Result<Lifetime<'_>, ErrorReply> {
    let mut lifetime = Lifetime::Unsaid;
    let mut words = arguments.iter().skip(2);
    while let Some(word) = words.next() {
        if parse::is(word, "PERSIST") && matches!(lifetime, Lifetime::Unsaid | Lifetime::Persist) {
            lifetime = Lifetime::Persist;
        } else {
            let unit = unit(word).ok_or(errors::SYNTAX)?;
            lifetime = until(lifetime, unit, words.next())?;
        }
    }
    Ok(lifetime)
}

/// The condition of DELEX; with no further words it always acts.
pub fn of_delex(arguments: Arguments<'_>) -> Result<Condition<'_>, ErrorReply> {
    match (arguments.len(), arguments.get(2)) {
        (2, _) => Ok(Condition::Always),
        (4, Some(word)) => Condition::on_value(word, arguments.get(3))
            .ok_or_else(|| "ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE".into()),
        _ => Err("ERR wrong number of arguments for 'delex' command".into()),
    }
}

/// Sets the deadline; the same unit may be given again, and the last one counts.
fn until<'a>(before: Lifetime<'a>, unit: Unit, amount: Option<&'a [u8]>) -> Result<Lifetime<'a>, ErrorReply> {
    let agrees = match before {
        Lifetime::Unsaid => true,
        Lifetime::Until(before, _) => before == unit,
        Lifetime::Keep | Lifetime::Persist => false,
    };
    let amount = amount.filter(|_| agrees).ok_or(errors::SYNTAX)?;
    Ok(Lifetime::Until(unit, amount))
}

fn unit(word: &[u8]) -> Option<Unit> {
    const UNITS: [(&str, Unit); 4] = [
        ("EX", Unit::Seconds),
        ("PX", Unit::Milliseconds),
        ("EXAT", Unit::UnixSeconds),
        ("PXAT", Unit::UnixMilliseconds),
    ];
    UNITS
        .iter()
        .find(|(name, _)| parse::is(word, name))
        .map(|&(_, unit)| unit)
}

/// A deadline in milliseconds since the Unix epoch, positive, from an amount as `command` was given
/// it.
pub fn deadline_ms(unit: Unit, amount: &[u8], now_ms: u64, command: &str) -> Result<u64, ErrorReply> {
    let amount = parse::required_integer(amount)?;
    let scale = match unit {
        Unit::Seconds | Unit::UnixSeconds => 1000,
        Unit::Milliseconds | Unit::UnixMilliseconds => 1,
    };
    let start = match unit {
        Unit::Seconds | Unit::Milliseconds => now_ms as i64,
        Unit::UnixSeconds | Unit::UnixMilliseconds => 0,
    };
    Some(amount)
        .filter(|&amount| amount > 0)
        .and_then(|amount| amount.checked_mul(scale)?.checked_add(start))
        .map(|deadline| deadline as u64)
        .ok_or_else(|| format!("ERR invalid expire time in '{command}' command").into())
}

impl<'a> Condition<'a> {
    fn on_value(word: &[u8], operand: Option<&'a [u8]>) -> Option<Condition<'a>> {
        let operand = operand?;
        if parse::is(word, "IFEQ") {
            Some(Condition::IfEqual(operand))
        } else if parse::is(word, "IFNE") {
            Some(Condition::IfNotEqual(operand))
        } else if parse::is(word, "IFDEQ") {
            Some(Condition::IfDigestEqual(operand))
        } else if parse::is(word, "IFDNE") {
            Some(Condition::IfDigestNotEqual(operand))
        } else {
            None
        }
    }

    /// A digest that cannot be one is an error, not a difference.
    pub fn check_digest(&self) -> Result<(), ErrorReply> {
        match self {
            Condition::IfDigestEqual(digest) | Condition::IfDigestNotEqual(digest)
                if digest.len() != DIGEST_DIGITS || !digest.iter().all(u8::is_ascii_hexdigit) =>
            {
                Err("ERR The digest must be exactly 16 hexadecimal characters".into())
            }
            _ => Ok(()),
        }
    }

    /// The condition looks at the value, which must be a string then.
    pub fn reads_value(&self) -> bool {
        !matches!(self, Condition::Always | Condition::IfAbsent | Condition::IfPresent)
    }

    /// Returns true if it holds for the key as it is.
    pub fn holds(&self, tx: &mut Transaction<'_>, entry: Option<&Entry>) -> bool {
        let value = entry.map(StringValue::of);
        match *self {
            Condition::Always => true,
            Condition::IfAbsent => value.is_none(),
            Condition::IfPresent => value.is_some(),
            Condition::IfEqual(operand) => is_value(tx, value, operand),
            Condition::IfNotEqual(operand) => !is_value(tx, value, operand),
            Condition::IfDigestEqual(digest) => value.is_some_and(|value| has_digest(&value.whole(tx), digest)),
            Condition::IfDigestNotEqual(digest) => !value.is_some_and(|value| has_digest(&value.whole(tx), digest)),
        }
    }
}

fn is_value(tx: &mut Transaction<'_>, value: Option<StringValue<'_>>, operand: &[u8]) -> bool {
    let alike = value.filter(|value| value.length() == operand.len() as u64);
    alike.is_some_and(|value| *value.whole(tx) == *operand)
}

fn has_digest(value: &[u8], expected: &[u8]) -> bool {
    digest(value).as_bytes().eq_ignore_ascii_case(expected)
}

/// The digest that DIGEST answers.
pub fn digest(value: &[u8]) -> String {
    format!("{:016x}", xxh3_64(value))
}
