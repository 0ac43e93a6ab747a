use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use quartet_engine::{Condition, StateHash};
use quartet_log_replicated::StopReason;
use quartet_model::LogSequence;

use super::*;

const ME: NodeId = NodeId(1);
const OTHER: Writer = Writer {
    node: NodeId(2),
    incarnation: 1,
};
const FIRST: PartitionId = PartitionId(0);
const SECOND: PartitionId = PartitionId(1);

fn home(term: u64) -> Role {
    Role::Home {
        term: Term(term),
        condition: Condition::Sure,
    }
}

fn following(term: u64) -> Role {
    Role::Following {
        term: Term(term),
        home: Some(OTHER),
    }
}

fn take_over(cause: Cause) -> Action {
    Action::TakeOver(FIRST, cause)
}

/// Reads of the sequencer that are answered at once, and show the other node as home.
fn outlook(now: Instant) -> Outlook {
    Outlook {
        home: Some(OTHER),
        read_began: Some(now),
        is_heard_elsewhere: false,
        turn: Turn {
            rank: 0,
            is_unfit: false,
        },
        hashes: Hashes::default(),
    }
}

/// A node, and what its threads have made of the actions.
struct Node {
    state: NodeState,
    start: Instant,
    now: Instant,
    outlook: Outlook,
    /// The layers that run, by partition: the first partitions' layers are at the first.
    layers: BTreeMap<PartitionId, Vec<Term>>,
    taken_over: Vec<PartitionId>,
}

impl Node {
    fn new(partitions: usize) -> Node {
        let now = Instant::now();
        let mut state = NodeState::new(ME, partitions, now);
        for partition in (0..partitions as u32).map(PartitionId) {
            state.listens_to(partition, Some(OTHER.node), now);
        }
        Node {
            state,
            start: now,
            now,
            outlook: outlook(now),
            layers: BTreeMap::new(),
            taken_over: Vec::new(),
        }
    }

    fn at(&mut self, millis: u64) -> &mut Node {
        self.now = self.start + Duration::from_millis(millis);
        self.outlook.read_began = Some(self.now);
        self
    }

    /// One turn. `fails`: no service starts.
    fn turn(&mut self, roles: &[Role], fails: bool) -> Vec<Action> {
        let actions = self.state.turn(roles, |_| self.outlook.clone(), self.now);
        for action in &actions {
            self.carry_out(action.clone(), fails);
        }
        actions
    }

    fn carry_out(&mut self, action: Action, fails: bool) {
        match action {
            Action::End => _ = self.layers.remove(&FIRST),
            Action::EndOwn(partition) => _ = self.layers.remove(&partition),
            Action::Serve(terms) => {
                let own: Vec<_> = self.layers.keys().copied().collect();
                for partition in own {
                    self.layers.remove(&partition);
                    self.state.ended_own(partition);
                }
                self.state.ended();
                self.begin(FIRST, terms, fails);
            }
            Action::ServeFirst(term) => {
                self.state.ended();
                self.begin(FIRST, vec![term], fails);
            }
            Action::ServeOwn(partition, term) if !fails => {
                self.layers.insert(partition, vec![term]);
                self.state.began_own(partition, term);
            }
            Action::StandBy if !fails => self.state.began(Service::StandBy),
            Action::Stop(_) => {
                for partition in std::mem::take(&mut self.layers).into_keys() {
                    self.state.ended_own(partition);
                }
                self.state.ended();
            }
            Action::TakeOver(partition, _) => self.taken_over.push(partition),
            _ => {}
        }
    }

    fn begin(&mut self, partition: PartitionId, terms: Vec<Term>, fails: bool) {
        if !fails {
            self.layers.insert(partition, terms.clone());
            self.state.began(Service::Layers(terms));
        }
    }
}

#[test]
fn a_follower_takes_over_from_a_silent_home() {
    let mut node = Node::new(1);
    assert_eq!(node.turn(&[following(1)], false), [Action::StandBy]);
    assert_eq!(node.at(900).turn(&[following(1)], false), []);
    node.state.heard(FIRST, node.now);
    assert_eq!(node.at(1_800).turn(&[following(1)], false), []);
    assert_eq!(node.at(1_900).turn(&[following(1)], false), [take_over(Cause::Silence)]);
    assert_eq!(node.turn(&[Role::Candidate { term: Term(1) }], false), []);
    assert_eq!(node.turn(&[home(2)], false), [Action::Serve(vec![Term(2)])]);
    assert_eq!(node.turn(&[home(2)], false), []);
    assert_eq!(*node.state.service(), Service::Layers(vec![Term(2)]));
}

#[test]
fn each_term_has_one_try_and_a_home_with_another_listener_has_none() {
    let mut node = Node::new(1);
    node.turn(&[following(1)], false);
    node.at(2_000).outlook.is_heard_elsewhere = true;
    assert_eq!(node.turn(&[following(1)], false), []);
    node.outlook.is_heard_elsewhere = false;
    assert_eq!(node.turn(&[following(1)], false), [take_over(Cause::Silence)]);
    assert_eq!(node.at(9_000).turn(&[following(1)], false), []);
    assert_eq!(node.turn(&[following(2)], false), [take_over(Cause::Silence)]);
    // The node's read of the sequencer is about to show another home.
    node.outlook.home = None;
    assert_eq!(node.turn(&[following(3)], false), []);
}

/// A node that was deposed and was handed the same partition at once became home again while the
/// layers of its earlier term still ended.
#[test]
fn layers_end_before_a_take_over() {
    let mut node = Node::new(1);
    node.turn(&[home(1)], false);
    node.state.is_handed(FIRST);
    assert_eq!(node.turn(&[following(2)], false), [Action::End, Action::StandBy]);
    assert_eq!(node.turn(&[following(2)], false), [take_over(Cause::HandOver)]);
    assert_eq!(node.turn(&[following(2)], false), []);
}

#[test]
fn a_failed_start_of_a_service_is_repeated() {
    let mut node = Node::new(1);
    for _ in 0..2 {
        assert_eq!(node.turn(&[home(1)], true), [Action::Serve(vec![Term(1)])]);
    }
    assert_eq!(node.turn(&[following(2)], true), [Action::StandBy]);
    assert_eq!(node.turn(&[following(2)], false), [Action::StandBy]);
}

#[test]
fn each_partition_has_layers_of_its_own_until_the_node_is_home_of_all() {
    let mut node = Node::new(2);
    let serve_own = Action::ServeOwn(SECOND, Term(5));
    assert_eq!(node.turn(&[following(1), home(5)], false), [Action::StandBy, serve_own]);
    assert_eq!(
        node.turn(&[home(2), home(5)], false),
        [Action::Serve(vec![Term(2), Term(5)])]
    );
    assert!(node.state.serves(FIRST) && node.state.serves(SECOND));
    assert_eq!(
        node.turn(&[home(2), following(6)], false),
        [Action::End, Action::StandBy, Action::ServeFirst(Term(2))]
    );
    assert!(node.state.serves(FIRST) && !node.state.serves(SECOND));
}

#[test]
fn a_node_that_has_stopped_serves_nothing_and_tries_nothing() {
    let mut node = Node::new(2);
    node.turn(&[home(1), home(1)], false);
    let stopped = [home(1), Role::Stopped(StopReason::NotThisCluster)];
    assert_eq!(node.at(9_000).turn(&stopped, false), [Action::Stop(SECOND)]);
    assert_eq!(node.turn(&stopped, false), []);
    let copying = [following(1), Role::Copying];
    assert_eq!(
        node.turn(&copying, false),
        [Action::EndForCopy(SECOND, Reason::Trimmed)]
    );
}

/// A follower with another state became home before it was compared with the others.
#[test]
fn a_node_with_another_state_ends_and_an_undecided_node_does_not_become_home() {
    let hash = |hash| {
        let at = LogSequence(9);
        Some(StateHash { at, hash })
    };
    let mut node = Node::new(1);
    node.turn(&[following(1)], false);
    node.outlook.hashes.own = hash(1);
    node.outlook.hashes.other_hashes = BTreeMap::from([(OTHER.node, hash(2))]);
    assert_eq!(node.at(9_000).turn(&[following(1)], false), []);
    node.state.is_handed(FIRST);
    assert_eq!(node.turn(&[following(1)], false), []);
    assert!(node.state.is_in_doubt(FIRST));
    node.outlook.hashes.other_hashes.insert(NodeId(3), hash(1));
    assert_eq!(node.turn(&[following(1)], false), [take_over(Cause::Silence)]);
    assert!(!node.state.is_in_doubt(FIRST));
    node.outlook.hashes.other_hashes.insert(NodeId(3), hash(2));
    let ends = [Action::EndForCopy(FIRST, Reason::Differs)];
    assert_eq!(node.turn(&[following(2)], false), ends);
    assert_eq!(node.turn(&[home(2)], false), ends);
}

/// A home with a disk that no longer responded kept reporting to the other nodes that it was alive.
#[test]
fn a_home_without_disk_room_or_sequencer_sends_no_heartbeats() {
    let well = Health {
        is_home: true,
        ..Health::default()
    };
    let mut node = Node::new(1);
    let beats = |node: &mut Node, health, has_fit_other| node.state.beats(FIRST, &[health], has_fit_other, node.now);
    assert!(beats(&mut node, well, true));
    assert!(!beats(&mut node, Health::default(), true));
    let cut_off = Health {
        is_cut_off: true,
        ..well
    };
    let stalled = Health {
        stalled_millis: STALLED_MILLIS,
        ..well
    };
    assert!(!beats(&mut node, cut_off, true) && !beats(&mut node, stalled, true));
    let full = Health {
        is_disk_full: true,
        ..well
    };
    assert!(beats(&mut node, full, true));
    assert!(beats(node.at(999), full, true));
    assert!(beats(node.at(1_000), full, false) && !beats(&mut node, full, true));
    // It has room again.
    assert!(beats(&mut node, well, true) && beats(&mut node, full, true));
}

#[test]
fn a_home_that_does_not_serve_is_silent_after_a_while() {
    let well = Health {
        is_home: true,
        ..Health::default()
    };
    let mut node = Node::new(2);
    let beats = |node: &mut Node, id| node.state.beats(id, &[well, well], true, node.now);
    assert!(beats(&mut node, FIRST) && beats(&mut node, SECOND));
    assert!(beats(node.at(10_000), FIRST) && !beats(&mut node, SECOND));
    assert!(!beats(node.at(30_000), FIRST));
    node.state.began(Service::Layers(vec![Term(1), Term(1)]));
    assert!(beats(&mut node, FIRST) && beats(&mut node, SECOND));
}

#[test]
fn homes_are_gathered_for_a_while_and_then_spread() {
    let mut node = Node::new(3);
    let all = |homes: [u64; 3]| Homes {
        homes: homes.map(|home| Some(NodeId(home))).to_vec(),
        fit: vec![NodeId(1), NodeId(2)],
        is_moving: false,
    };
    let moves = |partition, to| {
        let (partition, to) = (PartitionId(partition), NodeId(to));
        Some(Move { partition, to })
    };
    let balance = |node: &mut Node, homes| node.state.balance(&all(homes), true, node.now);
    assert_eq!(balance(&mut node, [1, 1, 1]), None);
    assert_eq!(balance(node.at(9_000), [1, 1, 1]), None);
    assert_eq!(balance(node.at(10_000), [1, 1, 1]), moves(2, 2));
    node.state.balance_failed(node.now);
    assert_eq!(balance(node.at(11_000), [1, 1, 1]), None);
    node.state.gather(node.now);
    assert_eq!(balance(&mut node, [1, 1, 2]), moves(2, 1));
    assert_eq!(balance(node.at(31_001), [1, 2, 1]), None);
    assert_eq!(balance(&mut node, [1, 1, 1]), None);
    assert_eq!(balance(node.at(41_001), [1, 1, 1]), moves(2, 2));
}

#[test]
fn one_hand_over_is_in_progress_at_a_time() {
    let mut node = Node::new(1);
    assert!(node.state.begin_hand_over() && !node.state.begin_hand_over());
    node.state.end_hand_over();
    assert!(node.state.begin_hand_over());
}

#[derive(Clone, Debug)]
enum Event {
    Role(usize, Role),
    Heard(usize),
    Unreachable(usize),
    Handed(usize),
    Passes(u64),
}

fn roles() -> impl Strategy<Value = Role> {
    prop_oneof![
        3 => (1_u64..6).prop_map(following),
        3 => (1_u64..6).prop_map(home),
        1 => (1_u64..6).prop_map(|term| Role::Candidate { term: Term(term) }),
        1 => Just(Role::RollingBack),
        1 => Just(Role::Stopped(StopReason::NotThisCluster)),
    ]
}

fn events() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0_usize..2, roles()).prop_map(|(at, role)| Event::Role(at, role)),
        1 => (0_usize..2).prop_map(Event::Heard),
        1 => (0_usize..2).prop_map(Event::Unreachable),
        1 => (0_usize..2).prop_map(Event::Handed),
        2 => (0_u64..1_500).prop_map(Event::Passes),
    ]
}

proptest! {
    /// After each turn only layers of running terms are left, and none while the node is stopped. A
    /// node takes over only what it follows, and only without layers of it.
    #[test]
    fn layers_are_of_running_terms(
        partitions in 1_usize..=2,
        events in vec((events(), any::<bool>()), 1..60),
    ) {
        let mut node = Node::new(partitions);
        let mut roles = vec![following(1); partitions];
        for (event, fails) in events {
            match event {
                Event::Role(at, role) => roles[at % partitions] = role,
                Event::Heard(at) => node.state.heard(PartitionId((at % partitions) as u32), node.now),
                Event::Unreachable(at) => node.state.unreachable(PartitionId((at % partitions) as u32), node.now),
                Event::Handed(at) => node.state.is_handed(PartitionId((at % partitions) as u32)),
                Event::Passes(millis) => node.now += Duration::from_millis(millis),
            }
            node.outlook.read_began = Some(node.now);
            let had_layers = node.layers.clone();
            node.taken_over.clear();
            let actions = node.turn(&roles, fails);
            for (partition, terms) in &node.layers {
                let of = &roles[partition.0 as usize..];
                prop_assert!(is_in(terms, of), "{terms:?} of {partition:?} in {roles:?}");
                prop_assert_eq!(node.state.serves(*partition), true);
            }
            for partition in &node.taken_over {
                let follows = matches!(roles[partition.0 as usize], Role::Following { .. });
                prop_assert!(follows);
                let had_own = had_layers.contains_key(partition);
                let had_all = had_layers.get(&FIRST).is_some_and(|terms| terms.len() > partition.0 as usize);
                prop_assert!(!had_own && !had_all, "{actions:?}");
            }
            if matches!(Standing::of(&roles), Standing::Stopped(_)) {
                prop_assert!(node.layers.is_empty() && node.state.serves_nothing());
            } else if !fails {
                prop_assert!(*node.state.service() != Service::Nothing);
            }
        }
    }
}
