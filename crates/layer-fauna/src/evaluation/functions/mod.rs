//! The body of each function of the table of signatures, by families.

pub mod authentication;
mod basic;
pub use basic::rights_of;
mod casts;
mod collections;
pub mod format;
mod java_pattern;
mod numbers;
mod numerals;
mod reads;
pub mod refs;
mod regex;
pub mod select;
pub mod strings;
mod times;
pub mod writes;

use crate::evaluation::{Arguments, Body, Evaluation};
use crate::language::error::Result;
use crate::language::value::Value;

/// The implementation of a form, which is evaluated separately.
fn form(_: &mut Evaluation<'_>, _: &Arguments) -> Result<Value> {
    unreachable!("forms have expressions of their own")
}

/// By the name of each function who does it, in the order of the signatures.
pub static BODIES: &[(&str, Body)] = &[
    // Basic forms.
    ("let", form),
    ("var", form),
    ("if", form),
    ("do", form),
    ("at", form),
    ("query", form),
    ("quote", form),
    ("object", form),
    ("select", form),
    ("select_all", form),
    ("select_as_index", form),
    ("and", form),
    ("or", form),
    ("abort", basic::abort),
    ("call", basic::call),
    ("not", basic::not),
    ("equals", basic::equals),
    ("lt", basic::lt),
    ("lte", basic::lte),
    ("gt", basic::gt),
    ("gte", basic::gte),
    ("contains_path", select::contains_path),
    ("contains", select::contains),
    ("contains_field", select::contains_field),
    ("contains_value", collections::contains_value),
    // Collections and objects.
    ("map", collections::map),
    ("foreach", collections::foreach),
    ("filter", collections::filter),
    ("reduce", collections::reduce),
    ("take", collections::take),
    ("drop", collections::drop_first),
    ("append", collections::append),
    ("prepend", collections::prepend),
    ("is_empty", collections::is_empty),
    ("is_nonempty", collections::is_nonempty),
    ("count", collections::count),
    ("sum", collections::sum),
    ("mean", collections::mean),
    ("any", collections::any),
    ("all", collections::all),
    ("reverse", collections::reverse),
    ("distinct", collections::distinct),
    ("union", collections::union),
    ("intersection", collections::intersection),
    ("difference", collections::difference),
    ("merge", collections::merge),
    ("to_object", casts::to_object),
    ("to_array", casts::to_array),
    // Reads and sets.
    ("get", reads::get),
    ("exists", reads::exists),
    ("first", reads::first),
    ("last", reads::last),
    ("paginate", reads::paginate_after),
    ("paginate", reads::paginate_before),
    ("paginate", reads::paginate_cursor),
    ("match", reads::matching),
    ("match", reads::matching_legacy),
    ("documents", reads::documents),
    ("singleton", reads::singleton),
    ("events", reads::events),
    ("join", reads::join),
    ("range", reads::range),
    ("key_from_secret", authentication::key_from_secret),
    // Writes.
    ("create", writes::create),
    ("update", writes::update),
    ("replace", writes::replace),
    ("delete", writes::delete),
    ("insert", writes::insert),
    ("remove", writes::remove),
    ("create_database", writes::create_database),
    ("create_collection", writes::create_collection),
    ("create_class", writes::create_class),
    ("create_index", writes::create_index),
    ("create_function", writes::create_function),
    ("create_role", writes::create_role),
    ("create_key", writes::create_key),
    ("create_access_provider", writes::create_access_provider),
    ("move_database", writes::move_database),
    // Authentication.
    ("login", authentication::login),
    ("logout", authentication::logout),
    ("identify", authentication::identify),
    ("identity", authentication::identity),
    ("current_identity", authentication::identity),
    ("has_identity", authentication::has_identity),
    ("has_current_identity", authentication::has_identity),
    ("current_token", authentication::current_token),
    ("has_current_token", authentication::has_current_token),
    // Refs and ids.
    ("ref", refs::reference),
    ("database", refs::database),
    ("index", refs::index),
    ("collection", refs::collection),
    ("class", refs::collection),
    ("function", refs::function),
    ("role", refs::role),
    ("access_provider", refs::access_provider),
    ("databases", refs::databases),
    ("indexes", refs::indexes),
    ("collections", refs::collections),
    ("classes", refs::collections),
    ("functions", refs::functions),
    ("roles", refs::roles),
    ("keys", refs::keys),
    ("tokens", refs::tokens),
    ("credentials", refs::credentials),
    ("access_providers", refs::access_providers),
    ("new_id", refs::new_id),
    ("next_id", refs::new_id),
    // Strings.
    ("concat", strings::concat),
    ("casefold", strings::casefold_function),
    ("containsstr", strings::contains),
    ("startswith", strings::starts_with),
    ("endswith", strings::ends_with),
    ("containsstrregex", regex::contains),
    ("findstr", strings::find),
    ("findstrregex", regex::find),
    ("replacestr", strings::replace),
    ("replacestrregex", regex::replace),
    ("regexescape", regex::escape),
    ("length", strings::length),
    ("lowercase", strings::lowercase),
    ("uppercase", strings::uppercase),
    ("titlecase", strings::titlecase),
    ("ltrim", strings::trim_start),
    ("rtrim", strings::trim_end),
    ("trim", strings::trim),
    ("ngram", strings::ngram),
    ("repeat", strings::repeat),
    ("space", strings::space),
    ("substring", strings::substring),
    ("format", format::format),
    // Numbers.
    ("add", numbers::add),
    ("subtract", numbers::subtract),
    ("multiply", numbers::multiply),
    ("divide", numbers::divide),
    ("modulo", numbers::modulo),
    ("bitand", numbers::bit_and),
    ("bitor", numbers::bit_or),
    ("bitxor", numbers::bit_xor),
    ("bitnot", numbers::bit_not),
    ("max", numbers::max),
    ("min", numbers::min),
    ("abs", numbers::abs),
    ("sign", numbers::sign),
    ("sqrt", numbers::sqrt),
    ("ceil", numbers::ceil),
    ("floor", numbers::floor),
    ("round", numbers::round),
    ("trunc", numbers::trunc),
    ("acos", numbers::acos),
    ("asin", numbers::asin),
    ("atan", numbers::atan),
    ("cos", numbers::cos),
    ("cosh", numbers::cosh),
    ("degrees", numbers::degrees),
    ("exp", numbers::exp),
    ("hypot", numbers::hypot),
    ("ln", numbers::ln),
    ("log", numbers::log),
    ("pow", numbers::pow),
    ("radians", numbers::radians),
    ("sin", numbers::sin),
    ("sinh", numbers::sinh),
    ("tan", numbers::tan),
    ("tanh", numbers::tanh),
    // Time.
    ("time", times::time),
    ("now", times::now),
    ("epoch", times::epoch),
    ("date", times::date),
    ("to_micros", times::to_micros),
    ("to_millis", times::to_millis),
    ("to_seconds", times::to_seconds),
    ("second", times::second),
    ("minute", times::minute),
    ("hour", times::hour),
    ("day_of_month", times::day_of_month),
    ("day_of_week", times::day_of_week),
    ("day_of_year", times::day_of_year),
    ("month", times::month),
    ("year", times::year),
    ("time_add", times::add),
    ("time_subtract", times::subtract),
    ("time_diff", times::difference),
    // Casts and tests of types.
    ("to_string", casts::to_string),
    ("to_number", casts::to_number),
    ("to_integer", casts::to_integer),
    ("to_double", casts::to_double),
    ("to_time", casts::to_time),
    ("to_date", casts::to_date),
    ("is_number", casts::is_number),
    ("is_double", casts::is_double),
    ("is_integer", casts::is_integer),
    ("is_boolean", casts::is_boolean),
    ("is_null", casts::is_null),
    ("is_bytes", casts::is_bytes),
    ("is_timestamp", casts::is_timestamp),
    ("is_date", casts::is_date),
    ("is_uuid", casts::is_uuid),
    ("is_string", casts::is_string),
    ("is_array", casts::is_array),
    ("is_object", casts::is_object),
    ("is_ref", casts::is_ref),
    ("is_set", casts::is_set),
    ("is_doc", casts::is_doc),
    ("is_lambda", casts::is_lambda),
    ("is_collection", casts::is_collection),
    ("is_database", casts::is_database),
    ("is_index", casts::is_index),
    ("is_function", casts::is_function),
    ("is_key", casts::is_key),
    ("is_token", casts::is_token),
    ("is_credentials", casts::is_credentials),
    ("is_role", casts::is_role),
    // For old versions.
    ("and", basic::all_true),
    ("or", basic::any_true),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language::signature::SIGNATURES;

    #[test]
    fn each_function_is_done_by_its_body() {
        let names: Vec<&str> = SIGNATURES.iter().map(|signature| signature.parameters[0].key).collect();
        let bodies: Vec<&str> = BODIES.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, bodies);
    }
}
