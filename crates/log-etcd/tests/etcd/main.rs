//! The log over real members of etcd. Needs `QUARTET_ETCD`, the path of an etcd program: `./test
//! etcd` gives it two.

mod engines;
mod faults;
mod members;
mod tls;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use members::Members;
use quartet_log_etcd::{Etcd, EtcdOptions, OpenError};
use quartet_log_replicated::{Answer, Compare, Operation, Request, Sequencer, conformance, drive};
use tls::Tls;

fn open(options: &EtcdOptions) -> Box<dyn Sequencer> {
    Box::new(Etcd::open(options).expect("the members are fit"))
}

#[test]
#[ignore = "needs etcd: ./test etcd"]
fn etcd_conforms() {
    let members = Members::start(3);
    let options = members.options();
    conformance::check("/conformance", 10, &mut || open(&options));
}

/// The leader is killed three times while two writers append, and restarted each time; meanwhile a
/// foreign client compacts everything each second, as Kubernetes does each five minutes.
#[test]
#[ignore = "needs etcd: ./test etcd"]
fn a_killed_leader_and_foreign_compactions_lose_nothing() {
    const STEPS: u64 = 4500;
    let mut members = Members::start(3);
    let options = members.options();
    let over = AtomicBool::new(false);
    let compactions = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let compactor = scope.spawn(|| compact_each_second(&options, &over, &compactions));
        let mut down = None;
        let mut kills = 0;
        let mut meddle = |step: u64| match step % 1500 {
            300 => {
                down = Some(members.kill_leader());
                kills += 1;
            }
            1100 => down.take().into_iter().for_each(|member| members.run(member)),
            // A machine may do all steps before the compactor's next turn.
            1499 => until_more_than(&compactions, kills - 1),
            _ => {}
        };
        conformance::check_disturbed("/kills", 1, STEPS, &mut || open(&options), &mut meddle);
        over.store(true, Ordering::Relaxed);
        compactor.join().expect("the compactor ends");
        assert_eq!(kills, 3);
        println!("{kills} leaders killed, {compactions:?} compactions by somebody else");
    });
}

fn until_more_than(counter: &AtomicU64, count: u64) {
    let patience = Instant::now() + Duration::from_secs(60);
    while counter.load(Ordering::Relaxed) <= count {
        assert!(Instant::now() < patience, "nobody compacts: {counter:?}");
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

fn compact_each_second(options: &EtcdOptions, over: &AtomicBool, compactions: &AtomicU64) {
    let mut etcd = open(options);
    while !over.load(Ordering::Relaxed) {
        let key = b"/somebody/else".to_vec();
        let (value, lease) = (Vec::new(), None);
        let put = Request::Transact {
            compares: Vec::new(),
            operations: vec![Operation::Put { key, value, lease }],
            otherwise: Vec::new(),
        };
        if let Ok(Answer::Done { revision }) = drive::ask(&mut *etcd, put) {
            let compacted = drive::ask(&mut *etcd, Request::Compact { revision });
            compactions.fetch_add(u64::from(compacted.is_ok()), Ordering::Relaxed);
        }
        // Waits for an event that never arrives.
        let _ = etcd.receive(Duration::from_secs(1));
    }
}

/// A suspended member answers nothing; another member is called.
#[test]
#[ignore = "needs etcd: ./test etcd"]
fn a_paused_member_is_skipped() {
    let members = Members::start(3);
    let mut options = members.options();
    let still = members.stop_a_follower();
    // The suspended member is called first.
    options.endpoints.rotate_left(still);
    let mut etcd = open(&options);
    let get = Request::Get { key: b"/x".to_vec() };
    let patience = Instant::now() + Duration::from_secs(60);
    // On a busy machine the next member may be late as well.
    while drive::ask(&mut *etcd, get.clone()) != Ok(Answer::Value(None)) {
        assert!(Instant::now() < patience, "no other member was asked");
    }
}

#[test]
#[ignore = "needs etcd: ./test etcd"]
fn one_member_and_a_small_quota_are_refused() {
    let members = Members::start(1);
    let mut options = members.options();
    assert_eq!(Etcd::open(&options).err(), Some(OpenError::OneMember));
    options.allow_one_member = true;
    assert!(Etcd::open(&options).is_ok());
    options.budget_bytes = 1 << 30;
    let refused = Etcd::open(&options).err();
    assert!(matches!(refused, Some(OpenError::Quota { .. })), "{refused:?}");
    options.endpoints = vec!["127.0.0.1:1".to_owned()];
    let refused = Etcd::open(&options).err();
    assert!(matches!(refused, Some(OpenError::Unreachable(_))), "{refused:?}");
    options.endpoints = vec!["192.0.2.1:2379".to_owned()];
    let refused = Etcd::open(&options).err();
    assert!(matches!(refused, Some(OpenError::ClearText { .. })), "{refused:?}");
}

/// Certificates both ways: a client that the cluster's authority has not signed is refused, and a
/// member whom another has signed.
#[test]
#[ignore = "needs etcd: ./test etcd"]
fn tls_shows_both_who_the_other_is() {
    let tls = Tls::new();
    let folder = tempfile::tempdir().expect("a folder");
    let members = Members::start_with(1, Some(tls.client()), &tls.flags(folder.path()));
    let mut options = members.options();
    options.allow_one_member = true;
    options.tls = Some(tls.client());
    let mut etcd = open(&options);
    let key = b"/tls".to_vec();
    let get = Request::Get { key: key.clone() };
    assert_eq!(drive::ask(&mut *etcd, get), Ok(Answer::Value(None)));
    let absent = Request::Transact {
        compares: vec![Compare::Absent(key)],
        operations: Vec::new(),
        otherwise: Vec::new(),
    };
    assert!(matches!(drive::ask(&mut *etcd, absent), Ok(Answer::Done { .. })));

    let stranger = Tls::new();
    let mut foreign_options = options.clone();
    foreign_options.tls = Some(stranger.client());
    let refused = Etcd::open(&foreign_options).err();
    assert!(matches!(refused, Some(OpenError::Untrusted(_))), "{refused:?}");
    let mut nameless = options.clone();
    nameless.tls.as_mut().expect("TLS is set").identity = None;
    let refused = Etcd::open(&nameless).err();
    // A member reports it after the handshake, or only closes the connection.
    let is_refused = matches!(refused, Some(OpenError::Untrusted(_) | OpenError::Unreachable(_)));
    assert!(is_refused, "{refused:?}");
}

#[test]
#[ignore = "needs etcd: ./test etcd"]
fn members_describe_themselves() {
    let members = Members::start(3);
    let options = members.options();
    let etcd = Etcd::open(&options).expect("the members are fit");
    let status = etcd.status();
    assert_eq!(status.len(), 3);
    assert_eq!(status.iter().filter(|member| member.is_leader).count(), 1);
    assert!(status.iter().all(|member| member.file_bytes > 0));
}
