//! Users, as lines of ACL LIST and of the original's `aclfile`.
//!
//! `default` is left as it is: its password is the root key of the target, which the copy needs.

use quartet_wire_resp::Value;

use crate::connection::{Target, error_text, text};
use crate::error::{Error, Result};
use crate::watcher::{Rejected, Watcher};

const DEFAULT: &str = "default";

/// The users of a server, a line for each.
pub fn list(server: &mut dyn Target) -> Result<Vec<String>> {
    match server.call(&[b"ACL", b"LIST"])? {
        Value::Array(lines) => Ok(lines.iter().map(text).collect()),
        reply => {
            let reason = error_text(&reply).unwrap_or_else(|| "an answer that is no list".into());
            Err(Error::Source(format!("ACL LIST: {reason}")))
        }
    }
}

/// Creates the users of these lines, which replace users of the same names, and saves them. Returns
/// the number of rejected users.
pub fn bring(lines: &str, target: &mut dyn Target, watcher: &mut dyn Watcher) -> Result<u64> {
    let mut rejected = 0;
    for line in lines.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let mut words = line.split_ascii_whitespace();
        let (Some("user"), Some(name)) = (words.next(), words.next()) else {
            return Err(Error::Source(
                "the file of users has a line that is no \"user NAME ...\"".into(),
            ));
        };
        if name == DEFAULT {
            watcher.note("the user default of the target is left as it is");
            continue;
        }
        let mut request = vec!["ACL", "SETUSER", name];
        // A new user has no rule, and "reset" would add one that the line does not have.
        let reply = target.call(&[b"ACL", b"GETUSER", name.as_bytes()])?;
        if !matches!(reply, Value::Null | Value::NullArray | Value::Error(_)) {
            request.push("reset");
        }
        request.extend(words);
        rejected += call(target, &request, format!("the user {name}"), watcher)?;
    }
    rejected += call(target, &["ACL", "SAVE"], "ACL SAVE".into(), watcher)?;
    Ok(rejected)
}

/// Sends the request. Returns 1 if the target refuses it.
fn call(target: &mut dyn Target, request: &[&str], description: String, watcher: &mut dyn Watcher) -> Result<u64> {
    let words: Vec<&[u8]> = request.iter().map(|word| word.as_bytes()).collect();
    let Some(reason) = error_text(&target.call(&words)?) else {
        return Ok(0);
    };
    watcher.rejected(Rejected {
        db: 0,
        what: description,
        reason,
    });
    Ok(1)
}
