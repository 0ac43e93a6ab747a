//! Credentials that open another logical database.

use quartet_model::DatabaseId;

/// A way into a logical database, to be opened with the password.
#[derive(Debug)]
pub struct DatabaseLogin {
    pub database: DatabaseId,
    /// The given name of the user, which leads here.
    pub name: Vec<u8>,
    pub user: Vec<u8>,
    pub password: Vec<u8>,
}
