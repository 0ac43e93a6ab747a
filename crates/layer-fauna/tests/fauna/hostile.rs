//! Queries made to hurt: each gets the protocol's own error, soon and without eating the memory.

use crate::world::World;

fn check(query: &str, status: u16, expected: &str) {
    let world = World::new(1_700_000_000_000_000);
    let reply = world.ask("secret", query);
    let excerpt: String = query.chars().take(120).collect();
    let body: String = reply.body.chars().take(300).collect();
    assert_eq!(reply.status, status, "{excerpt}: {body}");
    assert!(reply.body.contains(expected), "{excerpt}: {body}");
}

#[test]
fn json_nested_a_million_deep() {
    check(&"[".repeat(1_000_000), 400, "Request body JSON exceeds nesting limit.");
    check(
        &"{\"do\":".repeat(1_000_000),
        400,
        "Request body JSON exceeds nesting limit.",
    );
    let deep = format!("{}1{}", "[".repeat(400), "]".repeat(400));
    check(&deep, 200, "resource");
}

#[test]
fn values_that_double() {
    let mut query = String::from(r#"{"let":[{"a0":[1,1]}"#);
    for level in 1..60 {
        query += &format!(r#",{{"a{level}":[{{"var":"a{0}"}},{{"var":"a{0}"}}]}}"#, level - 1);
    }
    query += r#"],"in":{"var":"a59"}}"#;
    check(&query, 400, "bad request");
    let mut query = String::from(r#"{"let":[{"a0":{"repeat":"x","number":1024}}"#);
    for level in 1..40 {
        query += &format!(
            r#",{{"a{level}":{{"concat":[{{"var":"a{0}"}},{{"var":"a{0}"}}]}}}}"#,
            level - 1
        );
    }
    query += r#"],"in":{"length":{"var":"a39"}}}"#;
    check(&query, 400, "error");
}

#[test]
fn a_value_nested_by_folding() {
    let world = World::new(1_700_000_000_000_000);
    let numbers: Vec<String> = (0..5000).map(|number| number.to_string()).collect();
    let query = format!(
        r#"{{"reduce":{{"lambda":["a","x"],"expr":[{{"var":"a"}}]}},"initial":0,"collection":[{}]}}"#,
        numbers.join(",")
    );
    let reply = world.ask("secret", &query);
    assert!(reply.body.contains("stack overflow"), "{}", reply.body);
}

#[test]
fn functions_that_call_themselves() {
    let world = World::new(1_700_000_000_000_000);
    let define = |name: &str, body: &str| {
        let query = format!(
            r#"{{"create_function":{{"object":{{"name":"{name}","body":{{"query":{{"lambda":"x","expr":{body}}}}}}}}}}}"#
        );
        assert_eq!(world.ask("secret", &query).status, 201);
    };
    define("forever", r#"{"call":{"function":"forever"},"arguments":{"var":"x"}}"#);
    define(
        "twice",
        r#"[{"call":{"function":"twice"},"arguments":1},{"call":{"function":"twice"},"arguments":1}]"#,
    );
    for name in ["forever", "twice"] {
        let reply = world.ask(
            "secret",
            &format!(r#"{{"call":{{"function":"{name}"}},"arguments":1}}"#),
        );
        assert_eq!(reply.status, 400);
        assert!(
            reply.body.contains("stack overflow") || reply.body.contains("bad request"),
            "{}",
            reply.body
        );
    }
}

#[test]
fn loops_within_loops() {
    let numbers: Vec<String> = (0..200).map(|number| number.to_string()).collect();
    let list = numbers.join(",");
    let mut query = r#"{"add":[1,1]}"#.to_owned();
    for level in 0..5 {
        query = format!(r#"{{"map":{{"lambda":"x{level}","expr":{query}}},"collection":[{list}]}}"#);
    }
    check(&query, 400, "limit");
}

#[test]
fn expressions_that_backtrack() {
    let text = "a".repeat(200);
    let query = format!(r#"{{"containsstrregex":"{text}b","pattern":"(a+)+(?=c)\\1$"}}"#);
    check(&query, 400, "invalid argument");
    check(
        r#"{"format":"%999999999d","values":1}"#,
        400,
        "Invalid conversion format",
    );
    check(r#"{"space":99999999999}"#, 200, "resource");
}

#[test]
fn unexpected_keys_and_numbers() {
    check(
        r#"{"frobnicate":1,"why":2}"#,
        400,
        "No form/function found, or invalid argument keys: { frobnicate, why }.",
    );
    check("1e999", 200, "Infinity");
    check(r#"{"pow":10,"exp":400}"#, 200, "Infinity");
    check(
        r#"{"time_add":{"time":"2020-01-01T00:00:00Z"},"offset":9223372036854775807,"unit":"days"}"#,
        400,
        "dates and times must be between",
    );
    check(
        r#"{"epoch":9223372036854775807,"unit":"days"}"#,
        400,
        "dates and times must be between",
    );
    check(r#"{"divide":[-9223372036854775808,-1]}"#, 200, "-9223372036854775808");
    check(
        r#"{"substring":"abc","start":-9223372036854775808,"length":9223372036854775807}"#,
        400,
        "start must be less than or equal to the string length",
    );
    check(r#"{"day_of_week":9223372036854775807}"#, 200, "resource");
}

#[test]
fn an_index_with_a_binding_that_writes() {
    let world = World::new(1_700_000_000_000_000);
    world.resource("secret", r#"{"create_collection":{"object":{"name":"c"}}}"#);
    let query = r#"{"create_index":{"object":{"name":"i","source":{"object":{"collection":{"collection":"c"},
        "fields":{"object":{"b":{"query":{"lambda":"d","expr":{"create":{"collection":"c"}}}}}}}},
        "terms":[{"object":{"binding":"b"}}]}}}"#;
    // A binding is pure.
    let reply = world.ask("secret", query);
    assert_eq!(reply.status, 400);
    assert!(
        reply.body.contains("Field binding must be a pure unary function."),
        "{}",
        reply.body
    );
}

/// The arguments drawn from: every type, and the edges of each.
const SAMPLES: [&str; 40] = [
    "null",
    "true",
    "false",
    "0",
    "1",
    "-1",
    "2",
    "9223372036854775807",
    "-9223372036854775808",
    "0.0",
    "-0.5",
    "1e308",
    "\"\"",
    "\"a\"",
    "\"[\"",
    "\"%s %d\"",
    "\"self\"",
    "\"c\"",
    "\"1\"",
    "\"seconds\"",
    "\"2020-01-01T00:00:00Z\"",
    "[]",
    "[1,2]",
    "[\"a\",\"b\"]",
    "[[1],[2]]",
    "[[\"k\",1]]",
    r#"{"object":{}}"#,
    r#"{"object":{"a":1,"name":"n","role":"admin","password":"p"}}"#,
    r#"{"now":null}"#,
    r#"{"date":"2020-02-29"}"#,
    r#"{"@bytes":"AQI="}"#,
    r#"{"collection":"c"}"#,
    r#"{"index":"i"}"#,
    r#"{"ref":{"collection":"c"},"id":"1"}"#,
    r#"{"collections":null}"#,
    r#"{"match":{"index":"i"},"terms":1}"#,
    r#"{"documents":{"collection":"c"}}"#,
    r#"{"paginate":{"documents":{"collection":"c"}}}"#,
    r#"{"lambda":"x","expr":{"var":"x"}}"#,
    r#"{"get":{"ref":{"collection":"c"},"id":"1"}}"#,
];

/// Keys of every function, from the page of compatibility, which a test keeps equal to the code.
fn functions() -> Vec<Vec<String>> {
    let page = include_str!("../../../../docs/compat/fauna.md");
    let (_, table) = page.split_once("<!-- functions -->").unwrap();
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    let keys = |row: &str| {
        row.split('|')
            .nth(1)
            .unwrap()
            .split('`')
            .skip(1)
            .step_by(2)
            .map(str::to_owned)
            .collect()
    };
    rows.map(keys).collect()
}

#[test]
fn every_function_with_arguments_of_every_kind() {
    let world = World::new(1_700_000_000_000_000);
    world.resource("secret", r#"{"create_collection":{"object":{"name":"c"}}}"#);
    world.resource(
        "secret",
        r#"{"create_index":{"object":{"name":"i","source":{"collection":"c"},"terms":[{"object":{"field":["data","x"]}}]}}}"#,
    );
    let mut chosen = 1usize;
    let mut next = move || {
        chosen = chosen
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        SAMPLES[(chosen >> 33) % SAMPLES.len()]
    };
    for keys in functions() {
        for first in SAMPLES {
            let members = keys[1..].iter().map(|key| format!(",\"{key}\":{}", next()));
            let query = format!("{{\"{}\":{first}{}}}", keys[0], members.collect::<String>());
            let reply = world.ask("secret", &query);
            let json: Result<serde_json::Value, _> = serde_json::from_str(&reply.body);
            assert!(
                json.is_ok() && reply.status < 500,
                "{query}: {} {}",
                reply.status,
                reply.body
            );
        }
    }
}

/// The bodies of everything that was recorded of the original.
fn recorded() -> Vec<serde_json::Value> {
    let golden = include_str!("../../../../tests/fauna/golden.jsonl");
    let requests = golden
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let bodies = requests.filter_map(|request| serde_json::from_str(request["request_body"].as_str()?).ok());
    bodies.collect()
}

/// Numbers that are the same in every run, unless `SPLICE_SEED` says otherwise.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit.max(1)
    }
}

/// Some part of a value, chosen by walking down from the top.
fn part<'v>(value: &'v mut serde_json::Value, chance: &mut Chance) -> &'v mut serde_json::Value {
    let count = match value {
        serde_json::Value::Array(items) => items.len(),
        serde_json::Value::Object(fields) => fields.len(),
        _ => 0,
    };
    if count == 0 || chance.below(4) == 0 {
        return value;
    }
    let chosen = chance.below(count);
    match value {
        serde_json::Value::Array(items) => part(&mut items[chosen], chance),
        serde_json::Value::Object(fields) => part(fields.values_mut().nth(chosen).unwrap(), chance),
        _ => unreachable!("it has parts"),
    }
}

#[test]
fn parts_of_queries_in_each_others_place() {
    let number = |name, default| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let mut chance = Chance(number("SPLICE_SEED", 1));
    let bodies = recorded();
    assert!(bodies.len() > 200);
    let mut world = World::new(1_700_000_000_000_000);
    for turn in 0..number("SPLICES", 2_000) {
        if turn % 500 == 0 {
            world = World::new(1_700_000_000_000_000);
        }
        let mut query = bodies[chance.below(bodies.len())].clone();
        for _ in 0..=chance.below(3) {
            let mut donor = bodies[chance.below(bodies.len())].clone();
            *part(&mut query, &mut chance) = part(&mut donor, &mut chance).take();
        }
        let query = query.to_string();
        let began = std::time::Instant::now();
        let reply = world.ask("secret", &query);
        let is_json = serde_json::from_str::<serde_json::Value>(&reply.body).is_ok();
        assert!(
            is_json && reply.status < 500,
            "{query}: {} {}",
            reply.status,
            reply.body
        );
        assert!(began.elapsed().as_secs() < 120, "{query} took {:?}", began.elapsed());
    }
}
