//! A cluster founded from one node's folder, a server's own or a restored one, while that node is
//! killed in between. The other nodes join with empty folders.

use quartet_engine::{Founder, Parts, Restoration, StoreKind};
use quartet_env::Clock;
use quartet_log_replicated::model::{Chaos, ModelSequencer};
use quartet_log_replicated::{Founding, NodeId, PartitionId, Place, Writer, drive};
use quartet_model::{EffectsWriter, LogSequence, Version};
use quartet_store::Position;

use crate::cluster::clients::founded_row;
use crate::cluster::judgement::Violation;
use crate::cluster::node::Node;
use crate::cluster::state::Cluster;

/// Records that the folder has at most: more than a cluster has after its first seconds.
const RECORDS_MAX: u64 = 400;
/// Between two versions, and before the first.
const VERSION_STEP: u64 = 1_000;

/// The point at which the founder is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Killed {
    BeforeTheTransaction,
    BehindTheTransaction,
    BehindTheRecord,
    Never,
}

impl Cluster {
    /// Founds the cluster with the data of node 0. The others have none.
    pub fn found_with_data(&mut self, place: &Place) -> Result<(), Violation> {
        let records = 1 + self.random.below(RECORDS_MAX);
        // A log without files of the ssd store is the memory store's.
        let is_restored = self.nodes[0].store() == StoreKind::Ssd || self.random.one_in(2);
        let node = &self.nodes[0];
        match is_restored {
            true => restored(node, records),
            false => logged(node, records),
        }
        self.reach(if is_restored {
            "founded out of a backup"
        } else {
            "founded by a server's folder"
        });
        for number in 1..=records {
            let (key, value) = founded_row(number);
            self.judge.begins_with(key, Version(number * VERSION_STEP), value);
        }
        let killed = self.random.pick(&[
            Killed::BeforeTheTransaction,
            Killed::BehindTheTransaction,
            Killed::BehindTheRecord,
            Killed::Never,
        ]);
        self.world.borrow_mut().behave(Chaos::default());
        self.begin_founding(place, killed)?;
        self.world.borrow_mut().behave(super::state::wild());
        self.now = self.world.borrow().now();
        for node in &mut self.nodes[1..] {
            node.is_empty = true;
        }
        Ok(())
    }

    fn begin_founding(&mut self, place: &Place, killed: Killed) -> Result<(), Violation> {
        let opened = |node: &Node| {
            let opened = Founder::open(node.parts(), Some(node.store()));
            opened.map_err(|error| Violation::NotOpened {
                node: 0,
                why: error.to_string(),
            })
        };
        let mut sequencer = ModelSequencer::new(&self.world);
        let founder = opened(&self.nodes[0])?;
        let state = founder.state().expect("a whole disk");
        let me = Writer {
            node: NodeId(0),
            incarnation: 0,
        };
        let founding = Founding::new(place.cluster, me, &[state], self.nodes[0].clock.now_micros());
        let mut ask = || {
            let answer = drive::ask(&mut sequencer, founding.request(place.root())).expect("a calm network");
            assert!(founding.is_founded(&answer), "nobody else founds");
        };
        let (position, floor) = founding.position(PartitionId(0));
        let mut founder = Some(founder);
        if killed == Killed::BeforeTheTransaction {
            founder = None;
        } else {
            ask();
        }
        if killed == Killed::BehindTheTransaction {
            founder = None;
        }
        if let Some(founder) = founder {
            founder.found(&position, floor).expect("a whole disk");
        }
        if killed != Killed::Never {
            self.nodes[0].lose_unsynced(&mut self.random);
            let again = opened(&self.nodes[0])?;
            assert!(again.has_founded(&position) || again.state().expect("a whole disk") == state);
            ask();
            again.found(&position, floor).expect("a whole disk");
            self.reach("killed while it founded");
        }
        Ok(())
    }
}

/// Fills the node's folder as a restore does.
fn restored(node: &Node, records: u64) {
    let disk = node.parts().disk;
    let mut rows: Vec<(u64, Vec<u8>, Vec<u8>)> = (1..=records)
        .map(|number| {
            let (key, value) = founded_row(number);
            (number, key, value)
        })
        .collect();
    rows.sort_by(|(_, a, _), (_, b, _)| a.cmp(b));
    let restoration = Restoration::begin(disk, node.store(), Box::new(|_| true));
    let mut restoration = restoration.expect("an empty disk");
    for (number, key, value) in rows {
        restoration
            .row(&key, &value, Version(number * VERSION_STEP))
            .expect("a row in its order");
    }
    let position = Position {
        sequence: LogSequence(records),
        version: Version(records * VERSION_STEP),
    };
    restoration.finish(position).expect("a whole disk");
}

/// Fills the node's folder with a server's log.
fn logged(node: &Node, records: u64) {
    let Parts { log, .. } = node.parts();
    let mut log = log
        .open(LogSequence(1), &mut |_, _| Ok(()), &mut |_| {})
        .expect("an empty disk");
    let mut effects = EffectsWriter::default();
    for number in 1..=records {
        let (key, value) = founded_row(number);
        effects.begin();
        effects.set(&key, &value);
        effects.commit(Version(number * VERSION_STEP));
        let payload = effects.take(Vec::new());
        let tail = log.tail();
        log.append(tail, &payload.parts()).expect("a whole disk");
    }
    log.sync().expect("a whole disk");
    log.close().expect("a whole disk");
}
