//! The filters of CLIENT LIST and CLIENT KILL: a connection is selected if it satisfies every given
//! filter.
//!
//! Redis has TYPE, ID, USER, ADDR, LADDR, SKIPME and MAXAGE; the others, and NOT- before each of
//! them, are Valkey's (<https://valkey.io/commands/client-list/>). The last of a filter given twice
//! counts.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use quartet_wire_resp::Arguments;

use crate::access::acl::User;
use crate::command::error_reply::ErrorReply;
use crate::connections::clients::Client;
use crate::handler::context::Context;
use crate::handler::description::flags;
use crate::{command::errors, command::parse};

/// The kinds of connections that Redis knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClientType {
    Normal,
    PubSub,
    Replication,
}

impl ClientType {
    fn of(client: &Client) -> ClientType {
        if client.is_replica.load(Ordering::Relaxed) {
            ClientType::Replication
        } else if client.subscriptions.any() {
            ClientType::PubSub
        } else {
            ClientType::Normal
        }
    }

    fn parse(word: &[u8]) -> Result<ClientType, ErrorReply> {
        match String::from_utf8_lossy(word).to_ascii_lowercase().as_str() {
            "normal" => Ok(ClientType::Normal),
            "pubsub" => Ok(ClientType::PubSub),
            "master" | "primary" | "replica" | "slave" => Ok(ClientType::Replication),
            _ => Err(format!("ERR Unknown client type '{}'", String::from_utf8_lossy(word)).into()),
        }
    }
}

enum Test {
    Ids(BTreeSet<u64>),
    Address(Vec<u8>),
    LocalAddress(Vec<u8>),
    Ip(Vec<u8>),
    Type(ClientType),
    User(Arc<User>),
    Name(Vec<u8>),
    LibraryName(Vec<u8>),
    LibraryVersion(Vec<u8>),
    Flags(Vec<u8>),
    Capabilities(Vec<u8>),
    Db(u8),
    AgeSeconds(u64),
    IdleSeconds(u64),
}

struct Filter {
    negated: bool,
    test: Test,
}

pub struct Filters {
    filters: Vec<Filter>,
    skip_self: bool,
}

impl Filters {
    /// `skip_self`: what SKIPME is if it is not given.
    pub fn parse(context: &Context<'_, '_>, words: Arguments<'_>, skip_self: bool) -> Result<Filters, ErrorReply> {
        let mut filters = Filters {
            filters: Vec::new(),
            skip_self,
        };
        let mut position = 0;
        while position < words.len() {
            let value = words.get(position + 1).ok_or(errors::SYNTAX)?;
            let name = String::from_utf8_lossy(&words[position]).to_ascii_lowercase();
            position += 2;
            if name == "skipme" {
                filters.skip_self = yes_or_no(value)?;
                continue;
            }
            let (negated, name) = match name.strip_prefix("not-") {
                Some(name) => (true, name),
                None => (false, name.as_str()),
            };
            let mut test = Test::parse(context, name, value)?;
            if let Test::Ids(ids) = &mut test {
                while let Some(id) = words.get(position).and_then(positive) {
                    ids.insert(id);
                    position += 1;
                }
            }
            filters.add(Filter { negated, test });
        }
        Ok(filters)
    }

    fn add(&mut self, new: Filter) {
        let kind = std::mem::discriminant(&new.test);
        self.filters
            .retain(|old| old.negated != new.negated || std::mem::discriminant(&old.test) != kind);
        self.filters.push(new);
    }

    pub fn match_client(&self, context: &Context<'_, '_>, client: &Client) -> bool {
        let is_skipped = self.skip_self && client.id == context.client.shared.id;
        let holds = |filter: &Filter| filter.test.holds(context, client) != filter.negated;
        !is_skipped && self.filters.iter().all(holds)
    }
}

fn yes_or_no(word: &[u8]) -> Result<bool, ErrorReply> {
    match word {
        word if parse::is(word, "yes") => Ok(true),
        word if parse::is(word, "no") => Ok(false),
        _ => Err(errors::SYNTAX.into()),
    }
}

fn positive(word: &[u8]) -> Option<u64> {
    u64::try_from(parse::integer(word)?).ok().filter(|number| *number > 0)
}

fn seconds(name: &str, value: &[u8]) -> Result<u64, ErrorReply> {
    parse::integer(value).ok_or_else(|| format!("ERR {name} is not an integer or out of range"))?;
    positive(value).ok_or_else(|| format!("ERR {name} should be greater than 0").into())
}

impl Test {
    fn parse(context: &Context<'_, '_>, name: &str, value: &[u8]) -> Result<Test, ErrorReply> {
        Ok(match name {
            "id" => Test::Ids(BTreeSet::from([
                positive(value).ok_or("ERR client-id should be greater than 0")?
            ])),
            "addr" => Test::Address(value.to_vec()),
            "laddr" => Test::LocalAddress(value.to_vec()),
            "ip" => Test::Ip(value.to_vec()),
            "type" => Test::Type(ClientType::parse(value)?),
            "user" => {
                let no_such = || format!("ERR No such user '{}'", String::from_utf8_lossy(value));
                Test::User(context.access().users.find(value).ok_or_else(no_such)?)
            }
            "name" => Test::Name(value.to_vec()),
            "lib-name" => Test::LibraryName(value.to_vec()),
            "lib-ver" => Test::LibraryVersion(value.to_vec()),
            "flags" => Test::Flags(value.to_vec()),
            "capa" => Test::Capabilities(value.to_vec()),
            "db" => {
                let number = parse::integer(value).and_then(|number| u8::try_from(number).ok());
                let number = number.filter(|number| *number < crate::facts::DATABASES);
                Test::Db(number.ok_or("ERR DB number should be between 0 and 15")?)
            }
            "maxage" => Test::AgeSeconds(seconds("maxage", value)?),
            "idle" => Test::IdleSeconds(seconds("idle", value)?),
            _ => return Err(errors::SYNTAX.into()),
        })
    }

    fn holds(&self, context: &Context<'_, '_>, client: &Client) -> bool {
        let details = client.details.lock();
        let since = |micros: u64| context.engine().now_micros().saturating_sub(micros) / 1_000_000;
        let has_all = |have: &str, wanted: &[u8]| wanted.iter().all(|letter| have.as_bytes().contains(letter));
        match self {
            Test::Ids(ids) => ids.contains(&client.id),
            Test::Address(address) => client.address.as_bytes() == address,
            Test::LocalAddress(address) => client.local_address.as_bytes() == address,
            Test::Ip(ip) => ip_of(&client.address).as_bytes() == ip,
            Test::Type(kind) => *kind == ClientType::of(client),
            Test::User(user) => Arc::ptr_eq(user, &client.user(&context.access().users)),
            Test::Name(name) => details.name.as_bytes() == name,
            Test::LibraryName(name) => details.library_name.as_bytes() == name,
            Test::LibraryVersion(version) => details.library_version.as_bytes() == version,
            Test::Flags(letters) => has_all(&flags(client), letters),
            Test::Capabilities(letters) => has_all(details.capabilities(), letters),
            Test::Db(db) => client.db.load(Ordering::Relaxed) == *db,
            Test::AgeSeconds(age) => since(client.connected_micros) >= *age,
            Test::IdleSeconds(idle) => since(client.last_active_micros.load(Ordering::Relaxed)) >= *idle,
        }
    }
}

/// The part before the port, without the brackets of an address of IPv6.
fn ip_of(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']')
}
