//! Transactions under concurrency: what each thread may and may not see.

use std::sync::atomic::{AtomicBool, Ordering};

use quartet_engine::Durability;

use crate::world::World;

const ACCOUNTS: usize = 5;

/// Readers look at what is durable while writers are ahead of it.
fn world() -> World {
    let world = World::with(1_700_000_000_000_000, Durability::Always);
    world.resource("secret", r#"{"create_collection":{"object":{"name":"accounts"}}}"#);
    world.resource(
        "secret",
        r#"{"create_index":{"object":{"name":"balances","source":{"collection":"accounts"},
            "values":[{"object":{"field":["data","balance"]}}]}}}"#,
    );
    for id in 0..ACCOUNTS {
        let query = format!(
            r#"{{"create":{{"ref":{{"collection":"accounts"}},"id":"{id}"}},"params":{{"object":{{"data":{{"object":{{"balance":100}}}}}}}}}}"#
        );
        let reply = world.ask("secret", &query);
        assert_eq!(reply.status, 201);
        assert!(world.fauna.engine.wait_durable(reply.dependency));
    }
    // A reader of the past that ran before any writer missed the last account.
    world.clock.advance(30_000);
    world
}

fn transfer(from: usize, to: usize) -> String {
    let account = |id| format!(r#"{{"ref":{{"collection":"accounts"}},"id":"{id}"}}"#);
    let balance = |id| format!(r#"{{"select":["data","balance"],"from":{{"get":{}}}}}"#, account(id));
    let change = |id, amount: i64| {
        format!(
            r#"{{"update":{},"params":{{"object":{{"data":{{"object":{{"balance":{{"add":[{},{amount}]}}}}}}}}}}}}"#,
            account(id),
            balance(id)
        )
    };
    format!(r#"{{"do":[{},{},null]}}"#, change(from, -1), change(to, 1))
}

/// Money is neither made nor lost, read from documents or from the index, at once or in the past.
#[test]
fn a_bank_keeps_its_money() {
    let world = world();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let (world, done) = (&world, &done);
            scope.spawn(move || {
                for turn in 0..60 {
                    let reply = world.ask(
                        "secret",
                        &transfer((turn + writer) % ACCOUNTS, (turn * 3 + 1) % ACCOUNTS),
                    );
                    assert!(matches!(reply.status, 200 | 409), "{}", reply.body);
                }
                done.store(true, Ordering::Relaxed);
            });
        }
        while !done.load(Ordering::Relaxed) {
            let sum = r#"{"sum":{"match":{"index":"balances"}}}"#;
            assert_eq!(world.resource("secret", sum), 500);
            let through_documents = r#"{"sum":{"select":"data","from":{"map":{"lambda":"r","expr":
                {"select":["data","balance"],"from":{"get":{"var":"r"}}}},"collection":{"paginate":{"documents":{"collection":"accounts"}}}}}}"#;
            assert_eq!(world.resource("secret", through_documents), 500);
            let a_moment_ago = r#"{"at":{"time_subtract":{"now":null},"offset":30,"unit":"milliseconds"},"expr":
                {"sum":{"match":{"index":"balances"}}}}"#;
            assert_eq!(world.resource("secret", a_moment_ago), 500);
        }
    });
}

/// Two transactions that each read what the other writes cannot both commit on what they read.
#[test]
fn write_skew_does_not_happen() {
    let world = world();
    let guarded = |mine: usize| {
        format!(
            r#"{{"if":{{"gte":[{{"sum":{{"match":{{"index":"balances"}}}}}},500]}},"then":{{"do":[{{"update":
            {{"ref":{{"collection":"accounts"}},"id":"{mine}"}},"params":{{"object":{{"data":{{"object":{{"balance":0}}}}}}}}}},1]}},"else":0}}"#
        )
    };
    let wins: u64 = std::thread::scope(|scope| {
        let (world, guarded) = (&world, &guarded);
        let threads: Vec<_> = (0..3)
            .map(|mine| scope.spawn(move || world.resource("secret", &guarded(mine)).as_u64().unwrap()))
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(wins, 1);
}
