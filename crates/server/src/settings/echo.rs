//! Settings of the toy layer.

use super::listen::Listen;

#[derive(Clone, Debug, Default)]
pub struct EchoSettings {
    pub listen: Listen,
    /// Stands before each line that comes back.
    pub greeting: String,
}
