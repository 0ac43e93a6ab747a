//! Things that belong to a caller grant it a few actions without any role, and none by which it
//! becomes another identity.
//!
//! A user's token could once be updated by that user: with another document as its instance it was
//! that user's token from then on. Every own entity granted every action. Now one table defines the
//! granted actions.

use crate::world::World;

/// A server's secret, two users of a collection that no role covers, with two tokens of the first
/// and one of the second.
struct Users {
    world: World,
    /// The first user's token.
    secret: String,
    own_token: String,
    other_own_token: String,
    strange_token: String,
}

const DOCUMENT: [&str; 2] = [
    r#"{"ref":{"collection":"u"},"id":"1"}"#,
    r#"{"ref":{"collection":"u"},"id":"2"}"#,
];

fn users() -> Users {
    let world = World::new(1_700_000_000_000_000);
    let ask = |body: &str| world.resource("secret", body);
    ask(r#"{"create_collection":{"object":{"name":"u"}}}"#);
    for document in DOCUMENT {
        let credentials = r#"{"object":{"credentials":{"object":{"password":"p"}}}}"#;
        ask(&format!(r#"{{"create":{document},"params":{credentials}}}"#));
    }
    let login = |document| {
        let token = ask(&format!(
            r#"{{"login":{document},"params":{{"object":{{"password":"p"}}}}}}"#
        ));
        let secret = token["secret"].as_str().unwrap().to_owned();
        let id = token["ref"]["@ref"]["id"].as_str().unwrap();
        (secret, format!(r#"{{"ref":{{"tokens":null}},"id":"{id}"}}"#))
    };
    let (secret, own_token) = login(DOCUMENT[0]);
    let (_, other_own_token) = login(DOCUMENT[0]);
    let (_, strange_token) = login(DOCUMENT[1]);
    Users {
        secret,
        own_token,
        other_own_token,
        strange_token,
        world,
    }
}

/// The ref of the credentials of a document, as the server sees it.
fn credentials(world: &World, of: usize) -> String {
    let all = world.resource(
        "secret",
        r#"{"select":"data","from":{"map":{"lambda":"r","expr":{"get":{"var":"r"}}},"collection":{"paginate":{"credentials":null}}}}"#,
    );
    let id = all[of]["ref"]["@ref"]["id"].as_str().unwrap();
    format!(r#"{{"ref":{{"credentials":null}},"id":"{id}"}}"#)
}

/// Every action on a thing, with the least that it could take.
fn action(name: &str, thing: &str) -> String {
    let other = DOCUMENT[1];
    match name {
        "read" => format!(r#"{{"get":{thing}}}"#),
        "history_read" => format!(r#"{{"paginate":{thing},"events":true}}"#),
        "give away" => format!(r#"{{"update":{thing},"params":{{"object":{{"instance":{other}}}}}}}"#),
        "write" => format!(r#"{{"update":{thing},"params":{{"object":{{"data":{{"object":{{"x":1}}}}}}}}}}"#),
        "replace" => format!(r#"{{"replace":{thing},"params":{{"object":{{"instance":{other}}}}}}}"#),
        "change password" => {
            format!(r#"{{"update":{thing},"params":{{"object":{{"password":"q","current_password":"p"}}}}}}"#)
        }
        "set password" => format!(r#"{{"update":{thing},"params":{{"object":{{"password":"q"}}}}}}"#),
        "history_write" => format!(
            r#"{{"insert":{thing},"ts":1699999999000000,"action":"update","params":{{"object":{{"data":{{"object":{{}}}}}}}}}}"#
        ),
        "delete" => format!(r#"{{"delete":{thing}}}"#),
        _ => unreachable!(),
    }
}

/// Tries every action and compares with the granted ones. Deleting actions are last.
fn check(secret: &str, world: &World, thing: &str, granted: &[&str]) {
    let actions = [
        "read",
        "history_read",
        "give away",
        "write",
        "replace",
        "set password",
        "change password",
    ];
    for name in actions.into_iter().chain(["delete"]) {
        let reply = world.ask(secret, &action(name, thing));
        match granted.contains(&name) {
            true => assert_eq!(reply.status, 200, "{name} of {thing}: {}", reply.body),
            false => assert!(matches!(reply.status, 400 | 403), "{name} of {thing}: {}", reply.body),
        }
        if !granted.contains(&name) && name != "set password" {
            assert!(
                reply.body.contains("permission denied"),
                "{name} of {thing}: {}",
                reply.body
            );
        }
    }
}

fn is_still(users: &Users, who: usize) {
    let identity = users
        .world
        .ask(&users.secret, r#"{"select":"id","from":{"current_identity":null}}"#);
    assert_eq!(identity.body, format!(r#"{{"resource":"{}"}}"#, who + 1));
}

#[test]
fn a_token_cannot_be_given_to_another_identity() {
    let users = users();
    let takeover = format!(
        r#"{{"update":{{"current_token":null}},"params":{{"object":{{"instance":{}}}}}}}"#,
        DOCUMENT[1]
    );
    let reply = users.world.ask(&users.secret, &takeover);
    assert_eq!(
        reply.body,
        r#"{"errors":[{"position":[],"code":"permission denied","description":"Insufficient privileges to perform the action."}]}"#
    );
    assert_eq!(reply.status, 403);
    is_still(&users, 0);
}

#[test]
fn a_caller_reads_and_deletes_its_tokens() {
    let users = users();
    check(&users.secret, &users.world, &users.strange_token, &[]);
    check(&users.secret, &users.world, &users.other_own_token, &["read", "delete"]);
    is_still(&users, 0);
    check(&users.secret, &users.world, &users.own_token, &["read", "delete"]);
    assert_eq!(users.world.ask(&users.secret, "1").status, 401);
}

#[test]
fn a_caller_reads_its_credentials_and_changes_the_password() {
    let users = users();
    let (own, strange) = (credentials(&users.world, 0), credentials(&users.world, 1));
    check(&users.secret, &users.world, &strange, &[]);
    check(&users.secret, &users.world, &own, &["read", "change password"]);
    // With the password something else may not be changed.
    let update = format!(
        r#"{{"update":{own},"params":{{"object":{{"password":"r","current_password":"q","instance":{}}}}}}}"#,
        DOCUMENT[1]
    );
    assert_eq!(users.world.ask(&users.secret, &update).status, 403);
    let identify = |document, password| {
        let query = format!(r#"{{"identify":{document},"password":"{password}"}}"#);
        users.world.resource("secret", &query)
    };
    assert_eq!(identify(DOCUMENT[0], "q"), true);
    assert_eq!(identify(DOCUMENT[1], "p"), true);
}

#[test]
fn a_document_that_no_role_covers_reads_itself() {
    let users = users();
    check(&users.secret, &users.world, DOCUMENT[1], &[]);
    check(&users.secret, &users.world, DOCUMENT[0], &["read"]);
    let insert = action("history_write", DOCUMENT[0]);
    assert_eq!(users.world.ask(&users.secret, &insert).status, 403);
    is_still(&users, 0);
}

/// A role that covers the document decides exclusively.
#[test]
fn a_document_that_a_role_covers_has_what_the_role_grants() {
    let users = users();
    users.world.resource(
        "secret",
        r#"{"create_role":{"object":{"name":"nothing","membership":{"object":{"resource":{"collection":"u"}}},"privileges":[]}}}"#,
    );
    check(&users.secret, &users.world, DOCUMENT[0], &[]);
    check(&users.secret, &users.world, &users.other_own_token, &["read", "delete"]);
}

#[test]
fn a_key_with_a_role_cannot_give_itself_another() {
    let world = World::new(1_700_000_000_000_000);
    world.resource(
        "secret",
        r#"{"create_role":{"object":{"name":"little","privileges":[]}}}"#,
    );
    let key = world.resource("secret", r#"{"create_key":{"object":{"role":{"role":"little"}}}}"#);
    let secret = key["secret"].as_str().unwrap();
    let own = r#"{"current_token":null}"#;
    for query in [
        format!(r#"{{"get":{own}}}"#),
        format!(r#"{{"update":{own},"params":{{"object":{{"role":"admin"}}}}}}"#),
        format!(r#"{{"replace":{own},"params":{{"object":{{"role":"admin"}}}}}}"#),
        format!(r#"{{"paginate":{own},"events":true}}"#),
        format!(r#"{{"delete":{own}}}"#),
    ] {
        assert_eq!(world.ask(secret, &query).status, 403, "{query}");
    }
    assert_eq!(world.ask(secret, "1").status, 200);
}

/// A role that may write a user's document does not include knowledge of the password.
#[test]
fn a_password_is_replaced_through_a_document_only_with_the_one_before() {
    let users = users();
    users.world.resource(
        "secret",
        r#"{"create_role":{"object":{"name":"editors","membership":{"object":{"resource":{"collection":"u"}}},"privileges":[{"object":{"resource":{"collection":"u"},"actions":{"object":{"write":true}}}}]}}}"#,
    );
    let set = |credentials: &str| {
        let query = format!(
            r#"{{"update":{},"params":{{"object":{{"credentials":{{"object":{credentials}}}}}}}}}"#,
            DOCUMENT[1]
        );
        users.world.ask(&users.secret, &query).status
    };
    assert_eq!(set(r#"{"password":"mine"}"#), 400);
    assert_eq!(set(r#"{"password":"mine","current_password":"x"}"#), 400);
    assert_eq!(set(r#"{"password":"mine","current_password":"p"}"#), 200);
}

/// A document has one credential: a second password would open the same document.
#[test]
fn a_document_has_one_password() {
    let users = users();
    let second = format!(
        r#"{{"create":{{"credentials":null}},"params":{{"object":{{"instance":{},"password":"x"}}}}}}"#,
        DOCUMENT[1]
    );
    let reply = users.world.ask("secret", &second);
    assert!(reply.body.contains("instance not unique"), "{}", reply.body);
    let moved = format!(
        r#"{{"update":{},"params":{{"object":{{"instance":{}}}}}}}"#,
        credentials(&users.world, 0),
        DOCUMENT[1]
    );
    let reply = users.world.ask("secret", &moved);
    assert!(reply.body.contains("instance not unique"), "{}", reply.body);
}
