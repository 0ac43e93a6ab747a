//! The messages of etcd's v3 API that are used here, with the fields that are used.
//!
//! Field numbers follow `api/etcdserverpb/rpc.proto` and `api/mvccpb/kv.proto` of etcd 3.4 to 3.7.
//! Omitted fields are skipped in answers, and have their default in requests.

use prost::{Enumeration, Message, Oneof};

#[derive(Clone, PartialEq, Message)]
pub struct ResponseHeader {
    #[prost(int64, tag = "3")]
    pub revision: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct KeyValue {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    #[prost(bytes = "vec", tag = "5")]
    pub value: Vec<u8>,
}

// ---- etcdserverpb.KV

/// Linearizable, as `serializable` (7) is left out.
#[derive(Clone, PartialEq, Message)]
pub struct RangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub range_end: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub limit: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct RangeResponse {
    #[prost(message, repeated, tag = "2")]
    pub kvs: Vec<KeyValue>,
    #[prost(bool, tag = "3")]
    pub more: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct PutRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub value: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub lease: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct PutResponse {}

#[derive(Clone, PartialEq, Message)]
pub struct DeleteRangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub range_end: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub struct DeleteRangeResponse {
    #[prost(int64, tag = "2")]
    pub deleted: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct RequestOp {
    #[prost(oneof = "request_op::Request", tags = "1, 2, 3")]
    pub request: Option<request_op::Request>,
}

pub mod request_op {
    use super::*;

    #[derive(Clone, PartialEq, Oneof)]
    pub enum Request {
        #[prost(message, tag = "1")]
        Range(RangeRequest),
        #[prost(message, tag = "2")]
        Put(PutRequest),
        #[prost(message, tag = "3")]
        DeleteRange(DeleteRangeRequest),
    }
}

#[derive(Clone, PartialEq, Message)]
pub struct ResponseOp {
    #[prost(oneof = "response_op::Response", tags = "1, 2, 3")]
    pub response: Option<response_op::Response>,
}

pub mod response_op {
    use super::*;

    #[derive(Clone, PartialEq, Oneof)]
    pub enum Response {
        #[prost(message, tag = "1")]
        Range(RangeResponse),
        #[prost(message, tag = "2")]
        Put(PutResponse),
        #[prost(message, tag = "3")]
        DeleteRange(DeleteRangeResponse),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub enum CompareResult {
    Equal = 0,
    Greater = 1,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub enum CompareTarget {
    Version = 0,
    Create = 1,
    Value = 3,
}

#[derive(Clone, PartialEq, Message)]
pub struct Compare {
    #[prost(enumeration = "CompareResult", tag = "1")]
    pub result: i32,
    #[prost(enumeration = "CompareTarget", tag = "2")]
    pub target: i32,
    #[prost(bytes = "vec", tag = "3")]
    pub key: Vec<u8>,
    #[prost(oneof = "compare::TargetUnion", tags = "5, 7")]
    pub target_union: Option<compare::TargetUnion>,
}

pub mod compare {
    use super::*;

    #[derive(Clone, PartialEq, Oneof)]
    pub enum TargetUnion {
        #[prost(int64, tag = "5")]
        CreateRevision(i64),
        #[prost(bytes, tag = "7")]
        Value(Vec<u8>),
    }
}

#[derive(Clone, PartialEq, Message)]
pub struct TxnRequest {
    #[prost(message, repeated, tag = "1")]
    pub compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    pub success: Vec<RequestOp>,
    #[prost(message, repeated, tag = "3")]
    pub failure: Vec<RequestOp>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TxnResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    #[prost(bool, tag = "2")]
    pub succeeded: bool,
    #[prost(message, repeated, tag = "3")]
    pub responses: Vec<ResponseOp>,
}

#[derive(Clone, PartialEq, Message)]
pub struct CompactionRequest {
    #[prost(int64, tag = "1")]
    pub revision: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct CompactionResponse {}

// ---- etcdserverpb.Lease

#[derive(Clone, PartialEq, Message)]
pub struct LeaseGrantRequest {
    /// Seconds.
    #[prost(int64, tag = "1")]
    pub ttl: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct LeaseGrantResponse {
    #[prost(int64, tag = "2")]
    pub id: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct LeaseRevokeRequest {
    #[prost(int64, tag = "1")]
    pub id: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct LeaseRevokeResponse {}

#[derive(Clone, PartialEq, Message)]
pub struct LeaseKeepAliveRequest {
    #[prost(int64, tag = "1")]
    pub id: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct LeaseKeepAliveResponse {
    /// Seconds left; 0 if there is no such lease.
    #[prost(int64, tag = "3")]
    pub ttl: i64,
}

// ---- etcdserverpb.Watch

#[derive(Clone, PartialEq, Message)]
pub struct WatchRequest {
    #[prost(message, optional, tag = "1")]
    pub create: Option<WatchCreateRequest>,
}

#[derive(Clone, PartialEq, Message)]
pub struct WatchCreateRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub range_end: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub struct WatchResponse {
    #[prost(bool, tag = "3")]
    pub created: bool,
    #[prost(bool, tag = "4")]
    pub canceled: bool,
    #[prost(message, repeated, tag = "11")]
    pub events: Vec<WatchEvent>,
}

#[derive(Clone, PartialEq, Message)]
pub struct WatchEvent {
    /// 0 put, 1 delete.
    #[prost(int32, tag = "1")]
    pub kind: i32,
    #[prost(message, optional, tag = "2")]
    pub kv: Option<KeyValue>,
}

// ---- etcdserverpb.Maintenance, etcdserverpb.Cluster

#[derive(Clone, PartialEq, Message)]
pub struct StatusRequest {}

#[derive(Clone, PartialEq, Message)]
pub struct StatusResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<StatusHeader>,
    #[prost(string, tag = "2")]
    pub version: String,
    /// Bytes of the database file.
    #[prost(int64, tag = "3")]
    pub db_size: i64,
    /// The leader's member id.
    #[prost(uint64, tag = "4")]
    pub leader: u64,
    /// The quota, from 3.6 on; 0 before.
    #[prost(int64, tag = "12")]
    pub db_size_quota: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct StatusHeader {
    #[prost(uint64, tag = "2")]
    pub member_id: u64,
}

#[derive(Clone, PartialEq, Message)]
pub struct MemberListRequest {}

#[derive(Clone, PartialEq, Message)]
pub struct MemberListResponse {
    #[prost(message, repeated, tag = "2")]
    pub members: Vec<Member>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Member {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(bool, tag = "5")]
    pub is_learner: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of one transaction, by hand from the field numbers of rpc.proto.
    #[test]
    fn a_transaction_has_the_bytes_of_the_protocol() {
        let put = PutRequest {
            key: b"k".to_vec(),
            value: b"v".to_vec(),
            lease: 0,
        };
        let request = TxnRequest {
            compare: vec![Compare {
                result: CompareResult::Equal.into(),
                target: CompareTarget::Create.into(),
                key: b"k".to_vec(),
                target_union: Some(compare::TargetUnion::CreateRevision(0)),
            }],
            success: vec![RequestOp {
                request: Some(request_op::Request::Put(put)),
            }],
            failure: Vec::new(),
        };
        let compare = b"\x0a\x07\x10\x01\x1a\x01k\x28\x00";
        let success = b"\x12\x08\x12\x06\x0a\x01k\x12\x01v";
        assert_eq!(request.encode_to_vec(), [&compare[..], &success[..]].concat());
    }
}
