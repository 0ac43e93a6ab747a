//! Errors of search as error replies.

use quartet_layer_redis::module_api::ErrorReply;
use quartet_search::error::SearchError;

/// Turns an error of search, or an outcome with one, into a reply.
pub trait IntoReply {
    type Reply;

    fn into_reply(self) -> Self::Reply;
}

impl IntoReply for SearchError {
    type Reply = ErrorReply;

    fn into_reply(self) -> ErrorReply {
        self.text().into()
    }
}

impl<T> IntoReply for Result<T, SearchError> {
    type Reply = Result<T, ErrorReply>;

    fn into_reply(self) -> Result<T, ErrorReply> {
        self.map_err(IntoReply::into_reply)
    }
}
