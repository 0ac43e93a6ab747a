//! The meaning of expressions, and the text of each of their faults.

use super::*;
use crate::wire::json::Json;
use crate::wire::value::{Item, item_json, parse_item};

const ITEM: &str = r#"{"s":{"S":"hello"},"n":{"N":"5"},"l":{"L":[{"N":"1"},{"N":"2"},{"N":"3"}]},
    "m":{"M":{"x":{"S":"y"},"deep":{"M":{"z":{"N":"1"}}}}},"ss":{"SS":["a","b"]},"t":{"BOOL":true},"b":{"B":"AAE="}}"#;
const PLACEHOLDERS: &str = r##"{"X":"","ExpressionAttributeNames":{"#s":"s","#dot":"a.b"},"ExpressionAttributeValues":{
    ":one":{"N":"1"},":two":{"N":"2"},":five":{"N":"5"},":hello":{"S":"hello"},":he":{"S":"he"},":S":{"S":"S"},":bad":{"S":"X"},
    ":list":{"L":[{"N":"9"}]},":set":{"SS":["b","c"]},":true":{"BOOL":true},":map":{"M":{}}}}"##;

fn item() -> Item {
    parse_item(&Json::parse(ITEM.as_bytes()).unwrap()).unwrap()
}

fn placeholders() -> Placeholders {
    Placeholders::read(&Json::parse(PLACEHOLDERS.as_bytes()).unwrap()).unwrap()
}

fn holds(source: &str) -> Result<bool, String> {
    let condition = parse_condition("ConditionExpression", source, &mut placeholders());
    condition
        .map(|condition| condition.holds(&item()))
        .map_err(|failure| failure.message)
}

fn updated(source: &str) -> Result<String, String> {
    let apply = || {
        let mut item = item();
        parse_update(source, &mut placeholders())?.apply(&mut item)?;
        Ok(item)
    };
    apply()
        .map(|item| item_json(&item))
        .map_err(|failure: Failure| failure.message)
}

#[test]
fn conditions_hold() {
    for source in [
        "s = :hello",
        ":hello = #s",
        "n > :two and n <= :five",
        "n between :one and :five",
        "n IN (:one, :five)",
        "attribute_exists(m.deep.z)",
        "attribute_not_exists(m.deep.q)",
        "attribute_not_exists(#dot)",
        "attribute_type(s, :S)",
        "begins_with(s, :he)",
        "contains(s, :he)",
        "contains(l, :two)",
        "size(s) = :five",
        "size(l) > size(ss)",
        "nothere <> :one",
        "NOT nothere = :one",
        "NOT (s = :he OR n = :two)",
        "s = :he OR n = :five AND t = :true",
        "l[1] = :two",
        "s <> n",
        "(s) = (:hello)",
        "((n) between (:one) and (:five)) and (size(l)) > (:two)",
        "(m.deep).z = :one",
    ] {
        assert_eq!(holds(source), Ok(true), "{source}");
    }
    for source in [
        "nothere = :one",
        "s < :five",
        "size(n) = :one",
        "l[7] = :one",
        "s[0] = :one",
        "NOT s = :hello",
    ] {
        assert_eq!(holds(source), Ok(false), "{source}");
    }
}

#[test]
fn faulty_conditions_have_their_texts() {
    let many = "s = :he".to_owned() + &" OR n=:one".repeat(151);
    let long = "x".repeat(4097);
    for (source, text) in [
        ("", "The expression can not be empty;"),
        ("s = ", "Syntax error; token: \"<EOF>\", near: \"=\""),
        ("s == :he", "Syntax error; token: \"=\", near: \"== :he\""),
        (
            "s = :he garbage",
            "Syntax error; token: \"garbage\", near: \":he garbage\"",
        ),
        (
            "status = :he",
            "Attribute name is a reserved keyword; reserved keyword: status",
        ),
        (
            "#x = :he",
            "An expression attribute name used in the document path is not defined; attribute name: #x",
        ),
        (
            "s = :x",
            "An expression attribute value used in expression is not defined; attribute value: :x",
        ),
        ("foo(s)", "Invalid function name; function: foo"),
        (
            "size(s)",
            "The function is not allowed to be used this way in an expression; function: size",
        ),
        ("size(size(s)) = :one", "operator or function: size, operand type: N"),
        (
            "s = attribute_exists(s)",
            "not allowed to be used this way in an expression; function: attribute_exists",
        ),
        (
            "list_append(s, s)",
            "The function is not allowed in a condition expression; function: list_append",
        ),
        (
            "n BETWEEN :one AND n",
            "The first operand must be distinct from the remaining operands for this operator or function; operator: BETWEEN, first operand: [n]",
        ),
        (
            "m.x IN (n, m.x)",
            "operator or function; operator: IN, first operand: [m, x]",
        ),
        (
            "attribute_exists(s, n)",
            "operator or function: attribute_exists, number of operands: 2",
        ),
        (
            "begins_with(s, :one)",
            "operator or function: begins_with, operand type: N",
        ),
        ("size(:one) = :one", "operator or function: size, operand type: N"),
        ("s < :map", "operator or function: <, operand type: M"),
        (
            "attribute_exists(:one)",
            "Operator or function requires a document path; operator or function: attribute_exists",
        ),
        ("s = s", "operator: =, first operand: [s]"),
        (
            "n BETWEEN :two AND :one",
            "lower bound operand: AttributeValue: {N:2}, upper bound operand: AttributeValue: {N:1}",
        ),
        (
            "n BETWEEN :two AND :he",
            "requires same data type for lower and upper bounds",
        ),
        (
            "attribute_type(s, :bad)",
            "Invalid attribute type name found; type: X, valid types: {B,NULL,SS,BOOL,L,BS,N,NS,S,M}",
        ),
        ("((s = :he))", "The expression has redundant parentheses;"),
        ("s = ((:he))", "The expression has redundant parentheses;"),
        ("s > between", "Syntax error; token: \"between\""),
        ("(size(s))[0] = :one", "Syntax error; token: \"[\""),
        (
            "attribute_exists(s) = :he",
            "used this way in an expression; function: attribute_exists",
        ),
        (
            "size(contains(s, n)) = :one",
            "used this way in an expression; function: contains",
        ),
        (
            "begins_with(s, size(n))",
            "operator or function: begins_with, operand type: N",
        ),
        ("attribute_type(s, s)", "operator: attribute_type, first operand: [s]"),
        (&many, "too many operators; operator count: 301"),
        (
            &long,
            "Expression size has exceeded the maximum allowed size; expression size: 4097",
        ),
        (
            "s = :he AND l[99999999999] = :one",
            "List index is not within the allowable range; index: [99999999999]",
        ),
    ] {
        let message = holds(source).unwrap_err();
        assert!(
            message.starts_with("Invalid ConditionExpression: "),
            "{source}: {message}"
        );
        assert!(message.contains(text), "{source}: {message}");
    }
    assert!(holds(&"(".repeat(4096)).is_err());
}

/// Recorded from the service: first what is wrong with the shape, then with names, then within the
/// first faulty comparison.
#[test]
fn one_of_several_faults_is_reported() {
    for (source, text) in [
        ("s = s AND ((n = n))", "redundant parentheses"),
        ("s = s AND foo(status)", "Invalid function name; function: foo"),
        ("size(s) AND status = :x", "not allowed to be used this way"),
        ("attribute_exists(status, #x)", "reserved keyword: status"),
        ("attribute_exists(#x, :x)", "attribute name: #x"),
        ("attribute_exists(:x, #x)", "attribute value: :x"),
        ("s = s AND #x = :one", "first operand: [s]"),
        ("begins_with(s, :one) AND s = s", "operand type: N"),
        ("s = s AND n =", "Syntax error"),
    ] {
        let message = holds(source).unwrap_err();
        assert!(message.contains(text), "{source}: {message}");
    }
    for (source, text) in [
        ("SET s = foo(s), status = :x", "reserved keyword: status"),
        ("SET s = :x SET n = #x", "The \"SET\" section"),
        ("SET s = :x, n = #x", "attribute name: #x"),
        ("SET s = if_not_exists(:x)", "attribute value: :x"),
        ("SET s = if_not_exists(n), s.x = n", "Two document paths overlap"),
        ("SET m.x = n, m[1] = n, s = n, s = n", "path one: [s], path two: [s]"),
        ("REMOVE m.x SET m[1] = s", "path one: [m, x], path two: [m, [1]]"),
        ("SET s = n + :he ADD n :he", "operator: ADD, operand type: STRING"),
        ("SET s = set", "Syntax error; token: \"set\""),
    ] {
        let message = updated(source).unwrap_err();
        assert!(message.contains(text), "{source}: {message}");
    }
}

#[test]
fn updates_change_what_they_name() {
    for (source, part) in [
        ("SET s = :he", r#""s":{"S":"he"}"#),
        ("set n = n + :one, s = n", r#""n":{"N":"6"},"s":{"N":"5"}"#),
        ("SET n = :one - n", r#""n":{"N":"-4"}"#),
        ("SET q = if_not_exists(q, :one) + :two", r#""q":{"N":"3"}"#),
        ("SET l = list_append(l, :list)", r#"{"N":"3"},{"N":"9"}]"#),
        ("SET l[9] = :five, l[7] = :two", r#"{"N":"3"},{"N":"2"},{"N":"5"}]"#),
        ("REMOVE l[0], l[1]", r#""l":{"L":[{"N":"3"}]}"#),
        (
            "SET m.deep.z = :two REMOVE m.x",
            r#""m":{"M":{"deep":{"M":{"z":{"N":"2"}}}}}"#,
        ),
        ("ADD n :two, ss :set, fresh :one", r#""fresh":{"N":"1"}"#),
        ("ADD ss :set", r#""ss":{"SS":["a","b","c"]}"#),
        ("DELETE ss :set", r#""ss":{"SS":["a"]}"#),
        ("REMOVE m.nothere", r#""x":{"S":"y"}"#),
        ("DELETE m.nothere :set", r#""x":{"S":"y"}"#),
    ] {
        let item = updated(source).unwrap();
        assert!(item.contains(part), "{source}: {item}");
    }
}

#[test]
fn faulty_updates_have_their_texts() {
    for (source, text) in [
        (
            "SET s = :he SET n = :one",
            "The \"SET\" section can only be used once in an update expression;",
        ),
        (
            "SET s = :he, s = :one",
            "Two document paths overlap with each other; must remove or rewrite one of these paths; path one: [s], path two: [s]",
        ),
        ("SET m.x = :he REMOVE m", "path one: [m, x], path two: [m]"),
        (
            "SET m.x = :he, m[1] = :he",
            "Two document paths conflict with each other",
        ),
        ("SET s = n + :hello", "operator or function: +, operand type: S"),
        (
            "SET s = list_append(l, :one)",
            "operator or function: list_append, operand type: N",
        ),
        (
            "SET s = size(s)",
            "The function is not allowed in an update expression; function: size",
        ),
        (
            "SET s = n + list_append(l, l)",
            "not allowed to be used this way in an expression; function: list_append",
        ),
        (
            "SET s = list_append(l, l) - n",
            "not allowed to be used this way in an expression; function: list_append",
        ),
        (
            "SET s = if_not_exists(s, list_append(l, l))",
            "not allowed to be used this way in an expression; function: list_append",
        ),
        ("SET s = foo(s)", "Invalid function name; function: foo"),
        (
            "SET s = if_not_exists(:one, s)",
            "Operator or function requires a document path; operator or function: if_not_exists",
        ),
        ("ADD s :hello", "operator: ADD, operand type: STRING"),
        ("DELETE s :one", "operator: DELETE, operand type: NUMBER"),
        ("SET s = n + n + n", "Syntax error; token: \"+\""),
        ("REMOVE", "Syntax error; token: \"<EOF>\""),
        (
            "SET s = nothere",
            "The provided expression refers to an attribute that does not exist in the item",
        ),
        (
            "SET s = s + n",
            "An operand in the update expression has an incorrect data type",
        ),
        (
            "ADD s :one",
            "An operand in the update expression has an incorrect data type",
        ),
        (
            "SET nothere.x = :one",
            "The document path provided in the update expression is invalid for update",
        ),
        (
            "DELETE nothere.x :set",
            "The document path provided in the update expression is invalid for update",
        ),
        (
            "REMOVE nothere.x",
            "The document path provided in the update expression is invalid for update",
        ),
    ] {
        let message = updated(source).unwrap_err();
        assert!(message.contains(text), "{source}: {message}");
    }
}

#[test]
fn projections_keep_the_structure() {
    for (source, expected) in [
        ("s", r#"{"s":{"S":"hello"}}"#),
        (
            "m.deep.z, nothere, s.x",
            r#"{"m":{"M":{"deep":{"M":{"z":{"N":"1"}}}}}}"#,
        ),
        ("l[2], l[0], l[9]", r#"{"l":{"L":[{"N":"1"},{"N":"3"}]}}"#),
        ("m.x, m.deep.q", r#"{"m":{"M":{"x":{"S":"y"}}}}"#),
    ] {
        let paths = parse_projection(source, &mut placeholders()).unwrap();
        assert_eq!(item_json(&path::project(&item(), &paths)), expected, "{source}");
    }
    for source in ["s, s", "m, m.x", "s,", "m..x", "l[x]"] {
        assert!(parse_projection(source, &mut placeholders()).is_err(), "{source}");
    }
}

#[test]
fn key_conditions_are_taken_apart() {
    let terms = key_terms(parse_key_condition("s = :hello AND :one <= n", &mut placeholders()).unwrap()).unwrap();
    assert_eq!(terms[0].attribute, "s");
    assert!(matches!(
        terms[1].test,
        KeyTest::Compare(condition::Comparison::GreaterOrEqual, _)
    ));
    for (source, text) in [
        (
            "s = :he OR n = :one",
            "Invalid operator used in KeyConditionExpression: OR",
        ),
        ("s <> :he", "Invalid operator used in KeyConditionExpression: <>"),
        ("NOT s = :he", "Invalid operator used in KeyConditionExpression: NOT"),
        (
            "m.x = :he",
            "KeyConditionExpressions cannot have conditions on nested attributes",
        ),
        ("s = n", "Multiple attribute names used in one condition"),
        (":he = :he", "No key attribute specified"),
        (
            "s = size(n)",
            "KeyConditionExpressions cannot contain nested operations",
        ),
        (
            ":one BETWEEN n AND :five",
            "BETWEEN operator must have the key attribute as its first operand",
        ),
        (
            "begins_with(:he, s)",
            "begins_with operator must have the key attribute as its first operand",
        ),
    ] {
        let message = parse_key_condition(source, &mut placeholders())
            .and_then(key_terms)
            .unwrap_err()
            .message;
        assert!(message.contains(text), "{source}: {message}");
    }
}

#[test]
fn placeholders_are_checked() {
    let read = |text: &str, expressions: &[&str]| {
        let json = Json::parse(text.as_bytes()).unwrap();
        let placeholders = Placeholders::check_allowed(&json, expressions)
            .and_then(|()| Placeholders::read(&json))
            .and_then(|placeholders| placeholders.check_all_used());
        placeholders.unwrap_err().message
    };
    for (request, text) in [
        (
            r##"{"ExpressionAttributeNames":{"#a":"a"}}"##,
            "ExpressionAttributeNames can only be specified when using expressions",
        ),
        (
            r#"{"ExpressionAttributeValues":{":a":{"S":"a"}}}"#,
            "ExpressionAttributeValues can only be specified when using expressions: ConditionExpression is null",
        ),
        (
            r#"{"ConditionExpression":"a","ExpressionAttributeNames":{}}"#,
            "ExpressionAttributeNames must not be empty",
        ),
        (
            r#"{"ConditionExpression":"a","ExpressionAttributeNames":{"x":"a"}}"#,
            "ExpressionAttributeNames contains invalid key: Syntax error; key: \"x\"",
        ),
        (
            r#"{"ConditionExpression":"a","ExpressionAttributeValues":{":v":{}}}"#,
            "ExpressionAttributeValues contains invalid value: Supplied AttributeValue is empty, must contain exactly one of the supported datatypes for key :v",
        ),
        (
            r##"{"ConditionExpression":"a","ExpressionAttributeNames":{"#a":"a"}}"##,
            "Value provided in ExpressionAttributeNames unused in expressions: keys: {#a}",
        ),
        (
            r#"{"ConditionExpression":"a","ExpressionAttributeValues":{":a":{"S":"a"}}}"#,
            "Value provided in ExpressionAttributeValues unused in expressions: keys: {:a}",
        ),
    ] {
        assert_eq!(read(request, &["ConditionExpression"]), text);
    }
}
