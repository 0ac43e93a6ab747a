//! Errors as the service answers them: one table of exceptions.

use crate::wire::json::Writer;

/// An exception of the service. Its name, namespace and status are in [`Exception::row`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exception {
    Validation,
    Serialization,
    UnknownOperation,
    MissingAuthenticationToken,
    IncompleteSignature,
    InvalidSignature,
    UnrecognizedClient,
    AccessDenied,
    ResourceNotFound,
    ResourceInUse,
    TableNotFound,
    TableAlreadyExists,
    TableInUse,
    ConditionalCheckFailed,
    TransactionCanceled,
    IdempotentParameterMismatch,
    DuplicateItem,
    LimitExceeded,
    ProvisionedThroughputExceeded,
    /// An on-demand maximum was exceeded, or the request rate is too high: SDKs wait and retry.
    Throttling,
    RequestLimitExceeded,
    PolicyNotFound,
    TrimmedDataAccess,
    ExpiredIterator,
    BackupNotFound,
    PointInTimeRecoveryUnavailable,
    InvalidRestoreTime,
    InvalidExportTime,
    ExportConflict,
    ImportConflict,
    ExportNotFound,
    ImportNotFound,
    GlobalTableNotFound,
    /// An error of the key management service.
    KeyNotFound,
    InternalServer,
    /// Something keeps the partition: SDKs wait and retry.
    ServiceUnavailable,
}

const CORAL_VALIDATE: &str = "com.amazon.coral.validate#";
const CORAL_SERVICE: &str = "com.amazon.coral.service#";
const SERVICE: &str = "com.amazonaws.dynamodb.v20120810#";
const KEY_SERVICE: &str = "com.amazonaws.kms#";

impl Exception {
    fn row(self) -> (&'static str, &'static str, u16) {
        use Exception::*;
        match self {
            Validation => (CORAL_VALIDATE, "ValidationException", 400),
            Serialization => (CORAL_SERVICE, "SerializationException", 400),
            UnknownOperation => (CORAL_SERVICE, "UnknownOperationException", 400),
            MissingAuthenticationToken => (CORAL_SERVICE, "MissingAuthenticationTokenException", 400),
            IncompleteSignature => (CORAL_SERVICE, "IncompleteSignatureException", 400),
            InvalidSignature => (CORAL_SERVICE, "InvalidSignatureException", 400),
            UnrecognizedClient => (CORAL_SERVICE, "UnrecognizedClientException", 400),
            AccessDenied => (CORAL_SERVICE, "AccessDeniedException", 400),
            ResourceNotFound => (SERVICE, "ResourceNotFoundException", 400),
            ResourceInUse => (SERVICE, "ResourceInUseException", 400),
            TableNotFound => (SERVICE, "TableNotFoundException", 400),
            TableAlreadyExists => (SERVICE, "TableAlreadyExistsException", 400),
            TableInUse => (SERVICE, "TableInUseException", 400),
            ConditionalCheckFailed => (SERVICE, "ConditionalCheckFailedException", 400),
            TransactionCanceled => (SERVICE, "TransactionCanceledException", 400),
            IdempotentParameterMismatch => (SERVICE, "IdempotentParameterMismatchException", 400),
            DuplicateItem => (SERVICE, "DuplicateItemException", 400),
            LimitExceeded => (SERVICE, "LimitExceededException", 400),
            ProvisionedThroughputExceeded => (SERVICE, "ProvisionedThroughputExceededException", 400),
            Throttling => (SERVICE, "ThrottlingException", 400),
            RequestLimitExceeded => (SERVICE, "RequestLimitExceeded", 400),
            PolicyNotFound => (SERVICE, "PolicyNotFoundException", 400),
            TrimmedDataAccess => (SERVICE, "TrimmedDataAccessException", 400),
            ExpiredIterator => (SERVICE, "ExpiredIteratorException", 400),
            BackupNotFound => (SERVICE, "BackupNotFoundException", 400),
            PointInTimeRecoveryUnavailable => (SERVICE, "PointInTimeRecoveryUnavailableException", 400),
            InvalidRestoreTime => (SERVICE, "InvalidRestoreTimeException", 400),
            InvalidExportTime => (SERVICE, "InvalidExportTimeException", 400),
            ExportConflict => (SERVICE, "ExportConflictException", 400),
            ImportConflict => (SERVICE, "ImportConflictException", 400),
            ExportNotFound => (SERVICE, "ExportNotFoundException", 400),
            ImportNotFound => (SERVICE, "ImportNotFoundException", 400),
            KeyNotFound => (KEY_SERVICE, "NotFoundException", 400),
            GlobalTableNotFound => (SERVICE, "GlobalTableNotFoundException", 400),
            InternalServer => (SERVICE, "InternalServerError", 500),
            ServiceUnavailable => (CORAL_SERVICE, "ServiceUnavailableException", 503),
        }
    }

    pub fn name(self) -> &'static str {
        self.row().1
    }
}

/// A request refused. It has changed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub exception: Exception,
    pub message: String,
    /// Members of the body beside type and message: name and JSON.
    pub extra: Option<(&'static str, String)>,
    /// The fault is in an attribute value itself, not in the request around it.
    of_data: bool,
}

impl Failure {
    pub fn new(exception: Exception, message: impl Into<String>) -> Failure {
        Failure {
            exception,
            message: shortened(message.into()),
            extra: None,
            of_data: false,
        }
    }

    pub fn validation(message: impl Into<String>) -> Failure {
        Failure::new(Exception::Validation, message)
    }

    /// A validation failure with the usual first sentence.
    pub fn invalid(reason: impl std::fmt::Display) -> Failure {
        Failure::validation(format!("One or more parameter values were invalid: {reason}"))
    }

    /// A validation failure of an attribute value: its form, its digits, its size.
    pub fn of_data(message: impl Into<String>) -> Failure {
        Failure {
            of_data: true,
            ..Failure::validation(message)
        }
    }

    /// Prepends the words that start the validation of whole requests in PutItem, UpdateItem and
    /// DeleteItem, and that of Limit and Select in Query. Recordings of the service of August 2026
    /// show that failures of attribute values lack them, and so does every failure of the other
    /// operations.
    pub fn in_envelope(mut self) -> Failure {
        if self.exception == Exception::Validation && !self.of_data {
            self.message.insert_str(0, "1 validation error detected: ");
        }
        self
    }

    pub fn serialization(message: impl Into<String>) -> Failure {
        Failure::new(Exception::Serialization, message)
    }

    pub fn no_such_table() -> Failure {
        Failure::new(Exception::ResourceNotFound, "Requested resource not found")
    }

    /// There is no memory for the request. SDKs repeat it.
    pub fn out_of_memory() -> Failure {
        let text = "Internal server error: the server is out of memory. Delete something, or try again later.";
        Failure::new(Exception::InternalServer, text)
    }

    /// Nothing was done, because something keeps the partition.
    pub fn busy() -> Failure {
        Failure::new(
            Exception::ServiceUnavailable,
            "The service is temporarily unable to handle the request: something keeps the database for long",
        )
    }

    /// Returns true if the same request may succeed a little later.
    pub fn is_throttling(&self) -> bool {
        matches!(
            self.exception,
            Exception::ProvisionedThroughputExceeded | Exception::Throttling
        )
    }

    /// Writes the item that failed a condition, the only extra in failures of a request's parts.
    pub fn write_item(&self, writer: &mut Writer) {
        if let Some((name @ "Item", json)) = &self.extra {
            writer.name(name).raw(json);
        }
    }

    pub fn status(&self) -> u16 {
        self.exception.row().2
    }

    /// The body of the reply.
    pub fn body(&self) -> Vec<u8> {
        let (namespace, name, _) = self.exception.row();
        // Which of the two spellings an exception has is the service's own history.
        let capital = matches!(
            self.exception,
            Exception::Serialization | Exception::AccessDenied | Exception::TransactionCanceled
        );
        Writer::object(|writer| {
            writer.member("__type", &format!("{namespace}{name}"));
            if !self.message.is_empty() {
                writer.member(if capital { "Message" } else { "message" }, &self.message);
            }
            if let Some((name, json)) = &self.extra {
                writer.name(name).raw(json);
            }
        })
    }
}

/// Longest message, in bytes. Longer ones repeat words of the request.
const MESSAGE_BYTES_MAX: usize = 16 << 10;

/// The message, or its start if it is too long: otherwise a request of megabytes has replies of
/// megabytes.
fn shortened(mut message: String) -> String {
    if message.len() > MESSAGE_BYTES_MAX {
        message.truncate(message.floor_char_boundary(MESSAGE_BYTES_MAX));
        message.shrink_to_fit();
        message.push_str("...");
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table's name of 15 MB was repeated; compressed to kilobytes, 24 of them ended the server.
    #[test]
    fn a_message_that_repeats_megabytes_is_cut() {
        let message = Failure::validation("é".repeat(8 << 20)).message;
        assert_eq!(message, "é".repeat(MESSAGE_BYTES_MAX / 2) + "...");
        assert_eq!(Failure::validation("short").message, "short");
    }

    #[test]
    fn bodies_carry_type_message_and_extras() {
        let mut failure = Failure::validation("a \"b\"");
        failure.extra = Some(("Item", "{}".into()));
        let expected = r#"{"__type":"com.amazon.coral.validate#ValidationException","message":"a \"b\"","Item":{}}"#;
        assert_eq!(
            (failure.status(), failure.body().as_slice()),
            (400, expected.as_bytes())
        );
        let silent = Failure::serialization("");
        assert_eq!(
            silent.body(),
            br#"{"__type":"com.amazon.coral.service#SerializationException"}"#
        );
    }
}
