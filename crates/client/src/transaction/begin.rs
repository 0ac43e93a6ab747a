//! Creation of transactions: individually, and in the loop that commits and retries.

use quartet_wire_keyvalue::ErrorCode;

use super::Transaction;
use crate::Database;

impl Database {
    /// Creates a transaction with the database's defaults. It does not contact the server yet.
    pub fn begin(&self) -> Transaction {
        Transaction::new(self.clone())
    }

    /// Runs `body` in a transaction and commits it, and retries both while they fail for a reason
    /// that may pass. Side effects of `body` outside of the transaction may happen more than once.
    /// Errors: any other reason, or a retry limit or timeout of the database's defaults.
    pub async fn run<R>(&self, body: impl AsyncFn(&Transaction) -> Result<R, ErrorCode>) -> Result<R, ErrorCode> {
        let transaction = self.begin();
        loop {
            let attempt = async {
                let answer = body(&transaction).await?;
                transaction.commit().await?;
                Ok(answer)
            };
            match attempt.await {
                Ok(answer) => return Ok(answer),
                Err(code) => transaction.on_error(code).await?,
            }
        }
    }
}
