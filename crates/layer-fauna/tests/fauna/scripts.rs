//! Runs the scripts of `testdata/*.txt`: a request, and the reply it must get.
//!
//! ```text
//! > {"add":[1,2]}            a request of the root database's admin
//! < 200 {"resource":3}       its reply
//! = key                      the next request's secret is kept under this name
//! @ key                      requests from here on are asked with it
//! ```
//!
//! With `REWRITE=1` in the environment the replies are rewritten, to be read in review.

use crate::world::World;

fn run(name: &str) {
    let path = format!("{}/testdata/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    let script = std::fs::read_to_string(&path).unwrap();
    let world = World::new(1_700_000_000_000_000);
    let (mut secrets, mut secret, mut keep) = (Vec::<(String, String)>::new(), "secret".to_owned(), None);
    let mut written = String::new();
    for line in script.lines() {
        let Some((mark, text)) = line.split_once(' ') else {
            written.push_str(line);
            written.push('\n');
            continue;
        };
        match mark {
            "<" => continue,
            "=" => keep = Some(text.to_owned()),
            "@" => {
                let named_secret = secrets
                    .iter()
                    .find(|(name, _)| name == text)
                    .map(|(_, secret)| secret.clone());
                secret = named_secret.unwrap_or_else(|| text.to_owned());
            }
            ">" => {
                let reply = world.ask(&secret, text);
                let mut body = reply.body;
                if let Some(name) = keep.take() {
                    let json: serde_json::Value = serde_json::from_str(&body).unwrap();
                    secrets.push((name, json["resource"]["secret"].as_str().unwrap_or_default().to_owned()));
                    body = "kept".into();
                }
                written.push_str(&format!("{line}\n< {} {body}\n", reply.status));
                continue;
            }
            _ => {}
        }
        written.push_str(line);
        written.push('\n');
    }
    assert_eq!(world.findings(), [], "after {name}");
    if std::env::var_os("REWRITE").is_some() {
        std::fs::write(&path, written).unwrap();
    } else {
        for (expected, answered) in script.lines().zip(written.lines()) {
            assert_eq!(expected, answered, "{name}");
        }
        assert_eq!(script.lines().count(), written.lines().count(), "{name}");
    }
}

#[test]
fn order_of_mixed_types() {
    run("order");
}

#[test]
fn cursors() {
    run("cursors");
}

#[test]
fn history() {
    run("history");
}

#[test]
fn roles() {
    run("roles");
}

#[test]
fn functions_and_errors() {
    run("functions");
}

#[test]
fn families_and_histories() {
    run("families");
}

#[test]
fn sets_of_different_shapes() {
    run("shapes");
}

#[test]
fn sets() {
    run("sets");
}

#[test]
fn values_are_what_sets_compare() {
    run("values");
}

#[test]
fn sources_of_indexes() {
    run("sources");
}

#[test]
fn attribute_based_access() {
    run("abac");
}

#[test]
fn rules_of_the_original() {
    run("rules");
}

#[test]
fn rules_of_pages_positions_and_histories() {
    run("original");
}

#[test]
fn secrets_and_the_past_of_keys() {
    run("secrets");
}

#[test]
fn sources_of_events() {
    run("told");
}

#[test]
fn definitions_are_checked_as_by_the_original() {
    run("definitions");
}
