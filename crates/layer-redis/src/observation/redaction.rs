//! Which arguments must never be shown by MONITOR or SLOWLOG: passwords.

use quartet_wire_resp::Arguments;

use crate::command::Command;
use crate::config::table::Parameter;
use crate::{command::migration, command::parse};

/// Replaces a secret.
pub const REDACTED: &[u8] = b"(redacted)";

/// Positions of the secret arguments, in their order. Empty, without allocating, for nearly all
/// commands.
pub fn secrets(command: &Command, arguments: Arguments<'_>) -> Vec<usize> {
    match command.name {
        "acl|setuser" | "acl|getuser" | "acl|deluser" | "acl|gentoken" | "acl|resttoken" => {
            (2..arguments.len()).collect()
        }
        "auth" => (1..arguments.len()).collect(),
        "hello" => after_auth(arguments),
        "migrate" => migration::secrets(arguments),
        "config|set" => secret_values(arguments),
        _ => Vec::new(),
    }
}

/// HELLO's user and password.
fn after_auth(arguments: Arguments<'_>) -> Vec<usize> {
    let mut words = arguments.iter().enumerate().skip(2);
    let auth = words.find(|(_, word)| parse::is(word, "auth"));
    auth.map_or(Vec::new(), |(position, _)| {
        (position + 1..arguments.len().min(position + 3)).collect()
    })
}

fn secret_values(arguments: Arguments<'_>) -> Vec<usize> {
    let values = (3..arguments.len()).step_by(2);
    let is_secret = |position: &usize| Parameter::find(&arguments[position - 1]).is_some_and(Parameter::is_secret);
    values.filter(is_secret).collect()
}
