//! Arithmetic. Integers stay integers and wrap at 64 bits; one double makes the result a double.

use super::collections;
use crate::error::{Errors, Result, Within};
use crate::evaluation::{Arguments, Evaluation};
use crate::number::java_double;
use crate::value::Value;

fn as_double(value: &Value) -> f64 {
    match value {
        Value::Int(integer) => *integer as f64,
        Value::Double(double) => *double,
        _ => f64::NAN,
    }
}

/// Truncated to 64 bits.
fn as_bits(value: &Value) -> i64 {
    match value {
        Value::Int(integer) => *integer,
        other => as_double(other) as i64,
    }
}

type Integers = fn(i64, i64) -> Option<i64>;

fn combine(one: &Value, other: &Value, integers: Integers, doubles: fn(f64, f64) -> f64) -> Result<Value> {
    match (one, other) {
        (Value::Int(one), Value::Int(other)) => {
            let combined = integers(*one, *other).ok_or_else(|| Errors::argument("Illegal division by zero."))?;
            Ok(Value::Int(combined))
        }
        _ => Ok(Value::Double(doubles(as_double(one), as_double(other)))),
    }
}

fn fold(arguments: &Arguments, key: &'static str, integers: Integers, doubles: fn(f64, f64) -> f64) -> Result<Value> {
    let values = arguments.many(0);
    let Some((first, rest)) = values.split_first() else {
        return Err(Errors::argument("Non-empty array expected.")).within(key);
    };
    rest.iter().try_fold(first.clone(), |folded, value| {
        combine(&folded, value, integers, doubles)
    })
}

pub fn plus(one: &Value, other: &Value) -> Result<Value> {
    combine(
        one,
        other,
        |one, other| Some(one.wrapping_add(other)),
        |one, other| one + other,
    )
}

pub fn add(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    fold(
        arguments,
        "add",
        |one, other| Some(one.wrapping_add(other)),
        |one, other| one + other,
    )
}

pub fn subtract(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    fold(
        arguments,
        "subtract",
        |one, other| Some(one.wrapping_sub(other)),
        |one, other| one - other,
    )
}

pub fn multiply(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    fold(
        arguments,
        "multiply",
        |one, other| Some(one.wrapping_mul(other)),
        |one, other| one * other,
    )
}

/// Division by a zero of either kind is refused.
fn check_divisors(arguments: &Arguments) -> Result<()> {
    let zero = arguments.many(0).iter().skip(1).any(|value| as_double(value) == 0.0);
    match zero {
        true => Err(Errors::argument("Illegal division by zero.")),
        false => Ok(()),
    }
}

pub fn divide(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    check_divisors(arguments).within("divide")?;
    let integers: Integers = |one, other| (other != 0).then(|| one.wrapping_div(other));
    fold(arguments, "divide", integers, |one, other| one / other)
}

pub fn modulo(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    check_divisors(arguments).within("modulo")?;
    let integers: Integers = |one, other| (other != 0).then(|| one.wrapping_rem(other));
    fold(arguments, "modulo", integers, |one, other| one % other)
}

fn bits(arguments: &Arguments, key: &'static str, combine: fn(i64, i64) -> i64) -> Result<Value> {
    let values = arguments.many(0);
    let combined = values.iter().map(as_bits).reduce(combine);
    let combined = combined
        .ok_or_else(|| Errors::argument("Non-empty array expected."))
        .within(key)?;
    Ok(match values.iter().any(|value| matches!(value, Value::Double(_))) {
        true => Value::Double(combined as f64),
        false => Value::Int(combined),
    })
}

pub fn bit_and(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    bits(arguments, "bitand", |one, other| one & other)
}

pub fn bit_or(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    bits(arguments, "bitor", |one, other| one | other)
}

pub fn bit_xor(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    bits(arguments, "bitxor", |one, other| one ^ other)
}

pub fn bit_not(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    Ok(match arguments.value(0) {
        Value::Double(double) => Value::Double(!(*double as i64) as f64),
        other => Value::Int(!as_bits(other)),
    })
}

fn extreme(evaluation: &mut Evaluation<'_>, arguments: &Arguments, larger: bool, key: &'static str) -> Result<Value> {
    let value = arguments.value(0);
    collections::extreme(evaluation, value, larger, key)
}

pub fn max(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    extreme(evaluation, arguments, true, "max")
}

pub fn min(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    extreme(evaluation, arguments, false, "min")
}

/// Integers are left alone or treated apart, doubles computed.
fn kept(arguments: &Arguments, integers: fn(i64) -> i64, doubles: fn(f64) -> f64) -> Result<Value> {
    Ok(match arguments.value(0) {
        Value::Int(integer) => Value::Int(integers(*integer)),
        other => Value::Double(doubles(as_double(other))),
    })
}

pub fn abs(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    kept(arguments, i64::wrapping_abs, f64::abs)
}

pub fn ceil(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    kept(arguments, |integer| integer, f64::ceil)
}

pub fn floor(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    kept(arguments, |integer| integer, f64::floor)
}

pub fn sign(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let value = as_double(arguments.value(0));
    Ok(Value::Int(i64::from(value > 0.0) - i64::from(value < 0.0)))
}

/// To a number of digits behind the point, before it if negative.
fn to_precision(arguments: &Arguments, round: fn(f64) -> f64) -> Result<Value> {
    let precision = arguments.integer(1).unwrap_or(2).clamp(-20, 300) as i32;
    match arguments.value(0) {
        Value::Int(integer) if precision >= 0 => Ok(Value::Int(*integer)),
        Value::Int(integer) => {
            let scale = 10f64.powi(-precision);
            Ok(Value::Int((round(*integer as f64 / scale) * scale) as i64))
        }
        other => {
            let double = as_double(other);
            let scale = 10f64.powi(precision);
            let scaled = double * scale;
            Ok(Value::Double(if scaled.is_finite() {
                round(scaled) / scale
            } else {
                double
            }))
        }
    }
}

pub fn round(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    // Halves go towards positive infinity, as in Java.
    to_precision(arguments, |value| (value + 0.5).floor())
}

pub fn trunc(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    to_precision(arguments, f64::trunc)
}

fn computed(arguments: &Arguments, compute: fn(f64) -> f64) -> Result<Value> {
    Ok(Value::Double(compute(as_double(arguments.value(0)))))
}

/// Computes inside a domain and refuses outside.
fn within_domain(
    arguments: &Arguments,
    key: &'static str,
    domain: fn(f64) -> bool,
    predicate: &str,
    compute: fn(f64) -> f64,
) -> Result<Value> {
    let value = as_double(arguments.value(0));
    if domain(value) {
        return Ok(Value::Double(compute(value)));
    }
    let shown = match arguments.value(0) {
        Value::Int(integer) => integer.to_string(),
        _ => java_double(value),
    };
    Err(Errors::argument(format!("{shown} must be {predicate}."))).within(key)
}

pub fn sqrt(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    within_domain(arguments, "sqrt", |value| value >= 0.0, "positive", f64::sqrt)
}

pub fn acos(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    within_domain(
        arguments,
        "acos",
        |value| value.abs() <= 1.0,
        "between -1.0 and 1.0",
        f64::acos,
    )
}

pub fn asin(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    within_domain(
        arguments,
        "asin",
        |value| value.abs() <= 1.0,
        "between -1.0 and 1.0",
        f64::asin,
    )
}

pub fn ln(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    within_domain(arguments, "ln", |value| value > 0.0, "positive", f64::ln)
}

pub fn log(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    within_domain(arguments, "log", |value| value > 0.0, "positive", f64::log10)
}

pub fn atan(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    computed(arguments, f64::atan)
}

pub fn cos(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    computed(arguments, f64::cos)
}

pub fn cosh(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    computed(arguments, f64::cosh)
}

pub fn degrees(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    computed(arguments, |radians| radians * 180.0 / std::f64::consts::PI)
}

pub fn radians(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    computed(arguments, |degrees| degrees / 180.0 * std::f64::consts::PI)
}

pub fn exp(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    computed(arguments, f64::exp)
}

pub fn sin(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    computed(arguments, f64::sin)
}

pub fn sinh(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    computed(arguments, f64::sinh)
}

pub fn tan(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    computed(arguments, f64::tan)
}

pub fn tanh(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    computed(arguments, f64::tanh)
}

pub fn hypot(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let one = as_double(arguments.value(0));
    Ok(Value::Double(one.hypot(arguments.optional(1).map_or(one, as_double))))
}

pub fn pow(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let exponent = arguments.optional(1).map_or(2.0, as_double);
    Ok(Value::Double(as_double(arguments.value(0)).powf(exponent)))
}
