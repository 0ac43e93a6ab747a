//! MONITOR: what each connection that watches is sent of the commands of all others.

use crate::command::{ADMIN, Command, SKIP_MONITOR};
use crate::connections::clients::ClientState;
use crate::handler::context::Context;
use crate::layer::Redis;
use crate::observation::redaction;
use quartet_wire_resp::Arguments;

/// Sends MONITOR's line: time, database, address, and the arguments quoted. A password is never
/// shown, nor, as in Redis, an administrator's command.
pub fn tell_monitors(
    layer: &Redis,
    client: &ClientState,
    command: &Command,
    now_micros: u64,
    arguments: Arguments<'_>,
) {
    if !layer.connections.clients.has_monitors() || command.has(SKIP_MONITOR | ADMIN) {
        return;
    }
    write_to_monitors(layer, client, command, now_micros, arguments);
}

/// A script's own line precedes those of its commands, so it is written when the script starts.
pub fn tell_monitors_of_script(context: &mut Context<'_, '_>, arguments: Arguments<'_>) {
    if context.connections().clients.has_monitors()
        && let Ok(command) = context.table().find_of(arguments)
    {
        let now_micros = context.tx.now_micros();
        write_to_monitors(context.groups.layer, context.client, command, now_micros, arguments);
    }
}

fn write_to_monitors(
    layer: &Redis,
    client: &ClientState,
    command: &Command,
    now_micros: u64,
    arguments: Arguments<'_>,
) {
    let secrets = redaction::secrets(command, arguments);
    let address = if client.is_script {
        "lua"
    } else {
        &client.shared.address
    };
    let mut line = format!(
        "+{}.{:06} [{} {address}]",
        now_micros / 1_000_000,
        now_micros % 1_000_000,
        client.db,
    )
    .into_bytes();
    for (position, argument) in arguments.iter().enumerate() {
        let is_secret = secrets.binary_search(&position).is_ok();
        line.push(b' ');
        quote(if is_secret { redaction::REDACTED } else { argument }, &mut line);
    }
    line.extend_from_slice(b"\r\n");
    layer
        .connections
        .clients
        .tell_monitors(&line, layer.config.output_bytes_max());
}

/// A byte string in double quotes, with escapes for what is not printable.
pub fn quote(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for &byte in bytes {
        match byte {
            b'\\' | b'"' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x07 => out.extend_from_slice(b"\\a"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x20..0x7f => out.push(byte),
            _ => out.extend_from_slice(format!("\\x{byte:02x}").as_bytes()),
        }
    }
    out.push(b'"');
}
