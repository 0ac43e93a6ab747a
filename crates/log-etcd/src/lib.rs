//! etcd as the sequencer of the replicated log. The only crate that knows etcd's protocol.
//!
//! gRPC by `tonic`, with the few messages of the v3 API that are used written out in `messages`: no
//! protobuf compiler is needed to build. Connections live on a thread of each handle; callers send
//! requests and receive events without async.
//!
//! Nothing of the log's own rules is here: see `quartet_log_replicated`. `./test etcd` shows the
//! conformance suite against three members of etcd 3.4 and of the newest.

#![warn(missing_docs)]

mod calls;
mod etcd;
mod messages;
mod opening;
mod options;
mod version;
mod wire;

pub use etcd::{Etcd, MemberStatus, Waker};
pub use opening::OpenError;
pub use options::{EtcdOptions, EtcdTls, NotAnAddress};
