//! The log's requests as etcd's calls, and its answers back.

use std::time::Duration;

use quartet_log_replicated::{Answer, Compare, Failure, Hint, LeaseId, Operation, Request};
use tokio_stream::StreamExt;
use tonic::{Code, Status};

use crate::messages::compare::TargetUnion;
use crate::messages::{
    self, CompactionRequest, CompactionResponse, CompareResult, CompareTarget, DeleteRangeRequest, LeaseGrantRequest,
    LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse, LeaseRevokeRequest, LeaseRevokeResponse,
    PutRequest, RangeRequest, RangeResponse, RequestOp, ResponseOp, TxnRequest, TxnResponse, WatchCreateRequest,
    WatchRequest, WatchResponse, request_op, response_op,
};
use crate::wire::{Wire, failure};

const RANGE: &str = "/etcdserverpb.KV/Range";
const TXN: &str = "/etcdserverpb.KV/Txn";
const COMPACT: &str = "/etcdserverpb.KV/Compact";
const LEASE_GRANT: &str = "/etcdserverpb.Lease/LeaseGrant";
const LEASE_REVOKE: &str = "/etcdserverpb.Lease/LeaseRevoke";
const LEASE_KEEP_ALIVE: &str = "/etcdserverpb.Lease/LeaseKeepAlive";
const WATCH: &str = "/etcdserverpb.Watch/Watch";
/// Pause before an ended watch is restarted.
const WATCH_AGAIN_AFTER: Duration = Duration::from_millis(50);
const DELETE_EVENT: i32 = 1;

/// Does a request, once.
pub(crate) async fn execute(wire: &Wire, request: Request) -> Result<Answer, Failure> {
    let answer = match request {
        Request::Get { key } => get(wire, key).await,
        Request::Range { from, until, limit } => range(wire, from, until, limit).await,
        Request::Transact {
            compares,
            operations,
            otherwise,
        } => transact(wire, compares, operations, otherwise).await,
        Request::Compact { revision } => compact(wire, revision).await,
        Request::Grant { seconds } => grant(wire, seconds).await,
        Request::KeepAlive { lease } => keep_alive(wire, lease).await,
        Request::Revoke { lease } => revoke(wire, lease).await,
        Request::Object(_) => return Err(Failure::Store("etcd keeps no objects".to_owned())),
    };
    answer.map_err(|status| failure(&status))
}

/// Passes hints to `hint` until it returns false. An ended watch is restarted, with a hint that
/// events may be missing.
pub(crate) async fn watch(wire: &Wire, from: Vec<u8>, until: Vec<u8>, hint: &(dyn Fn(Hint) -> bool + Sync)) {
    let create = WatchRequest {
        create: Some(WatchCreateRequest {
            key: from,
            range_end: until,
        }),
    };
    while watch_once(wire, create.clone(), hint).await {
        tokio::time::sleep(WATCH_AGAIN_AFTER).await;
    }
}

/// Returns true to continue.
async fn watch_once(wire: &Wire, create: WatchRequest, hint: &(dyn Fn(Hint) -> bool + Sync)) -> bool {
    let requests = tokio_stream::once(create).chain(tokio_stream::pending());
    let Ok(mut responses) = wire.stream::<WatchRequest, WatchResponse>(WATCH, requests).await else {
        return hint(Hint::Missed);
    };
    while let Some(Ok(response)) = responses.next().await {
        if response.canceled {
            break;
        }
        if response.created && !hint(Hint::Missed) {
            return false;
        }
        let puts = response.events.into_iter().filter(|event| event.kind != DELETE_EVENT);
        for put in puts.filter_map(|event| event.kv) {
            let (key, value) = (put.key, put.value);
            if !hint(Hint::Put { key, value }) {
                return false;
            }
        }
    }
    hint(Hint::Missed)
}

async fn get(wire: &Wire, key: Vec<u8>) -> Result<Answer, Status> {
    let request = RangeRequest {
        key,
        ..RangeRequest::default()
    };
    let response: RangeResponse = wire.call(RANGE, request).await?;
    Ok(Answer::Value(value(response)))
}

async fn range(wire: &Wire, from: Vec<u8>, until: Vec<u8>, limit: u32) -> Result<Answer, Status> {
    let request = RangeRequest {
        key: from,
        range_end: until,
        limit: limit.into(),
    };
    let response: RangeResponse = wire.call_for_range(RANGE, request).await?;
    let entries = response.kvs.into_iter().map(|entry| (entry.key, entry.value)).collect();
    let more = response.more;
    Ok(Answer::Entries { entries, more })
}

async fn transact(
    wire: &Wire,
    compares: Vec<Compare>,
    operations: Vec<Operation>,
    otherwise: Vec<Vec<u8>>,
) -> Result<Answer, Status> {
    let request = TxnRequest {
        compare: compares.into_iter().map(compare).collect(),
        success: operations.into_iter().map(operation).collect(),
        failure: otherwise.into_iter().map(read).collect(),
    };
    let answer: TxnResponse = wire.call(TXN, request).await?;
    if answer.succeeded {
        let revision = answer.header.unwrap_or_default().revision;
        return Ok(Answer::Done { revision });
    }
    let values = answer.responses.into_iter().map(|response| match response {
        ResponseOp {
            response: Some(response_op::Response::Range(range)),
        } => value(range),
        _ => None,
    });
    let values = values.collect();
    Ok(Answer::Refused { values })
}

async fn compact(wire: &Wire, revision: i64) -> Result<Answer, Status> {
    let request = CompactionRequest { revision };
    match wire.call::<_, CompactionResponse>(COMPACT, request).await {
        Err(status) if status.message().contains("has been compacted") => Ok(Answer::Compacted),
        answer => answer.map(|_| Answer::Compacted),
    }
}

async fn grant(wire: &Wire, seconds: u32) -> Result<Answer, Status> {
    let request = LeaseGrantRequest { ttl: seconds.into() };
    let granted: LeaseGrantResponse = wire.call(LEASE_GRANT, request).await?;
    Ok(Answer::Lease(LeaseId(granted.id)))
}

async fn keep_alive(wire: &Wire, lease: LeaseId) -> Result<Answer, Status> {
    let request = LeaseKeepAliveRequest { id: lease.0 };
    let response: LeaseKeepAliveResponse = wire.exchange(LEASE_KEEP_ALIVE, request).await?;
    let lives = response.ttl > 0;
    Ok(if lives { Answer::Lease(lease) } else { Answer::NoLease })
}

async fn revoke(wire: &Wire, lease: LeaseId) -> Result<Answer, Status> {
    let request = LeaseRevokeRequest { id: lease.0 };
    match wire.call::<_, LeaseRevokeResponse>(LEASE_REVOKE, request).await {
        Err(status) if status.code() == Code::NotFound => Ok(Answer::NoLease),
        answer => answer.map(|_| Answer::NoLease),
    }
}

fn compare(compare: Compare) -> messages::Compare {
    let (result, target, key, union) = match compare {
        Compare::Value { key, value } => (
            CompareResult::Equal,
            CompareTarget::Value,
            key,
            TargetUnion::Value(value),
        ),
        Compare::Absent(key) => (
            CompareResult::Equal,
            CompareTarget::Create,
            key,
            TargetUnion::CreateRevision(0),
        ),
        Compare::Present(key) => (
            CompareResult::Greater,
            CompareTarget::Create,
            key,
            TargetUnion::CreateRevision(0),
        ),
    };
    messages::Compare {
        result: result.into(),
        target: target.into(),
        key,
        target_union: Some(union),
    }
}

fn operation(operation: Operation) -> RequestOp {
    let request = match operation {
        Operation::Put { key, value, lease } => request_op::Request::Put(PutRequest {
            key,
            value,
            lease: lease.map_or(0, |lease| lease.0),
        }),
        Operation::Delete { from, until } => request_op::Request::DeleteRange(DeleteRangeRequest {
            key: from,
            range_end: until,
        }),
    };
    let request = Some(request);
    RequestOp { request }
}

fn read(key: Vec<u8>) -> RequestOp {
    let request = RangeRequest {
        key,
        ..RangeRequest::default()
    };
    let request = Some(request_op::Request::Range(request));
    RequestOp { request }
}

/// The value of the only key that can be in the answer.
fn value(response: RangeResponse) -> Option<Vec<u8>> {
    response.kvs.into_iter().next().map(|entry| entry.value)
}
