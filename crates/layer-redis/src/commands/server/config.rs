//! CONFIG: reading and changing parameters. `config::table` has the parameters.

use quartet_wire_resp::Arguments;

use super::unstored_users;
use crate::access::acl::password_hash;
use crate::access::admission_control::{PARAMETERS_OF_TENANTS, SLOWLOG_LENGTH_OF_TENANTS};
use crate::command::glob;
use crate::commands::help::help_command;
use crate::config::Change;
use crate::config::table::Parameter;
use crate::handler::context::Context;
use crate::handler::definition::*;

pub const COMMANDS: &[Definition] = &[container(
    "config",
    Group::Server,
    "2.0.0",
    "Holds the commands about parameters.",
    SUBCOMMANDS,
)];

const FLAGS: u32 = ADMIN | NOSCRIPT | LOADING | STALE;

const FAMILY: Family = Family::of(Group::Server)
    .since("2.0.0")
    .complexity("O(N) in the number of parameters");

#[rustfmt::skip]
const SUBCOMMANDS: &[Definition] = &[
    FAMILY.row("config|get", -3, FLAGS, "Returns the parameters that match any of the patterns.", Answers(config_get)),
    help_command("config|help", Group::Server, "5.0.0"),
    FAMILY.row("config|resetstat", 2, FLAGS, "Sets the counters of INFO to zero.", Answers(reset_statistics)),
    FAMILY.row("config|rewrite", 2, FLAGS, "Writes the parameters to the configuration file.", Decides(rewrite)).since("2.8.0"),
    FAMILY.row("config|set", -4, FLAGS, "Changes parameters: all that are given, or none.", Decides(config_set)),
];

fn config_get(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let patterns = arguments.tail(2);
    let parameters = context.config().matching(
        |name| {
            patterns
                .iter()
                .any(|pattern| glob::matches_case(pattern, name.as_bytes(), true))
        },
        |name| {
            patterns
                .iter()
                .any(|pattern| pattern.eq_ignore_ascii_case(name.as_bytes()))
        },
    );
    context.reply.map(parameters.len());
    for (name, value) in parameters {
        context.reply.bulk(name.as_bytes());
        context.reply.bulk(value.as_bytes());
    }
    Ok(())
}

fn config_set(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<Outcome, ErrorReply> {
    if !arguments.len().is_multiple_of(2) {
        return Err("ERR wrong number of arguments for 'config|set' command".into());
    }
    let changes = checked(context, arguments)?;
    let is_about_tls = !context.is_one_of_several() && changes.iter().any(|change| change.parameter.is_about_tls());
    let names_password = (2..arguments.len())
        .step_by(2)
        .any(|at| arguments[at].eq_ignore_ascii_case(b"requirepass"));
    if context.access().is_followed && is_about_tls && names_password {
        // Nothing of this transaction stays.
        return Err("ERR CONFIG SET failed - set requirepass and TLS by requests of their own".into());
    }
    for position in (2..arguments.len()).step_by(2) {
        if arguments[position].eq_ignore_ascii_case(b"requirepass") {
            let password = &arguments[position + 1];
            let hash = (!password.is_empty()).then(|| password_hash(password));
            unstored_users::note_change(context);
            context.access().users.require_password(hash);
        }
    }
    if is_about_tls {
        return Ok(Outcome::After(Deferred::ChangeTls(changes)));
    }
    let sets_timeout = changes.iter().any(|change| change.parameter.name == "timeout");
    context.config().change(changes);
    context.decide_on_changes();
    if sets_timeout {
        // Each connection recomputes the end of its idle time.
        context.connections().clients.wake_all();
    }
    context.reply.ok();
    Ok(Outcome::Done)
}

/// Every pair, checked; or the error of the first that is wrong. Names are looked at before values,
/// as in Redis.
fn checked(context: &Context<'_, '_>, arguments: Arguments<'_>) -> Result<Vec<Change>, ErrorReply> {
    let mut pairs: Vec<(&'static Parameter, usize)> = Vec::new();
    for position in (2..arguments.len()).step_by(2) {
        let name = String::from_utf8_lossy(&arguments[position]).into_owned();
        let parameter = Parameter::find(&arguments[position])
            .ok_or_else(|| format!("ERR Unknown option or number of arguments for CONFIG SET - '{name}'"))?;
        if pairs.iter().any(|(other, other_position)| {
            other.name == parameter.name && arguments[position].eq_ignore_ascii_case(&arguments[*other_position])
        }) {
            return Err(failed(&name, "duplicate parameter"));
        }
        if context.is_one_of_several() && !PARAMETERS_OF_TENANTS.contains(&parameter.name) {
            return Err(failed(&name, "can't set protected config"));
        }
        pairs.push((parameter, position));
    }
    let config = context.config();
    let check = |(parameter, position): (&'static Parameter, usize)| {
        let name = String::from_utf8_lossy(&arguments[position]);
        let change = config.check(parameter, &arguments[position + 1]);
        let change = change.map_err(|reason| failed(&name, &reason))?;
        let keeps_too_much = parameter.name == "slowlog-max-len"
            && change
                .text
                .parse()
                .is_ok_and(|length: u64| length > SLOWLOG_LENGTH_OF_TENANTS);
        match context.is_one_of_several() && keeps_too_much {
            true => Err(failed(
                &name,
                &format!("argument must be between 0 and {SLOWLOG_LENGTH_OF_TENANTS} inclusive"),
            )),
            false => Ok(change),
        }
    };
    pairs.into_iter().map(check).collect()
}

fn failed(name: &str, reason: &str) -> ErrorReply {
    format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {reason}").into()
}

fn reset_statistics(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), ErrorReply> {
    context.observation().statistics.reset();
    context.reply.ok();
    Ok(())
}

fn rewrite(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<Outcome, ErrorReply> {
    if context.process().write_parameters.is_none() {
        return Err("ERR The server is running without a config file".into());
    }
    Ok(Outcome::After(Deferred::RewriteConfig))
}
