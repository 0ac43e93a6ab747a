//! The checks before a log is kept in an etcd. Each refusal names what to change.

use std::error::Error;
use std::io;

use quartet_log_replicated::Failure;
use tonic::Status;

use crate::messages::{MemberListRequest, MemberListResponse, StatusRequest, StatusResponse};
use crate::options::EtcdOptions;
use crate::version::{is_trusted, reads_are_linearizable};
use crate::wire::{Wire, failure};

/// Why an etcd is not used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// No endpoints, endpoints that are not addresses, or unreadable certificates.
    #[error("etcd's endpoints or certificates are not usable: {0}")]
    Settings(String),
    /// Records would cross a network in clear text.
    #[error(
        "etcd at {endpoint} is beyond this machine: use TLS (--etcd-ca), or allow clear text \
         (--etcd-allow-clear-text)"
    )]
    ClearText {
        /// The endpoint.
        endpoint: String,
    },
    /// No member has answered.
    #[error("no etcd member has answered: {0}")]
    Unreachable(String),
    /// One of the two sides does not trust the other's certificate, or does not speak TLS.
    #[error("etcd cannot be talked to over TLS: {0}")]
    Untrusted(String),
    /// A member refuses this client.
    #[error("etcd refuses: {0}")]
    Denied(String),
    /// One disk holds all that is acknowledged.
    #[error(
        "etcd has one voting member, whose disk would be the only one: use three, or allow one \
        (--etcd-allow-one-member)"
    )]
    OneMember,
    /// The version has lost what it had acknowledged.
    #[error("etcd {version} is known to lose data: use 3.4.42, 3.5.28, 3.6.9 or later")]
    KnownLosses {
        /// The version.
        version: String,
    },
    /// The version answers a linearizable read with what was true before it, at times.
    #[error(
        "etcd {version} may answer a linearizable read with what was true before (etcd #20418, #21399), and so may this \
         node: use 3.4.42, 3.5.28, 3.6.9 or later, or allow stale reads \
         (--etcd-allow-stale-reads)"
    )]
    StaleReads {
        /// The version.
        version: String,
    },
    /// etcd would refuse writes before the log is trimmed.
    #[error(
        "etcd's quota of {quota} bytes is less than {needed}, four times the log's budget: raise --quota-backend-bytes"
    )]
    Quota {
        /// The quota of a member.
        quota: u64,
        /// Four times the budget.
        needed: u64,
    },
}

const MEMBER_LIST: &str = "/etcdserverpb.Cluster/MemberList";
pub(crate) const STATUS: &str = "/etcdserverpb.Maintenance/Status";
const QUOTA_OVER_BUDGET: u64 = 4;

/// Checks the members that answer. A member that is down is checked at the next opening.
pub(crate) async fn judge(wire: &Wire, options: &EtcdOptions) -> Result<(), OpenError> {
    let members = members(wire).await?;
    let voting = members.members.iter().filter(|member| !member.is_learner);
    if voting.count() < 2 && !options.allow_one_member {
        return Err(OpenError::OneMember);
    }
    for endpoint in 0..wire.endpoints() {
        let status: Result<StatusResponse, Status> = wire.call_at(endpoint, STATUS, StatusRequest {}).await;
        if let Ok(status) = status {
            judge_member(&status, options)?;
        }
    }
    Ok(())
}

fn judge_member(status: &StatusResponse, options: &EtcdOptions) -> Result<(), OpenError> {
    if !is_trusted(&status.version) {
        let version = status.version.clone();
        return Err(OpenError::KnownLosses { version });
    }
    if !options.allow_stale_reads && !reads_are_linearizable(&status.version) {
        let version = status.version.clone();
        return Err(OpenError::StaleReads { version });
    }
    let reported = u64::try_from(status.db_size_quota).unwrap_or_default();
    let quota = if reported == 0 { options.quota_bytes } else { reported };
    let needed = options.budget_bytes.saturating_mul(QUOTA_OVER_BUDGET);
    if quota < needed {
        return Err(OpenError::Quota { quota, needed });
    }
    Ok(())
}

async fn members(wire: &Wire) -> Result<MemberListResponse, OpenError> {
    let mut last = Status::unavailable("there are no endpoints");
    // Twice around: a member may just have lost its leader.
    for _ in 0..2 * wire.endpoints() {
        match wire.call(MEMBER_LIST, MemberListRequest {}).await {
            Ok(members) => return Ok(members),
            Err(status) => last = status,
        }
        if let Some(refusal) = refusal(&last) {
            return Err(refusal);
        }
    }
    Err(OpenError::Unreachable(reason(&last)))
}

/// The refusal that no waiting changes, if the status is one.
fn refusal(status: &Status) -> Option<OpenError> {
    if let Failure::Denied(message) = failure(status) {
        return Some(OpenError::Denied(message));
    }
    let is_wrong = |cause: &(dyn Error + 'static)| {
        let error = cause.downcast_ref::<io::Error>();
        error.is_some_and(|error| error.kind() == io::ErrorKind::InvalidData)
    };
    causes(status)
        .any(is_wrong)
        .then(|| OpenError::Untrusted(reason(status)))
}

/// The message of a status, with its causes.
fn reason(status: &Status) -> String {
    let first = status.message().to_owned();
    let further = causes(status).map(ToString::to_string);
    further.fold(first, |said, cause| match said.contains(&cause) {
        true => said,
        false => format!("{said}: {cause}"),
    })
}

fn causes(status: &Status) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(status.source(), |&cause| cause.source())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(version: &str, quota: i64, change: impl FnOnce(&mut EtcdOptions)) -> Result<(), OpenError> {
        let mut options = EtcdOptions::new(vec!["localhost:2379".to_owned()]);
        change(&mut options);
        let status = StatusResponse {
            version: version.to_owned(),
            db_size_quota: quota,
            ..StatusResponse::default()
        };
        judge_member(&status, &options)
    }

    #[test]
    fn each_refusal_names_what_to_change() {
        let (endpoint, version) = ("etcd.example:2379".to_owned(), "3.5.1".to_owned());
        let (quota, needed) = (512 << 20, 1 << 30);
        for (refusal, words) in [
            (OpenError::OneMember, "one voting member"),
            (
                OpenError::ClearText { endpoint },
                "etcd at etcd.example:2379 is beyond this machine: use TLS",
            ),
            (
                OpenError::KnownLosses { version },
                "etcd 3.5.1 is known to lose data: use 3.4.42, 3.5.28",
            ),
            (
                OpenError::Quota { quota, needed },
                "536870912 bytes is less than 1073741824, four times the log's budget: raise --quota-backend-bytes",
            ),
        ] {
            assert!(refusal.to_string().contains(words), "{refusal}");
        }
    }

    #[test]
    fn members_are_checked_by_version_and_quota() {
        assert_eq!(check("3.4.42", 0, |_| {}), Ok(()));
        let version = "3.4.23".to_owned();
        assert_eq!(check("3.4.23", 0, |_| {}), Err(OpenError::StaleReads { version }));
        assert_eq!(check("3.4.23", 0, |options| options.allow_stale_reads = true), Ok(()));
        assert_eq!(check("3.7.3", 2 << 30, |_| {}), Ok(()));
        let version = "3.5.1".to_owned();
        assert_eq!(check("3.5.1", 0, |_| {}), Err(OpenError::KnownLosses { version }));
        let needed = 1 << 30;
        let quota = 512 << 20;
        let too_small = Err(OpenError::Quota { quota, needed });
        assert_eq!(check("3.7.3", 512 << 20, |_| {}), too_small);
        assert_eq!(check("3.4.42", 0, |options| options.quota_bytes = quota), too_small);
        assert_eq!(
            check("3.7.3", 512 << 20, |options| options.budget_bytes = quota / 4),
            Ok(())
        );
    }
}
