//! Publish and subscribe: SUBSCRIBE and its kin, PUBLISH, PUBSUB.
//!
//! Replies follow Redis 7.0.15. Sharded channels live in a space of their own; there is one shard.

use quartet_wire_resp::Arguments;

use crate::commands::help::help_command;
use crate::connections::channels::Scope;
use crate::connections::clients::KeptFor;
use crate::connections::outbox::Item;
use crate::handler::context::Context;
use crate::handler::definition::*;

#[cfg(test)]
mod tests;

const SUBSCRIBE: u32 = NOSCRIPT | LOADING | STALE | PUBSUB;
const PUBLISH: u32 = LOADING | STALE | FAST | PUBSUB;

const FAMILY: Family = Family::of(Group::PubSub)
    .since("2.0.0")
    .complexity("O(N) in the number of channels");

#[rustfmt::skip]
pub const COMMANDS: &[Definition] = &[
    FAMILY.row("subscribe", -2, SUBSCRIBE, "Listens to channels.", Answers(subscribe)),
    FAMILY.row("unsubscribe", -1, SUBSCRIBE, "Stops listening to channels, or to all.", Answers(unsubscribe)),
    FAMILY.row("psubscribe", -2, SUBSCRIBE, "Listens to the channels that match patterns.", Answers(psubscribe)).complexity("O(N) in the number of patterns"),
    FAMILY.row("punsubscribe", -1, SUBSCRIBE, "Stops listening to patterns, or to all.", Answers(punsubscribe)).complexity("O(N) in the number of patterns"),
    FAMILY.row("publish", 3, PUBLISH, "Sends a message to a channel.", Answers(publish)).complexity("O(N+M) in the number of listeners and of all patterns"),
    FAMILY.row("ssubscribe", -2, SUBSCRIBE, "Listens to channels of a shard.", Answers(ssubscribe)).keys(Keys::Channels { last: -1 }).since("7.0.0"),
    FAMILY.row("sunsubscribe", -1, SUBSCRIBE, "Stops listening to channels of a shard, or to all.", Answers(sunsubscribe)).keys(Keys::Channels { last: -1 }).since("7.0.0"),
    FAMILY.row("spublish", 3, PUBLISH, "Sends a message to a channel of a shard.", Answers(spublish)).keys(Keys::Channels { last: 1 }).since("7.0.0").complexity("O(N) in the number of listeners"),
    container("pubsub", Group::PubSub, "2.8.0", "Holds the commands about channels.", SUBCOMMANDS),
];

#[rustfmt::skip]
const SUBCOMMANDS: &[Definition] = &[
    FAMILY.row("pubsub|channels", -2, LOADING | STALE | PUBSUB, "Lists the channels with listeners.", Answers(channels)).since("2.8.0"),
    help_command("pubsub|help", Group::PubSub, "6.2.0"),
    FAMILY.row("pubsub|numpat", 2, LOADING | STALE | PUBSUB, "Counts the patterns with listeners.", Answers(pattern_count)).since("2.8.0").complexity("O(1)"),
    FAMILY.row("pubsub|numsub", -2, LOADING | STALE | PUBSUB, "Counts the listeners of channels.", Answers(listener_counts)).since("2.8.0"),
    FAMILY.row("pubsub|shardchannels", -2, LOADING | STALE | PUBSUB, "Lists the shard's channels with listeners.", Answers(shard_channels)).since("7.0.0"),
    FAMILY.row("pubsub|shardnumsub", -2, LOADING | STALE | PUBSUB, "Counts the listeners of a shard's channels.", Answers(shard_listener_counts)).since("7.0.0"),
];

fn subscribe(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    listen(context, Scope::Channel, b"subscribe", arguments)
}

fn psubscribe(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    listen(context, Scope::Pattern, b"psubscribe", arguments)
}

fn ssubscribe(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    if context.in_exec {
        return Err("ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client".into());
    }
    listen(context, Scope::Shard, b"ssubscribe", arguments)
}

fn unsubscribe(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    stop_listening(context, Scope::Channel, b"unsubscribe", arguments);
    Ok(())
}

fn punsubscribe(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    stop_listening(context, Scope::Pattern, b"punsubscribe", arguments);
    Ok(())
}

fn sunsubscribe(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    stop_listening(context, Scope::Shard, b"sunsubscribe", arguments);
    Ok(())
}

/// Memory for a subscription, about: its name is in the lists of the connection and of all.
fn subscription_bytes(name: &[u8]) -> usize {
    2 * name.len() + SUBSCRIPTION_BYTES
}

const SUBSCRIPTION_BYTES: usize = 300;

fn listen(
    context: &mut Context<'_, '_>,
    scope: Scope,
    word: &[u8],
    arguments: Arguments<'_>,
) -> Result<(), ErrorReply> {
    let shared = context.client.shared.clone();
    for name in arguments.iter().skip(1) {
        if !context.client.subscriptions.of(scope).contains(name) {
            if !shared.keep_more(KeptFor::Subscriptions, subscription_bytes(name)) {
                context.client.subscriptions.tell(&shared);
                return Err(ErrorReply::from(errors::CONNECTION_OUT_OF_MEMORY).keeping_effects());
            }
            context.client.subscriptions.of_mut(scope).insert(name.to_vec());
            context.connections().channels.subscribe(scope, name, &shared);
        }
        confirm(context, scope, word, Some(name));
    }
    context.client.subscriptions.tell(&shared);
    Ok(())
}

fn stop_listening(context: &mut Context<'_, '_>, scope: Scope, word: &[u8], arguments: Arguments<'_>) {
    let names: Vec<Vec<u8>> = match arguments.len() {
        1 => context.client.subscriptions.of(scope).iter().cloned().collect(),
        _ => arguments.iter().skip(1).map(<[u8]>::to_vec).collect(),
    };
    for name in &names {
        leave(context, scope, name);
        confirm(context, scope, word, Some(name));
    }
    if names.is_empty() {
        confirm(context, scope, word, None);
    }
    let shared = context.client.shared.clone();
    context.client.subscriptions.tell(&shared);
}

fn leave(context: &mut Context<'_, '_>, scope: Scope, name: &[u8]) {
    if context.client.subscriptions.of_mut(scope).remove(name) {
        context
            .client
            .shared
            .keep_less(KeptFor::Subscriptions, subscription_bytes(name));
        context
            .connections()
            .channels
            .unsubscribe(scope, name, context.client.shared.id);
    }
}

fn confirm(context: &mut Context<'_, '_>, scope: Scope, word: &[u8], name: Option<&[u8]>) {
    let count = context.client.subscriptions.count(scope);
    context.reply.push(3);
    context.reply.bulk(word);
    match name {
        Some(name) => context.reply.bulk(name),
        None => context.reply.null(),
    }
    context.reply.integer(count as i64);
}

fn publish(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    send(context, Scope::Channel, arguments);
    Ok(())
}

fn spublish(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    send(context, Scope::Shard, arguments);
    Ok(())
}

fn send(context: &mut Context<'_, '_>, scope: Scope, arguments: Arguments<'_>) {
    let (message, receivers) = context
        .connections()
        .channels
        .message(scope, &arguments[1], &arguments[2]);
    if message.has_receivers() {
        context.outbox().add(Item::Message(message));
    }
    context.reply.integer(receivers as i64);
}

fn channels(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    list(context, Scope::Channel, arguments)
}

fn shard_channels(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    list(context, Scope::Shard, arguments)
}

fn list(context: &mut Context<'_, '_>, scope: Scope, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    if arguments.len() > 3 {
        let word = String::from_utf8_lossy(&arguments[1]).into_owned();
        return Err(
            format!("ERR unknown subcommand or wrong number of arguments for '{word}'. Try PUBSUB HELP.").into(),
        );
    }
    let names = context.connections().channels.names(scope, arguments.get(2));
    context.reply.array(names.len());
    names.iter().for_each(|name| context.reply.bulk(name));
    Ok(())
}

fn pattern_count(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), ErrorReply> {
    let count = context.connections().channels.count(Scope::Pattern);
    context.reply.integer(count as i64);
    Ok(())
}

fn listener_counts(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    count_each(context, Scope::Channel, arguments);
    Ok(())
}

fn shard_listener_counts(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    count_each(context, Scope::Shard, arguments);
    Ok(())
}

fn count_each(context: &mut Context<'_, '_>, scope: Scope, arguments: Arguments<'_>) {
    context.reply.array(2 * (arguments.len() - 2));
    for name in arguments.iter().skip(2) {
        context.reply.bulk(name);
        let count = context.connections().channels.listener_count(scope, name);
        context.reply.integer(count as i64);
    }
}
