//! Times and dates.

use super::strings::shown;
use crate::error::{Errors, Result, Within};
use crate::evaluation::{Arguments, Evaluation, wrong_type};
use crate::time::{Date, Time, Unit};
use crate::value::Value;

fn now_of(evaluation: &Evaluation<'_>) -> Value {
    Value::Time(Time::from_micros(evaluation.now_micros as i64))
}

pub fn now(evaluation: &mut Evaluation<'_>, _: &Arguments) -> Result<Value> {
    Ok(now_of(evaluation))
}

pub fn time(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    match arguments.text(0) {
        "now" => Ok(now_of(evaluation)),
        text => parse_time(text).within("time"),
    }
}

pub fn parse_time(text: &str) -> Result<Value> {
    let time = Time::parse(text).map(Value::Time);
    time.ok_or_else(|| Errors::argument(format!("Cannot cast '{text}' to a time.")))
}

pub fn parse_date(text: &str) -> Result<Value> {
    let date = Date::parse(text).map(Value::Date);
    date.ok_or_else(|| Errors::argument(format!("Cannot cast '{text}' to a date.")))
}

pub fn date(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    parse_date(arguments.text(0)).within("date")
}

fn unit(arguments: &Arguments, index: usize) -> Result<Unit> {
    let name = arguments.text(index);
    Unit::parse(name)
        .ok_or_else(|| wrong_type("Time Unit", arguments.value(index)))
        .within("unit")
}

fn out_of_range() -> Errors {
    Errors::argument("Time is out of range.")
}

pub fn epoch(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let unit = unit(arguments, 1)?;
    let nanos = match arguments.value(0) {
        Value::Double(double) => (*double * unit.nanos() as f64) as i128,
        other => i128::from(if let Value::Int(integer) = other { *integer } else { 0 }) * unit.nanos(),
    };
    Time::from_nanos(nanos)
        .map(Value::Time)
        .ok_or_else(out_of_range)
        .within("epoch")
}

/// A time; integers are microseconds.
fn time_of(evaluation: &Evaluation<'_>, value: &Value) -> Time {
    match value {
        Value::Time(time) => *time,
        Value::Int(micros) => Time::from_micros(*micros),
        Value::Date(date) => date.midnight(),
        _ => Time::from_micros(evaluation.now_micros as i64),
    }
}

fn part(evaluation: &Evaluation<'_>, arguments: &Arguments, part: fn(Time) -> i64) -> Result<Value> {
    Ok(Value::Int(part(time_of(evaluation, arguments.value(0)))))
}

pub fn to_micros(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    part(evaluation, arguments, Time::micros)
}

pub fn to_millis(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    part(evaluation, arguments, |time| time.micros().div_euclid(1000))
}

pub fn to_seconds(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    part(evaluation, arguments, |time| time.seconds)
}

pub fn second(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    part(evaluation, arguments, |time| time.second_of_day() % 60)
}

pub fn minute(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    part(evaluation, arguments, |time| time.second_of_day() / 60 % 60)
}

pub fn hour(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    part(evaluation, arguments, |time| time.second_of_day() / 3600)
}

fn date_part(
    evaluation: &Evaluation<'_>,
    arguments: &Arguments,
    key: &'static str,
    part: fn(Date) -> i64,
) -> Result<Value> {
    match arguments.value(0) {
        value @ (Value::Time(_) | Value::Int(_) | Value::Date(_) | Value::TransactionTime) => {
            Ok(Value::Int(part(time_of(evaluation, value).date())))
        }
        other => Err(wrong_type("Time", other)).within(key),
    }
}

pub fn day_of_month(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    date_part(evaluation, arguments, "day_of_month", |date| {
        i64::from(date.civil().day)
    })
}

pub fn day_of_week(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    date_part(evaluation, arguments, "day_of_week", Date::day_of_week)
}

pub fn day_of_year(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    date_part(evaluation, arguments, "day_of_year", Date::day_of_year)
}

pub fn month(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    date_part(evaluation, arguments, "month", |date| i64::from(date.civil().month))
}

pub fn year(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    date_part(evaluation, arguments, "year", |date| date.civil().year)
}

fn moved(arguments: &Arguments, key: &'static str, sign: i64) -> Result<Value> {
    let unit = unit(arguments, 2)?;
    let offset = i128::from(arguments.integer(1).unwrap_or(0)) * i128::from(sign);
    let moved = match arguments.value(0) {
        Value::Date(date) if unit == Unit::Day => {
            let days = i64::try_from(offset).ok();
            days.and_then(|days| date.checked_add(days)).map(Value::Date)
        }
        Value::Date(_) => {
            let message = format!("Time unit '{}' is not valid for a Date.", arguments.text(2));
            return Err(Errors::argument(message)).within("unit");
        }
        Value::Time(time) => Time::from_nanos(time.nanos_total() + offset * unit.nanos()).map(Value::Time),
        _ => None,
    };
    moved.ok_or_else(out_of_range).within(key)
}

pub fn add(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    moved(arguments, "time_add", 1)
}

pub fn subtract(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    moved(arguments, "time_subtract", -1)
}

pub fn difference(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let unit = unit(arguments, 2)?;
    let nanos = match (arguments.value(0), arguments.value(1)) {
        (Value::Time(one), Value::Time(other)) => other.nanos_total() - one.nanos_total(),
        (Value::Date(one), Value::Date(other)) => other.midnight().nanos_total() - one.midnight().nanos_total(),
        _ => return Err(Errors::argument("Incompatible time arguments.")),
    };
    let units = nanos / unit.nanos();
    i64::try_from(units).map(Value::Int).map_err(|_| out_of_range())
}

/// Casts to a time: integers are milliseconds.
pub fn cast_to_time(value: &Value) -> Option<Result<Value>> {
    Some(match value {
        Value::Time(_) => Ok(value.clone()),
        Value::Date(date) => Ok(Value::Time(date.midnight())),
        Value::String(text) => parse_time(text),
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
        Value::String(text) => match Date::parse(text) {
            Some(date) => Ok(Value::Date(date)),
            None => parse_date(&shown(value)),
        },
        _ => return None,
    })
}
