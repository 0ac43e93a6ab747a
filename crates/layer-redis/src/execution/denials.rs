//! Noting what users were refused: ACL LOG.

use crate::access::acl::Denial;
use crate::access::acl::log::Entry;
use crate::command::Command;
use crate::connections::clients::ClientState;
use crate::handler::description::{describe, request_bytes};
use crate::handler::groups::Groups;
use crate::layer::Redis;
use quartet_wire_resp::Arguments;
use std::sync::atomic::Ordering;

impl Redis {
    /// Notes that a request was refused, inside MULTI or EXEC or not.
    pub fn log_denial(
        &self,
        client: &ClientState,
        denial: &Denial,
        command: &Command,
        arguments: Arguments<'_>,
        context: &'static str,
    ) {
        let (reason, object) = match denial {
            Denial::Command => ("command", command.name.as_bytes()),
            Denial::Key(position) => ("key", &arguments[*position]),
            Denial::Channel(position) => ("channel", &arguments[*position]),
        };
        self.log_refusal(client, reason, object, &client.user.name, arguments, context);
    }

    /// Logs a login with a wrong name or password.
    pub fn log_failed_authentication(&self, client: &ClientState, user: &[u8], arguments: Arguments<'_>) {
        let context = if client.multi.is_some() { "multi" } else { "toplevel" };
        self.log_refusal(client, "auth", &arguments[0], user, arguments, context);
    }

    fn log_refusal(
        &self,
        client: &ClientState,
        reason: &'static str,
        object: &[u8],
        user: &[u8],
        arguments: Arguments<'_>,
        context: &'static str,
    ) {
        self.observation.statistics.denied(reason);
        let now_ms = self.engine.now_micros() / 1000;
        let entry = Entry {
            id: 0,
            count: 1,
            reason,
            context,
            object: object.to_vec(),
            user: user.to_vec(),
            created_ms: now_ms,
            updated_ms: now_ms,
            client: describe(
                Groups::of(self),
                client.shared.id,
                &client.shared,
                request_bytes(arguments),
            ),
        };
        let length_max = self.config.acllog_max_len.load(Ordering::Relaxed) as usize;
        self.access.users.log.lock().add(entry, length_max);
    }
}
