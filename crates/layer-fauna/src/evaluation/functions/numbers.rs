//! Arithmetic. Integers stay integers and wrap at 64 bits; one double makes the result a double.

use super::collections;
use crate::evaluation::{Arguments, Evaluation};
use crate::language::error::{Errors, Result};
use crate::language::number::java_double;
use crate::language::value::Value;

/// As Java has them: products with these differ in the last digit from a multiplication and a
/// division.
const DEGREES_IN_RADIAN: f64 = 57.295_779_513_082_32;
const RADIANS_IN_DEGREE: f64 = 0.017_453_292_519_943_295;

pub fn as_double(value: &Value) -> f64 {
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

/// An operation's result for each pair of kinds. `None`: the divisor is zero.
struct Operation {
    integers: fn(i64, i64) -> Option<i64>,
    doubles: fn(f64, f64) -> Option<f64>,
}

const ADD: Operation = Operation {
    integers: |a, b| Some(a.wrapping_add(b)),
    doubles: |a, b| Some(a + b),
};
const SUBTRACT: Operation = Operation {
    integers: |a, b| Some(a.wrapping_sub(b)),
    doubles: |a, b| Some(a - b),
};
const MULTIPLY: Operation = Operation {
    integers: |a, b| Some(a.wrapping_mul(b)),
    doubles: |a, b| Some(a * b),
};
const DIVIDE: Operation = Operation {
    integers: |a, b| (b != 0).then(|| a.wrapping_div(b)),
    doubles: |a, b| (b != 0.0).then(|| a / b),
};
const MODULO: Operation = Operation {
    integers: |a, b| (b != 0).then(|| a.wrapping_rem(b)),
    doubles: |a, b| (b != 0.0).then(|| a % b),
};

fn combine(first: &Value, other: &Value, operation: &Operation) -> Result<Value> {
    let combined = match (first, other) {
        (Value::Int(first), Value::Int(other)) => (operation.integers)(*first, *other).map(Value::Int),
        _ => (operation.doubles)(as_double(first), as_double(other)).map(Value::Double),
    };
    combined.ok_or_else(|| Errors::argument("Illegal division by zero."))
}

/// Folds from the left, so a double makes what follows it doubles.
fn fold(arguments: &Arguments, operation: &Operation) -> Result<Value> {
    let (first, following) = arguments.one_or_more(0);
    following
        .iter()
        .try_fold(first.clone(), |folded, value| combine(&folded, value, operation))
}

pub fn plus(first: &Value, other: &Value) -> Result<Value> {
    combine(first, other, &ADD)
}

pub fn add(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    fold(arguments, &ADD)
}

pub fn subtract(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    fold(arguments, &SUBTRACT)
}

pub fn multiply(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    fold(arguments, &MULTIPLY)
}

pub fn divide(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    fold(arguments, &DIVIDE)
}

pub fn modulo(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    fold(arguments, &MODULO)
}

/// Works on 64 bits at every step; a double makes what follows it doubles.
fn bits(arguments: &Arguments, combine: fn(i64, i64) -> i64) -> Value {
    let (first, following) = arguments.one_or_more(0);
    following.iter().fold(first.clone(), |folded, value| {
        let combined = combine(as_bits(&folded), as_bits(value));
        match (&folded, value) {
            (Value::Int(_), Value::Int(_)) => Value::Int(combined),
            _ => Value::Double(combined as f64),
        }
    })
}

pub fn bit_and(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    Ok(bits(arguments, |a, b| a & b))
}

pub fn bit_or(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    Ok(bits(arguments, |a, b| a | b))
}

pub fn bit_xor(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    Ok(bits(arguments, |a, b| a ^ b))
}

pub fn bit_not(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    Ok(Value::Int(!as_bits(arguments.value(0))))
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

/// Integers are unchanged or handled separately, doubles computed.
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

/// Zero has no sign only as an integer.
pub fn sign(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    Ok(Value::Int(match arguments.value(0) {
        Value::Int(integer) => integer.signum(),
        other if as_double(other) < 0.0 => -1,
        _ => 1,
    }))
}

/// The number of decimal places; negative: places before the point.
fn precision(arguments: &Arguments) -> Option<f64> {
    arguments.integer(1).map(|precision| precision as f64)
}

/// The steps, and where they lose digits, are the original's: a whole part and a fraction, each cut
/// to 64 bits.
fn cut_behind_point(double: f64, precision: f64, halves: bool) -> f64 {
    let scale = 10f64.powf(precision) as i32;
    let whole = double as i64;
    let half = if halves { 0.5 / f64::from(scale) } else { 0.0 };
    let fraction = ((double - whole as f64 + half) * f64::from(scale)) as i64;
    whole as f64 + fraction as f64 / f64::from(scale)
}

pub fn round(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let precision = precision(arguments);
    let before_point = |number: f64, precision: f64| {
        let scale = 10f64.powf(precision);
        ((number * scale + 0.5) as i64 as f64 / scale) as i64
    };
    Ok(match (arguments.value(0), precision) {
        (Value::Int(integer), Some(precision)) if precision <= 0.0 => {
            Value::Int(before_point(*integer as f64, precision))
        }
        (Value::Int(integer), _) => Value::Int(*integer),
        (other, precision) => {
            let (double, precision) = (as_double(other), precision.unwrap_or(2.0));
            Value::Double(match precision > 0.0 {
                true => cut_behind_point(double, precision, true),
                false => before_point(double, precision) as f64,
            })
        }
    })
}

pub fn trunc(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let precision = precision(arguments);
    let before_point = |number: f64, precision: f64| {
        let scale = 10f64.powf(precision);
        (number * scale) as i64 as f64 / scale
    };
    Ok(match (arguments.value(0), precision) {
        (Value::Int(integer), Some(precision)) if precision <= 0.0 => {
            Value::Int(before_point(*integer as f64, precision) as i64)
        }
        (Value::Int(integer), _) => Value::Int(*integer),
        (other, precision) => {
            let (double, precision) = (as_double(other), precision.unwrap_or(2.0));
            Value::Double(match precision > 0.0 {
                true => cut_behind_point(double, precision, false),
                false => before_point(double, precision),
            })
        }
    })
}

/// By the identities that Java's library uses, on which the last digit depends.
fn hyperbolic_cosine(value: f64) -> f64 {
    let magnitude = value.abs();
    if magnitude < 0.5 * std::f64::consts::LN_2 {
        let grown = libm::expm1(magnitude);
        return 1.0 + grown * grown / (2.0 + 2.0 * grown);
    }
    if magnitude < 22.0 {
        let power = libm::exp(magnitude);
        return 0.5 * power + 0.5 / power;
    }
    libm::cosh(value)
}

/// As `hyperbolic_cosine`.
fn hyperbolic_tangent(value: f64) -> f64 {
    let magnitude = value.abs();
    if !(1e-16..22.0).contains(&magnitude) {
        return libm::tanh(value);
    }
    let tangent = if magnitude >= 1.0 {
        1.0 - 2.0 / (libm::expm1(2.0 * magnitude) + 2.0)
    } else {
        let shrunk = libm::expm1(-2.0 * magnitude);
        -shrunk / (shrunk + 2.0)
    };
    tangent.copysign(value)
}

fn computed(arguments: &Arguments, compute: fn(f64) -> f64) -> Result<Value> {
    Ok(Value::Double(compute(as_double(arguments.value(0)))))
}

/// Computes inside a domain and refuses outside.
fn within_domain(
    arguments: &Arguments,
    domain: fn(f64) -> bool,
    predicate: &str,
    compute: fn(f64) -> f64,
) -> Result<Value> {
    let value = as_double(arguments.value(0));
    if domain(value) {
        return Ok(Value::Double(compute(value)));
    }
    let text = match arguments.value(0) {
        Value::Int(integer) => integer.to_string(),
        _ => java_double(value),
    };
    Err(Errors::argument(format!("{text} must be {predicate}")))
}

pub fn sqrt(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    within_domain(arguments, |value| value >= 0.0, "positive", f64::sqrt)
}

pub fn acos(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    within_domain(
        arguments,
        |value| value.abs() <= 1.0,
        "between -1 and 1 inclusive",
        libm::acos,
    )
}

pub fn asin(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    within_domain(
        arguments,
        |value| value.abs() <= 1.0,
        "between -1 and 1 inclusive",
        libm::asin,
    )
}

pub fn ln(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    within_domain(arguments, |value| value > 0.0, "greater than 0", f64::ln)
}

pub fn log(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    within_domain(arguments, |value| value > 0.0, "greater than 0", f64::log10)
}

pub fn atan(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    computed(arguments, libm::atan)
}

pub fn cos(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    computed(arguments, f64::cos)
}

pub fn cosh(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    computed(arguments, hyperbolic_cosine)
}

pub fn degrees(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    computed(arguments, |radians| radians * DEGREES_IN_RADIAN)
}

pub fn radians(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    computed(arguments, |degrees| degrees * RADIANS_IN_DEGREE)
}

pub fn exp(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    computed(arguments, f64::exp)
}

pub fn sin(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    computed(arguments, f64::sin)
}

pub fn sinh(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    computed(arguments, libm::sinh)
}

pub fn tan(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    computed(arguments, f64::tan)
}

pub fn tanh(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    computed(arguments, hyperbolic_tangent)
}

pub fn hypot(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let first = as_double(arguments.value(0));
    let other = arguments.optional(1).map_or(first, as_double);
    Ok(Value::Double(hypotenuse(first, other)))
}

/// Rounds as Java does, which follows fdlibm: the larger leg is split into its upper half and the
/// rest, to recover the bits lost in squaring.
fn hypotenuse(first: f64, other: f64) -> f64 {
    let (long, short) = match (first.abs(), other.abs()) {
        (first, other) if first.is_infinite() || other.is_infinite() => return f64::INFINITY.max(first + other),
        (first, other) if first.is_nan() || other.is_nan() => return f64::NAN,
        (first, other) if first < other => (other, first),
        legs => legs,
    };
    let exponent = |leg: f64| (leg.to_bits() >> 52) as i64;
    if exponent(long) - exponent(short) > 60 {
        return long + short;
    }
    let scale = match exponent(long) {
        1524.. => 2f64.powi(-600),
        _ if exponent(short) < 523 => 2f64.powi(600),
        _ => 1.0,
    };
    let (long, short) = (long * scale, short * scale);
    let upper = |leg: f64| f64::from_bits(leg.to_bits() & 0xffff_ffff_0000_0000);
    let between = long - short;
    let squares = if between > short {
        let (top, low) = (upper(long), long - upper(long));
        top * top - (short * -short - low * (long + top))
    } else {
        let twice = long + long;
        let (top, low) = (upper(twice), twice - upper(twice));
        let (short_top, short_rest) = (upper(short), short - upper(short));
        top * short_top - (between * -between - (top * short_rest + low * short))
    };
    squares.sqrt() / scale
}

pub fn pow(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let exponent = arguments.optional(1).map_or(2.0, as_double);
    Ok(Value::Double(as_double(arguments.value(0)).powf(exponent)))
}
