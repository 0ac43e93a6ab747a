//! Control, comparison, and calls of user-defined functions.

use std::cmp::Ordering;

use super::refs::named_or_ref;
use crate::evaluation::authorization::Rights;
use crate::evaluation::{Arguments, Evaluation};
use crate::language::error::{Code, Errors, Result, Within};
use crate::language::expression::Effect;
use crate::language::value::{Native, Ref, Value};
use crate::storage::order;

pub fn abort(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    Err(Errors::new(Code::TransactionAborted, arguments.text(0)))
}

pub fn not(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    Ok(Value::Bool(matches!(arguments.value(0), Value::Bool(false))))
}

fn holds(value: &Value) -> bool {
    matches!(value, Value::Bool(true))
}

pub fn all_true(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    Ok(Value::Bool(arguments.many(0).iter().all(holds)))
}

pub fn any_true(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    Ok(Value::Bool(arguments.many(0).iter().any(holds)))
}

pub fn equals(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let (first, following) = arguments.one_or_more(0);
    Ok(Value::Bool(following.iter().all(|value| order::equal(first, value))))
}

/// Refs that lead nowhere have no place in the order.
fn ordered(
    evaluation: &mut Evaluation<'_>,
    arguments: &Arguments,
    key: &'static str,
    holds: fn(Ordering) -> bool,
) -> Result<Value> {
    evaluation.check_all_defined(arguments.many(0)).within(key)?;
    let ordered = arguments
        .many(0)
        .windows(2)
        .all(|pair| holds(order::compare(&pair[0], &pair[1])));
    Ok(Value::Bool(ordered))
}

pub fn lt(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    ordered(evaluation, arguments, "lt", Ordering::is_lt)
}

pub fn lte(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    ordered(evaluation, arguments, "lte", Ordering::is_le)
}

pub fn gt(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    ordered(evaluation, arguments, "gt", Ordering::is_gt)
}

pub fn gte(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    ordered(evaluation, arguments, "gte", Ordering::is_ge)
}

pub fn call(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let reference =
        named_or_ref(evaluation, arguments.value(0), Native::Functions, "User Function Ref").within("call")?;
    evaluation.check_defined(&reference).within("call")?;
    let schema = evaluation.schema_in(&reference.scope).within("call")?;
    let function = schema.function(&reference.id()).cloned();
    let function = function
        .ok_or_else(|| Errors::invalid_ref("function", &reference.id()))
        .within("call")?;
    let argument = arguments
        .optional(1)
        .cloned()
        .unwrap_or_else(|| Value::array(Vec::new()));
    permit_call(evaluation, &reference, &argument)?;
    let rights = match &function.role {
        None => evaluation.authorization.rights.clone(),
        Some(role) => rights_of(evaluation, role),
    };
    let outer = std::mem::replace(&mut evaluation.authorization.rights, rights);
    let allowed = evaluation.allowed;
    if function.body.lambda.effect == Effect::Write && allowed < Effect::Write {
        evaluation.allowed = Effect::Read;
    }
    let answer = evaluation.apply_stored(&function.body, argument);
    evaluation.allowed = allowed;
    evaluation.authorization.rights = outer;
    answer.map_err(called)
}

fn permit_call(evaluation: &mut Evaluation<'_>, function: &Ref, argument: &Value) -> Result<()> {
    match &evaluation.authorization.rights {
        Rights::ServerReadonly => Err(Errors::denied()),
        _ => evaluation.permit_on("call", function, std::slice::from_ref(argument)),
    }
}

/// The rights of a function that runs as a role.
pub fn rights_of(evaluation: &Evaluation<'_>, role: &Value) -> Rights {
    match role {
        Value::String(name) => match &**name {
            "admin" => Rights::Admin,
            "server" => Rights::Server,
            "server-readonly" => Rights::ServerReadonly,
            "client" => Rights::Client,
            name => Rights::Roles(evaluation.schema.role(name).cloned().into_iter().collect()),
        },
        Value::Ref(reference) => Rights::Roles(evaluation.schema.role(&reference.id()).cloned().into_iter().collect()),
        Value::Array(items) => {
            let roles = items.values.iter().filter_map(|role| match role {
                Value::Ref(reference) => evaluation.schema.role(&reference.id()).cloned(),
                _ => None,
            });
            Rights::Roles(roles.collect())
        }
        _ => Rights::Client,
    }
}

/// Wraps errors inside of a function as the cause of one error of its call. An error that ends the
/// whole query passes through.
fn called(cause: Errors) -> Errors {
    if cause.is_final() {
        return cause;
    }
    let mut errors = Errors::new(Code::CallError, "Calling the function resulted in an error.");
    errors.0[0].cause = cause.0;
    errors
}
