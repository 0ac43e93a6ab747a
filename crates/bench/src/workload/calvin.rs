//! The write benchmark that FaunaDB published (2017): each transaction inserts four instances with
//! four small random strings each into a class with four indexes, 36 writes in all: an instance is
//! one, and in each index its entry and the entry's event.

use async_trait::async_trait;

use crate::byte_strings::ByteStrings;
use crate::measure::Worker;
use crate::random::Random;
use crate::records::calvin::{FIELD_NAMES, INSTANCES};
use crate::targets::{Connection, OperationError};

const STRING_BYTES: usize = 12;

/// One closed loop of inserting transactions.
pub struct CalvinWorker {
    connection: Box<dyn Connection>,
    random: Random,
    /// The strings of the first instance, then those of the second …
    strings: ByteStrings,
}

impl CalvinWorker {
    pub fn new(connection: Box<dyn Connection>, seed: u64, index: u64, workers: u64) -> CalvinWorker {
        CalvinWorker {
            connection,
            random: Random::new(seed, &[workers, index]),
            strings: ByteStrings::default(),
        }
    }
}

#[async_trait(?Send)]
impl Worker for CalvinWorker {
    fn prepare(&mut self) {
        self.strings.clear();
        for _ in 0..INSTANCES * FIELD_NAMES.len() {
            self.random.text(STRING_BYTES, &mut self.strings);
        }
    }

    async fn operate(&mut self) -> Result<(), OperationError> {
        self.connection.insert_instances(&self.strings).await
    }
}
