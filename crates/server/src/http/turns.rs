//! Turns of requests over HTTP.

use crate::http::{Answer, Dispatch};
use crate::tenants::turns::FairShare;

impl FairShare {
    /// Answers a request over HTTP as one turn, in the partition of its database. The answer of a
    /// database that owes time to the others is delayed.
    pub fn answer(&self, answer: impl FnOnce() -> Answer) -> Answer {
        let answer = self.take(answer);
        self.delayed(answer)
    }

    /// The same with what can be done soon; what is left takes turns by itself.
    pub fn dispatch(&self, answer: impl FnOnce() -> Dispatch) -> Dispatch {
        match self.take(answer) {
            Dispatch::Answered(answer) => Dispatch::Answered(self.delayed(answer)),
            Dispatch::Busy(_) => Dispatch::Busy(self.partition()),
            dispatch => dispatch,
        }
    }

    fn delayed(&self, answer: Answer) -> Answer {
        Answer {
            partition: self.partition(),
            pause: self.pause().unwrap_or_default(),
            ..answer
        }
    }
}
