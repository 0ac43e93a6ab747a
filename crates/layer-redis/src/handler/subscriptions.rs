//! Ending the subscriptions of a connection.

use std::sync::Arc;

use crate::connections::channels::Scope;
use crate::connections::clients::{Client, KeptFor};
use crate::connections::subscriptions::Subscriptions;
use crate::handler::groups::Groups;

/// Ends all subscriptions without a word: RESET, and a connection that closes.
pub fn leave_all(groups: Groups<'_>, subscriptions: &mut Subscriptions, client: &Arc<Client>) {
    for scope in [Scope::Channel, Scope::Pattern, Scope::Shard] {
        for name in std::mem::take(subscriptions.of_mut(scope)) {
            groups.connections().channels.unsubscribe(scope, &name, client.id);
        }
    }
    subscriptions.tell(client);
    client.keep_nothing(KeptFor::Subscriptions);
}
