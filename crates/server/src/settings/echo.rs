//! Settings of the toy layer.

use super::listen::Listen;

#[derive(Clone, Debug, Default)]
pub struct EchoSettings {
    pub listen: Listen,
    /// Prefixes each echoed line.
    pub greeting: String,
}
