//! DescribeKey of the key management service, for the key that the service manages for DynamoDB.
//!
//! Tools read it beside a table: Terraform's provider does for `server_side_encryption`. Nothing
//! here is encrypted with a key of that service; descriptions of tables name this one.

use crate::wire::failure::{Exception, Failure};
use crate::wire::json::{Json, Writer};
use crate::{DynamoDb, Outcome, settled};

const ALIAS: &str = "alias/aws/dynamodb";
const ID: &str = "00000000-0000-0000-0000-000000000000";

/// The ARN of the key.
pub fn arn(layer: &DynamoDb) -> String {
    of(layer, &format!("key/{ID}"))
}

fn of(layer: &DynamoDb, resource: &str) -> String {
    format!("arn:aws:kms:{}:{}:{resource}", layer.region, layer.account)
}

pub fn describe(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    let given = request.get("KeyId").and_then(Json::text).unwrap_or_default();
    let arn = arn(layer);
    if ![ALIAS, ID, &arn, &of(layer, ALIAS)].contains(&given) {
        let (kind, name) = match given.contains("alias/") {
            true => ("Alias", given.strip_prefix("alias/").map(|_| of(layer, given))),
            false => ("Key", Some(of(layer, &format!("key/{given}")))),
        };
        let name = name
            .filter(|_| !given.starts_with("arn:"))
            .unwrap_or_else(|| given.to_owned());
        return settled(Err(Failure::new(
            Exception::KeyNotFound,
            format!("{kind} '{name}' does not exist"),
        )));
    }
    settled(Ok(Writer::object(|writer| {
        writer.nested("KeyMetadata", |writer| {
            writer.member("AWSAccountId", &layer.account);
            writer.member("KeyId", ID);
            writer.member("Arn", &arn);
            writer.name("CreationDate").raw(0);
            writer.name("Enabled").raw(true);
            writer.member(
                "Description",
                "Default key that protects my DynamoDB data when no other key is defined",
            );
            writer.member("KeyUsage", "ENCRYPT_DECRYPT");
            writer.member("KeyState", "Enabled");
            writer.member("Origin", "AWS_KMS");
            writer.member("KeyManager", "AWS");
            writer.member("CustomerMasterKeySpec", "SYMMETRIC_DEFAULT");
            writer.member("KeySpec", "SYMMETRIC_DEFAULT");
            writer.name("MultiRegion").raw(false);
        });
    })))
}
