//! Schema objects are read back as they were written.
//!
//! A deployment tool compares the existing definitions with those to deploy, and fails if an index
//! has another `source`, `terms` or `values`. An index whose source was given as a list of one was
//! returned with only the source, and a field given as a text was returned as a path: the second
//! run of such a tool failed permanently. The original keeps the forms that it accepts (its
//! validators select parts and rewrite nothing).

use serde_json::{Value, json};

use crate::world::World;

fn world() -> World {
    let world = World::new(1_700_000_000_000_000);
    for collection in ["a", "b"] {
        ask(&world, "create_collection", &json!({ "name": collection }));
    }
    ask(&world, "create_role", &json!({ "name": "r" }));
    world
}

/// A value as queries write it: its objects are expressions otherwise.
fn quoted(value: &Value) -> Value {
    match value {
        Value::Object(fields) if fields.keys().any(|key| EXPRESSIONS.contains(&key.as_str())) => value.clone(),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(key, value)| (key.clone(), quoted(value)));
            json!({ "object": fields.collect::<serde_json::Map<_, _>>() })
        }
        Value::Array(items) => items.iter().map(quoted).collect(),
        other => other.clone(),
    }
}

const EXPRESSIONS: [&str; 3] = ["@ref", "@query", "@ts"];

fn ask(world: &World, function: &str, definition: &Value) -> Value {
    let query = json!({ function: quoted(definition) });
    world.resource("secret", &query.to_string())
}

fn schema_ref(kind: &str, name: &str) -> Value {
    json!({ "@ref": { "id": name, "collection": { "@ref": { "id": kind } } } })
}

fn collection(name: &str) -> Value {
    schema_ref("collections", name)
}

fn lambda(arity: usize) -> Value {
    let parameters: Vec<String> = (0..arity).map(|number| format!("p{number}")).collect();
    let parameters = match arity {
        1 => json!("p0"),
        _ => json!(parameters),
    };
    json!({ "@query": { "api_version": "4", "lambda": parameters, "expr": true } })
}

/// Creates an object with each form of a part of its definition, and reads it back: from the
/// creation, with `get`, after an update of something else, after an update with the same, and
/// after a replacement where there can be one.
fn check_kept(kind: &str, create: &str, part: &str, fields: &Value, forms: &[Value]) {
    let world = world();
    for (number, form) in forms.iter().enumerate() {
        let name = format!("object{number}");
        let mut definition = fields.clone();
        let has_name = kind != "keys";
        if has_name {
            definition["name"] = json!(name);
        }
        definition[part] = form.clone();
        let created = ask(&world, create, &definition);
        let reference = created["ref"].clone();
        let check = |value: &Value, occasion: &str| {
            assert_eq!(value[part], *form, "{kind} {form}: {occasion}");
        };
        check(&created, "create");
        let get = || world.resource("secret", &json!({ "get": reference }).to_string());
        check(&get(), "get");
        for change in [json!({ "data": { "x": 1 } }), json!({ part: form })] {
            let query = json!({ "update": reference, "params": quoted(&change) });
            check(&world.resource("secret", &query.to_string()), "the reply to an update");
            check(&get(), "get after an update");
        }
        if kind != "indexes" {
            let query = json!({ "replace": reference, "params": quoted(&definition) });
            check(
                &world.resource("secret", &query.to_string()),
                "the reply to a replacement",
            );
            check(&get(), "get after a replacement");
        }
    }
}

#[test]
fn sources_of_indexes_are_kept() {
    let (a, b) = (collection("a"), collection("b"));
    let forms = [
        a.clone(),
        json!([a]),
        json!({ "collection": a }),
        json!([{ "collection": a }]),
        json!({ "collection": [a] }),
        json!([{ "collection": [a, b] }]),
        json!([a, b]),
        json!([{ "collection": a }, { "collection": b }]),
        json!("_"),
        json!(["_"]),
        json!([{ "collection": "_" }]),
    ];
    check_kept("indexes", "create_index", "source", &json!({}), &forms);
    let bound = json!({ "terms": [{ "binding": "x" }] });
    let with_binding = json!({ "collection": a, "fields": { "x": lambda(1) } });
    let forms = [with_binding.clone(), json!([with_binding])];
    check_kept("indexes", "create_index", "source", &bound, &forms);
}

#[test]
fn terms_and_values_are_kept() {
    let fields = json!({ "source": collection("a") });
    let forms = [
        json!([{ "field": "ref" }]),
        json!([{ "field": ["ref"] }]),
        json!([{ "field": ["data", "x"], "transform": "casefold" }, { "field": "ts" }]),
        json!([{ "field": ["data", "list", 0] }]),
        json!({ "field": ["data", "x"] }),
        json!({ "field": "ref" }),
        json!([]),
    ];
    check_kept("indexes", "create_index", "terms", &fields, &forms);
    let reversed = [
        json!([{ "reverse": true, "field": ["data", "x"] }, { "field": "ref" }]),
        json!({ "field": ["data", "x"], "reverse": false }),
    ];
    check_kept(
        "indexes",
        "create_index",
        "values",
        &fields,
        &[&forms[..], &reversed].concat(),
    );
}

#[test]
fn parts_that_mean_nothing_are_left_out_of_lists() {
    let world = world();
    let values = json!([{ "bar": "baz", "field": "ref", "reverse": true }]);
    let definition = json!({ "name": "i", "source": collection("a"), "values": values });
    let expected = json!([{ "field": "ref", "reverse": true }]);
    assert_eq!(ask(&world, "create_index", &definition)["values"], expected);
    // They are the same index with and without.
    let update = json!({ "update": schema_ref("indexes", "i"), "params": quoted(&json!({ "values": values })) });
    assert_eq!(world.resource("secret", &update.to_string())["values"], expected);
}

/// An index answers alike for every form of its definition.
#[test]
fn forms_mean_the_same() {
    let world = world();
    let a = collection("a");
    let sources = [
        a.clone(),
        json!([a]),
        json!([{ "collection": a }]),
        json!({ "collection": [a] }),
        json!(["_"]),
    ];
    let terms = [json!([{ "field": ["data", "x"] }]), json!({ "field": ["data", "x"] })];
    let values = [
        json!([{ "field": "ref" }]),
        json!({ "field": ["ref"] }),
        json!([{ "field": ["ref"] }]),
        json!([]),
    ];
    let mut names = Vec::new();
    for (source, term, value) in combinations(&sources, &terms, &values) {
        let name = format!("index{}", names.len());
        let definition = json!({ "name": name, "source": source, "terms": term, "values": value });
        let created = ask(&world, "create_index", &definition);
        assert_eq!(
            (&created["active"], &created["partitions"]),
            (&json!(true), &json!(1)),
            "{created}"
        );
        names.push(name);
    }
    let create = json!({ "create": collection("a"), "params": quoted(&json!({ "data": { "x": 7 } })) });
    let made = world.resource("secret", &create.to_string());
    for name in names {
        let query = json!({ "paginate": { "match": { "index": name }, "terms": 7 } });
        let page = world.resource("secret", &query.to_string());
        assert_eq!(page["data"], json!([made["ref"]]), "{name}");
    }
}

fn combinations<'v>(
    sources: &'v [Value],
    terms: &'v [Value],
    values: &'v [Value],
) -> impl Iterator<Item = (&'v Value, &'v Value, &'v Value)> {
    sources
        .iter()
        .flat_map(move |source| terms.iter().map(move |term| (source, term)))
        .flat_map(move |(source, term)| values.iter().map(move |value| (source, term, value)))
}

#[test]
fn a_changed_form_of_an_index_is_refused() {
    let world = world();
    let definition = json!({ "name": "i", "source": [collection("a")], "values": [{ "field": "ref" }] });
    ask(&world, "create_index", &definition);
    for change in [
        json!({ "source": collection("b") }),
        json!({ "values": [{ "field": ["data", "x"] }] }),
        json!({ "terms": [{ "field": "ref" }] }),
    ] {
        let query = json!({ "update": schema_ref("indexes", "i"), "params": quoted(&change) });
        let reply = world.ask("secret", &query.to_string());
        assert!(
            reply.status == 400 && reply.body.contains("invalid index"),
            "{change}: {}",
            reply.body
        );
    }
}

#[test]
fn a_term_of_nothing_is_refused() {
    let world = world();
    for (term, failure) in [
        (
            json!({ "field": null }),
            "Must provide one of the following: field, binding",
        ),
        (
            json!({ "field": true }),
            "Invalid type Boolean, expected type Long or String.",
        ),
        (
            json!({ "field": ["data", 1.5] }),
            "Invalid type Double, expected type Long or String.",
        ),
        (json!({ "binding": 1 }), "Invalid type Long, expected type String."),
        (
            json!({ "field": "ref", "transform": "upper" }),
            "Invalid value `upper` at `transform`",
        ),
        (
            json!({ "field": "ref", "transform": 1 }),
            "Invalid type Long, expected type String.",
        ),
        (
            json!({ "field": "ref", "reverse": 1 }),
            "Invalid type Long, expected type Boolean.",
        ),
    ] {
        let definition = json!({ "name": "i", "source": collection("a"), "terms": [term] });
        let reply = world.ask("secret", &json!({ "create_index": quoted(&definition) }).to_string());
        let body: Value = serde_json::from_str(&reply.body).unwrap();
        assert_eq!(
            body["errors"][0]["failures"][0]["description"], failure,
            "{term}: {body}"
        );
    }
}

#[test]
fn roles_are_kept() {
    let (a, b) = (collection("a"), collection("b"));
    let privilege = json!({ "resource": a, "actions": { "write": lambda(2), "read": true, "create": false } });
    let forms = [
        privilege.clone(),
        json!([privilege]),
        json!([privilege, { "resource": b, "actions": { "read": lambda(1) } }]),
        json!([{ "resource": { "@ref": { "id": "collections" } }, "actions": { "read": true } }]),
        json!([{ "resource": a }]),
        json!({ "resource": a }),
        json!([]),
    ];
    check_kept("roles", "create_role", "privileges", &json!({}), &forms);
    let forms = [
        json!({ "resource": a }),
        json!([{ "resource": a }]),
        json!([{ "resource": a, "predicate": lambda(1) }, { "resource": b }]),
        json!({ "predicate": lambda(1), "resource": a }),
        json!([]),
    ];
    check_kept(
        "roles",
        "create_role",
        "membership",
        &json!({ "privileges": privilege }),
        &forms,
    );
}

#[test]
fn roles_of_functions_and_keys_are_kept() {
    let r = schema_ref("roles", "r");
    let forms = [
        json!("r"),
        r.clone(),
        json!([r]),
        json!(["r"]),
        json!("admin"),
        json!("server"),
    ];
    let body = json!({ "body": lambda(1) });
    check_kept("functions", "create_function", "role", &body, &forms);
    check_kept(
        "functions",
        "create_function",
        "body",
        &json!({}),
        &[lambda(1), lambda(2)],
    );
    check_kept("keys", "create_key", "role", &json!({}), &forms);
    check_kept(
        "keys",
        "create_key",
        "priority",
        &json!({ "role": "server" }),
        &[json!(1), json!(500)],
    );
}

#[test]
fn collections_and_databases_are_kept() {
    let days = [json!(0), json!(30)];
    check_kept("collections", "create_collection", "history_days", &json!({}), &days);
    check_kept("collections", "create_collection", "ttl_days", &json!({}), &days[1..]);
    let data = [json!({ "x": [], "y": { "z": 1.0 } })];
    let world_kinds = [("collections", "create_collection"), ("databases", "create_database")];
    for (kind, create) in world_kinds {
        let world = world();
        let created = ask(&world, create, &json!({ "name": "object", "data": data[0] }));
        let got = world.resource("secret", &json!({ "get": schema_ref(kind, "object") }).to_string());
        assert_eq!((&created["data"], &got["data"]), (&data[0], &data[0]));
    }
    check_kept(
        "databases",
        "create_database",
        "priority",
        &json!({}),
        &[json!(1), json!(500)],
    );
}

#[test]
fn roles_of_access_providers_are_kept() {
    let r = schema_ref("roles", "r");
    let forms = [
        json!("r"),
        r.clone(),
        json!([r]),
        json!([{ "role": r, "predicate": lambda(1) }]),
        json!({ "role": r, "predicate": lambda(1) }),
        json!(["r", { "role": r, "predicate": lambda(1) }]),
    ];
    // An issuer belongs to one provider.
    for form in forms {
        let fields = json!({ "issuer": "https://issuer.example", "jwks_uri": "https://issuer.example/keys" });
        check_kept("access_providers", "create_access_provider", "roles", &fields, &[form]);
    }
}
