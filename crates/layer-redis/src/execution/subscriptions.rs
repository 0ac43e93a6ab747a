//! Ending the subscriptions of a connection.

use std::sync::Arc;

use crate::channels::Scope;
use crate::clients::Client;
use crate::layer::Redis;
use crate::subscriptions::Subscriptions;

/// Ends all subscriptions without a word: RESET, and a connection that closes.
pub fn leave_all(layer: &Redis, subscriptions: &mut Subscriptions, client: &Arc<Client>) {
    for scope in [Scope::Channel, Scope::Pattern, Scope::Shard] {
        for name in std::mem::take(subscriptions.of_mut(scope)) {
            layer.connections.channels.unsubscribe(scope, &name, client.id);
        }
    }
    subscriptions.tell(client);
}
