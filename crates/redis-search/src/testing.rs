//! A layer with the module, for unit tests.

use std::sync::LazyLock;

use quartet_layer_redis::commands::with;
use quartet_layer_redis::module_api::Commands;
pub use quartet_layer_redis::testing::{
    Choice, Connection, Fixture, answer_beside, beside_a_reader, findings, first, found, plant, show,
};

use quartet_wire_resp::Value;

use crate::SearchModule;

/// The layer's commands and the module's.
pub fn commands() -> &'static Commands {
    static ALL: LazyLock<Commands> = LazyLock::new(|| with(&[&SearchModule]));
    &ALL
}

/// A layer with the module over an empty engine, whose clock stands still.
pub fn search_fixture() -> Fixture {
    Fixture::with(commands())
}

/// Runs RESTORE. Returns the reply as text.
pub fn restore(connection: &mut Connection, name: &str, payload: &[u8]) -> String {
    let request = [b"RESTORE".as_slice(), name.as_bytes(), b"0", payload];
    let (mut bytes, mut out) = (Vec::new(), Vec::new());
    quartet_wire_resp::encode_command(&request, &mut bytes);
    connection.session.receive(&bytes, &mut out);
    show(&quartet_wire_resp::decode(&out).unwrap().unwrap().0)
}

/// The value of a key, as DUMP has it.
pub fn dumped(connection: &mut Connection, name: &str) -> Vec<u8> {
    match connection.run(&["DUMP", name]) {
        Value::Bulk(payload) => payload,
        other => panic!("{other:?}"),
    }
}
