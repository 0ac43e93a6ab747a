//! Times and dates.

use crate::evaluation::{Arguments, Evaluation};
use crate::language::error::{Errors, Result, Within};
use crate::language::time::{Date, Time, Unit};
use crate::language::value::Value;

fn now_of(evaluation: &mut Evaluation<'_>) -> Value {
    evaluation.show(evaluation.now_micros);
    Value::Time(Time::from_micros(evaluation.now_micros as i64))
}

pub fn now(evaluation: &mut Evaluation<'_>, _: &Arguments) -> Result<Value> {
    Ok(now_of(evaluation))
}

pub fn time(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    parse_time(evaluation, arguments.text(0))
}

/// Returns the text without the characters that Java's `trim` removes.
fn trimmed(text: &str) -> &str {
    text.trim_matches(|c: char| c <= ' ')
}

fn parse_time(evaluation: &mut Evaluation<'_>, text: &str) -> Result<Value> {
    if text == "now" {
        return Ok(now_of(evaluation));
    }
    let time = Time::parse(trimmed(text)).map(Value::Time);
    time.ok_or_else(|| Errors::argument(format!("Cannot cast '{text}' to a time.")))
}

fn parse_date(text: &str) -> Result<Value> {
    let date = Date::parse(trimmed(text)).map(Value::Date);
    date.ok_or_else(|| Errors::argument(format!("Cannot cast '{text}' to a date.")))
}

pub fn date(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    parse_date(arguments.text(0))
}

/// The declaration has checked that it is one.
fn unit(arguments: &Arguments, index: usize) -> Unit {
    Unit::parse(arguments.text(index)).expect("the declaration asks for a unit")
}

fn out_of_range() -> Errors {
    Errors::argument(
        "dates and times must be between -1000000000-01-01T00:00:00Z and +1000000000-12-31T23:59:59.999999999Z",
    )
}

pub fn epoch(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let nanos = i128::from(arguments.integer(0).unwrap_or(0)) * unit(arguments, 1).nanos();
    Time::from_nanos(nanos).map(Value::Time).ok_or_else(out_of_range)
}

/// A time; integers are microseconds.
fn time_of(value: &Value) -> Time {
    match value {
        Value::Time(time) => *time,
        Value::Int(micros) => Time::from_micros(*micros),
        _ => unreachable!("the declaration asks for a time"),
    }
}

fn part(arguments: &Arguments, part: fn(Time) -> i64) -> Result<Value> {
    Ok(Value::Int(part(time_of(arguments.value(0)))))
}

pub fn to_micros(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    part(arguments, Time::micros)
}

pub fn to_millis(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    part(arguments, |time| time.nanos_total().div_euclid(1_000_000) as i64)
}

pub fn to_seconds(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    part(arguments, |time| time.seconds)
}

pub fn second(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    part(arguments, |time| time.second_of_day() % 60)
}

pub fn minute(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    part(arguments, |time| time.second_of_day() / 60 % 60)
}

pub fn hour(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    part(arguments, |time| time.second_of_day() / 3600)
}

fn date_part(arguments: &Arguments, part: fn(Date) -> i64) -> Result<Value> {
    Ok(Value::Int(part(time_of(arguments.value(0)).date())))
}

pub fn day_of_month(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    date_part(arguments, |date| i64::from(date.civil().day))
}

pub fn day_of_week(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    date_part(arguments, Date::day_of_week)
}

pub fn day_of_year(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    date_part(arguments, Date::day_of_year)
}

pub fn month(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    date_part(arguments, |date| i64::from(date.civil().month))
}

pub fn year(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    date_part(arguments, |date| date.civil().year)
}

fn invalid_unit(arguments: &Arguments, index: usize) -> Errors {
    let message = format!("Invalid time unit '{}'.", arguments.text(index));
    Errors::argument(message).within(crate::language::error::Step::Key("unit"))
}

fn moved(arguments: &Arguments, sign: i64) -> Result<Value> {
    let unit = unit(arguments, 2);
    let offset = i128::from(arguments.integer(1).unwrap_or(0)) * i128::from(sign);
    let moved = match arguments.value(0) {
        Value::Date(date) if unit == Unit::Day => {
            let days = i64::try_from(offset).ok();
            days.and_then(|days| date.checked_add(days)).map(Value::Date)
        }
        Value::Time(time) => Time::from_nanos(time.nanos_total() + offset * unit.nanos()).map(Value::Time),
        _ => return Err(invalid_unit(arguments, 2)),
    };
    moved.ok_or_else(out_of_range).within("offset")
}

pub fn add(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    moved(arguments, 1)
}

pub fn subtract(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    moved(arguments, -1)
}

pub fn difference(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let unit = unit(arguments, 2);
    match (arguments.value(0), arguments.value(1)) {
        // Milliseconds are counted on the clock, everything else as whole units between.
        (Value::Time(one), Value::Time(other)) if unit == Unit::Millisecond => {
            let millis = |time: &Time| time.nanos_total().div_euclid(unit.nanos());
            i64::try_from(millis(other) - millis(one))
                .map(Value::Int)
                .map_err(|_| out_of_range())
        }
        (Value::Time(one), Value::Time(other)) => {
            let units = (other.nanos_total() - one.nanos_total()) / unit.nanos();
            i64::try_from(units).map(Value::Int).map_err(|_| out_of_range())
        }
        (Value::Date(one), Value::Date(other)) if unit == Unit::Day => Ok(Value::Int(other.days - one.days)),
        (Value::Date(_), Value::Date(_)) => Err(invalid_unit(arguments, 2)),
        _ => Err(Errors::argument("Incompatible time arguments.")).within("time_diff"),
    }
}

/// Casts to a time: integers are milliseconds.
pub fn cast_to_time(evaluation: &mut Evaluation<'_>, value: &Value) -> Option<Result<Value>> {
    Some(match value {
        Value::Time(_) => Ok(value.clone()),
        Value::Date(date) => Ok(Value::Time(date.midnight())),
        Value::String(text) => parse_time(evaluation, text),
        Value::Int(millis) => Time::from_nanos(i128::from(*millis) * 1_000_000)
            .map(Value::Time)
            .ok_or_else(out_of_range),
        _ => return None,
    })
}

pub fn cast_to_date(value: &Value) -> Option<Result<Value>> {
    Some(match value {
        Value::Date(_) => Ok(value.clone()),
        Value::Time(time) => Ok(Value::Date(time.date())),
        Value::String(text) => parse_date(text),
        _ => return None,
    })
}
