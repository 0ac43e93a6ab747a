//! Facts for clients that hold for every layer.

pub use quartet_wire_rdb::DATABASES;

/// The version of Redis reported to clients. Many choose by it the commands that they send.
/// Commands and replies are the same for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RedisVersion {
    /// The version whose commands and replies this layer follows.
    #[default]
    Redis8,
    /// For clients that treat later versions differently.
    Redis7,
}

impl RedisVersion {
    pub const fn text(self) -> &'static str {
        match self {
            RedisVersion::Redis8 => "8.2.3",
            RedisVersion::Redis7 => "7.4.0",
        }
    }

    /// A byte for each part, as scripts see it.
    pub fn number(self) -> u32 {
        let parts = self.text().split('.').filter_map(|part| part.parse::<u32>().ok());
        parts.fold(0, |number, part| number << 8 | part)
    }
}

/// A value of 512 MB fits, and all of a large collection.
pub const REPLY_BYTES_MAX: usize = 1 << 30;
