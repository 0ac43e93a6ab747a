//! Deadlines of keys: setting, showing, taking away.

use quartet_wire_resp::Arguments;

use crate::command::parse;
use crate::handler::context::Context;
use crate::handler::definition::*;

const FAMILY: Family = Family::of(Group::Generic).keys(ONE_KEY).since("2.6.0");

#[rustfmt::skip]
pub const COMMANDS: &[Definition] = &[
    FAMILY.row("expire", -3, WRITE | FAST, "Lets a key expire after a number of seconds.", Answers(expire)).since("1.0.0"),
    FAMILY.row("pexpire", -3, WRITE | FAST, "Lets a key expire after a number of milliseconds.", Answers(pexpire)),
    FAMILY.row("expireat", -3, WRITE | FAST, "Lets a key expire at a Unix time in seconds.", Answers(expireat)).since("1.2.0"),
    FAMILY.row("pexpireat", -3, WRITE | FAST, "Lets a key expire at a Unix time in milliseconds.", Answers(pexpireat)),
    FAMILY.row("ttl", 2, READONLY | FAST, "Tells the seconds until a key expires.", Answers(ttl)).since("1.0.0"),
    FAMILY.row("pttl", 2, READONLY | FAST, "Tells the milliseconds until a key expires.", Answers(pttl)),
    FAMILY.row("expiretime", 2, READONLY | FAST, "Tells the Unix time in seconds at which a key expires.", Answers(expiretime)).since("7.0.0"),
    FAMILY.row("pexpiretime", 2, READONLY | FAST, "Tells the Unix time in milliseconds at which a key expires.", Answers(pexpiretime)).since("7.0.0"),
    FAMILY.row("persist", 2, WRITE | FAST, "Takes a key's deadline away.", Answers(persist)).since("2.2.0"),
];

fn expire(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    set_deadline(context, arguments, 1000, true)
}

fn pexpire(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    set_deadline(context, arguments, 1, true)
}

fn expireat(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    set_deadline(context, arguments, 1000, false)
}

fn pexpireat(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    set_deadline(context, arguments, 1, false)
}

/// The conditions of a new deadline.
#[derive(Clone, Copy, Default)]
struct Conditions {
    only_without: bool,
    only_with: bool,
    only_later: bool,
    only_earlier: bool,
}

impl Conditions {
    fn parse(arguments: Arguments<'_>) -> Result<Conditions, ErrorReply> {
        let mut conditions = Conditions::default();
        for word in arguments.iter() {
            let flag = match word.to_ascii_lowercase().as_slice() {
                b"nx" => &mut conditions.only_without,
                b"xx" => &mut conditions.only_with,
                b"gt" => &mut conditions.only_later,
                b"lt" => &mut conditions.only_earlier,
                _ => return Err(format!("ERR Unsupported option {}", String::from_utf8_lossy(word)).into()),
            };
            *flag = true;
        }
        if conditions.only_without && (conditions.only_with || conditions.only_later || conditions.only_earlier) {
            return Err("ERR NX and XX, GT or LT options at the same time are not compatible".into());
        }
        if conditions.only_later && conditions.only_earlier {
            return Err("ERR GT and LT options at the same time are not compatible".into());
        }
        Ok(conditions)
    }

    /// A key without a deadline counts as having an infinite one.
    fn allow(self, old_ms: Option<u64>, new_ms: i64) -> bool {
        let old = old_ms.map_or(i64::MAX, |old_ms| i64::try_from(old_ms).unwrap_or(i64::MAX));
        !(self.only_without && old_ms.is_some()
            || self.only_with && old_ms.is_none()
            || self.only_later && (old_ms.is_none() || new_ms <= old)
            || self.only_earlier && new_ms >= old)
    }
}

fn set_deadline(
    context: &mut Context<'_, '_>,
    arguments: Arguments<'_>,
    unit_ms: i64,
    is_relative: bool,
) -> Result<(), ErrorReply> {
    let conditions = Conditions::parse(arguments.tail(3))?;
    let amount = parse::required_integer(&arguments[2])?;
    let base_ms = if is_relative { context.now_ms as i64 } else { 0 };
    let deadline_ms = amount
        .checked_mul(unit_ms)
        .and_then(|amount_ms| amount_ms.checked_add(base_ms));
    let Some(deadline_ms) = deadline_ms else {
        let name = String::from_utf8_lossy(&arguments[0]).to_lowercase();
        return Err(format!("ERR invalid expire time in '{name}' command").into());
    };
    let name = &arguments[1];
    let is_over = u64::try_from(deadline_ms).is_ok_and(|deadline_ms| context.is_over(deadline_ms));
    let mut keys = context.keys();
    let found = keys
        .find(name)
        .filter(|entry| conditions.allow(entry.expiry_ms, deadline_ms));
    match (&found, u64::try_from(deadline_ms)) {
        (Some(entry), Ok(deadline_ms)) if !is_over => keys.set_expiry(name, entry, Some(deadline_ms)),
        (Some(_), _) => drop(keys.remove(name)),
        (None, _) => {}
    }
    context.reply.integer(i64::from(found.is_some()));
    Ok(())
}

fn ttl(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    show_deadline(context, arguments, |deadline_ms, now_ms| {
        rounded_seconds(deadline_ms - now_ms)
    })
}

fn pttl(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    show_deadline(context, arguments, |deadline_ms, now_ms| deadline_ms - now_ms)
}

fn expiretime(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    show_deadline(context, arguments, |deadline_ms, _| rounded_seconds(deadline_ms))
}

/// As Redis rounds, a duration and a point in time alike.
fn rounded_seconds(milliseconds: u64) -> u64 {
    (milliseconds + 500) / 1000
}

fn pexpiretime(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    show_deadline(context, arguments, |deadline_ms, _| deadline_ms)
}

/// -2: no such key; -1: it has no deadline.
fn show_deadline(
    context: &mut Context<'_, '_>,
    arguments: Arguments<'_>,
    show: fn(u64, u64) -> u64,
) -> Result<(), ErrorReply> {
    let answer = match context.look_at(&arguments[1]).map(|entry| entry.expiry_ms) {
        None => -2,
        Some(None) => -1,
        Some(Some(deadline_ms)) => show(deadline_ms, context.now_ms) as i64,
    };
    context.reply.integer(answer);
    Ok(())
}

fn persist(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let name = &arguments[1];
    let mut keys = context.keys();
    let found = keys.find(name).filter(|entry| entry.expiry_ms.is_some());
    if let Some(entry) = &found {
        keys.set_expiry(name, entry, None);
    }
    context.reply.integer(i64::from(found.is_some()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Fixture;

    #[test]
    fn deadlines_approach_and_pass() {
        let fixture = Fixture::new();
        let mut connection = fixture.connect();
        connection.check(
            "SET a 1 => OK
             TTL a => -1
             TTL nosuch => -2
             EXPIRE a 100 => 1
             TTL a => 100
             PTTL a => 100000
             EXPIRETIME a => 1700000100
             PEXPIRETIME a => 1700000100000
             PERSIST a => 1
             PERSIST a => 0
             PEXPIRE a 1500 => 1
             TTL a => 2",
        );
        fixture.advance_ms(1500);
        connection.check("GET a => nil\nTTL a => -2");
        fixture.layer.expire_due();
        connection.check("DBSIZE => 0");
    }

    #[test]
    fn conditions_and_extremes() {
        Fixture::new()
            .connect()
            .check(include_str!("expiry/testdata/expire.txt"));
    }
}
