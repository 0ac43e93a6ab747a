//! Ending the subscriptions of a connection.

use std::sync::Arc;

use crate::connections::channels::Scope;
use crate::connections::clients::Client;
use crate::connections::subscriptions::Subscriptions;
use crate::layer::Redis;

/// Ends all subscriptions without a word: RESET, and a connection that closes.
pub fn leave_all(layer: &Redis, subscriptions: &mut Subscriptions, client: &Arc<Client>) {
    for scope in [Scope::Channel, Scope::Pattern, Scope::Shard] {
        for name in std::mem::take(subscriptions.of_mut(scope)) {
            layer.connections.channels.unsubscribe(scope, &name, client.id);
        }
    }
    subscriptions.tell(client);
}
