//! Settings of the key-value layer.

use super::listen::Listen;

#[derive(Clone, Debug, Default)]
pub struct KeyValueSettings {
    pub listen: Listen,
    pub limits: quartet_layer_keyvalue::Options,
}
