//! Credentials of the first start, which are shown once.

use quartet_server::NewCredentials;

/// Shows credentials that were made just now, this once.
pub fn show(new: &NewCredentials) {
    if let Some(key) = &new.root_key {
        println!("root key, shown this once: {key}");
    }
    if let Some((id, secret)) = &new.access_key {
        println!("DynamoDB access key {id}, secret, shown this once: {secret}");
    }
}
