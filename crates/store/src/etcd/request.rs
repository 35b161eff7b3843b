//! Transactions in etcd's words: the request for one, and what the answer says.

use super::{
    client::Client,
    feed::{entry, unsigned},
    proto::{
        self, CompareResult, CompareTarget, DeleteRangeRequest, PutRequest, RangeRequest, Request, RequestOp, Response,
        TargetUnion, TxnRequest, TxnResponse,
    },
};
use crate::{
    error::Conflict,
    mirror::Mirror,
    txn::{Compare, Op, Txn},
};
use tonic::Status;

/// `txn` with one lease per operation (0 for none). If a comparison fails, etcd answers with all compared keys.
pub(super) fn build(client: &Client, txn: &Txn, leases: &[i64]) -> Result<TxnRequest, Status> {
    let op = |request| RequestOp { request: Some(request) };
    let success = txn.ops.iter().zip(leases).map(|(write, lease)| match write {
        Op::Put(key, value) | Op::PutTtl(key, value, _) => {
            let value = client.seal(key, value)?;
            Ok(op(Request::Put(PutRequest { key: client.key(key), value, lease: *lease })))
        }
        Op::Delete(key) => Ok(op(Request::DeleteRange(DeleteRangeRequest { key: client.key(key) }))),
    });
    let success: Vec<RequestOp> = success.collect::<Result<_, Status>>()?;
    let look = |key| op(Request::Range(RangeRequest { key: client.key(key), ..RangeRequest::default() }));
    Ok(TxnRequest {
        compare: txn.compare.iter().flat_map(|(key, compare)| comparisons(client, key, *compare)).collect(),
        success,
        failure: txn.compare.iter().map(|(key, _)| look(key)).collect(),
    })
}

/// For etcd an absent key has the revisions 0, so "was written by" also needs "exists".
fn comparisons(client: &Client, key: &str, compare: Compare) -> Vec<proto::Compare> {
    let created = |result: CompareResult| proto::Compare {
        result: result.into(),
        target: CompareTarget::Create.into(),
        key: client.key(key),
        target_union: Some(TargetUnion::CreateRevision(0)),
    };
    match compare {
        Compare::Absent => vec![created(CompareResult::Equal)],
        Compare::Exists => vec![created(CompareResult::Greater)],
        Compare::ModRevision(revision) => {
            let written = proto::Compare {
                result: CompareResult::Equal.into(),
                target: CompareTarget::Mod.into(),
                key: client.key(key),
                target_union: Some(TargetUnion::ModRevision(i64::try_from(revision).unwrap_or(i64::MAX))),
            };
            vec![created(CompareResult::Greater), written]
        }
    }
}

/// Whether a transaction that succeeded wrote anything: deletions of absent keys do not.
pub(super) fn has_changed(response: &TxnResponse) -> bool {
    response.responses.iter().any(|op| match &op.response {
        Some(Response::Put(_)) => true,
        Some(Response::DeleteRange(deletion)) => deletion.deleted > 0,
        Some(Response::Range(_)) | None => false,
    })
}

/// What the answer to a transaction that failed says of the compared keys. An entry that the mirror has too is taken from
/// there, with what was parsed from it.
pub(super) fn conflict(client: &Client, mirror: &Mirror, txn: &Txn, response: TxnResponse) -> Conflict {
    let revision = response.header.as_ref().map_or(0, |header| unsigned(header.revision));
    let found = response.responses.iter().map(|op| match &op.response {
        Some(Response::Range(range)) => range.kvs.first().and_then(|kv| entry(client, kv)),
        _ => None,
    });
    let current: Vec<_> = txn
        .compare
        .iter()
        .zip(found)
        .map(|((key, _), found)| {
            let known = mirror.read().get(key).filter(|known| Some(known) == found.as_ref());
            (key.clone(), known.or(found))
        })
        .collect();
    let failed = txn.compare.iter().zip(&current).filter(|((_, compare), (_, entry))| !compare.holds(entry.as_ref()));
    Conflict { revision, failed: failed.map(|((key, _), _)| key.to_string()).collect(), current }
}
