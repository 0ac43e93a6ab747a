//! What every layer promises about its rows: this is where all of them are known.

use quartet_engine::Invariants;
use quartet_layer_dynamodb::DynamoDbInvariants;
use quartet_layer_fauna::FaunaInvariants;
use quartet_layer_keyvalue::KeyValueInvariants;
use quartet_layer_redis::RedisInvariants;
use quartet_tenancy::CatalogueInvariants;

/// Of all layers, and of the catalogue of databases.
pub fn invariants() -> Vec<Box<dyn Invariants>> {
    vec![
        Box::new(CatalogueInvariants),
        Box::new(RedisInvariants),
        Box::new(FaunaInvariants),
        Box::new(DynamoDbInvariants),
        Box::new(KeyValueInvariants),
    ]
}
