"""What is done to a cluster: each function breaks something, waits until that shows, and mends it.

Whatever a fault promises is awaited: that the home changes, that packets are dropped, that writes go on meanwhile. None of it is left to
luck, and everything that is broken is whole again at its end.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from .world import World, until

ALL: list[Callable[[World], None]] = []
HOUR = 3600


def fault(act: Callable[[World], None]) -> Callable[[World], None]:
    ALL.append(act)
    return act


def title(act: Callable[[World], None]) -> str:
    return act.__name__.replace("_", " ")


# ---- processes that die or stand still


@fault
def home_killed(world: World) -> None:
    home = world.home()
    world.kill(home)
    world.another_home(home)
    world.progress()
    world.start(home)


@fault
def follower_killed(world: World) -> None:
    follower = world.followers()[0]
    world.kill(follower)
    world.progress()
    world.start(follower)


@fault
def home_stands_still(world: World) -> None:
    home = world.home()
    world.pause(home)
    world.another_home(home)
    world.progress()
    world.go_on(home)
    until(lambda: not home.is_home(), "the old home knows that it is none")


@fault
def follower_stands_still(world: World) -> None:
    follower = world.followers()[0]
    world.pause(follower)
    world.progress()
    world.go_on(follower)


@fault
def leader_of_etcd_killed(world: World) -> None:
    leader = world.leader()
    world.etcd.kill(leader)
    world.etcd.leader(other_than=leader)
    world.progress()
    world.etcd.run(leader)


@fault
def leader_of_etcd_stands_still(world: World) -> None:
    leader = world.leader()
    world.etcd.pause(leader)
    world.etcd.leader(other_than=leader)
    world.progress()
    world.etcd.go_on(leader)


# ---- networks that are split


def split(world: World, pairs, both: bool = True) -> None:
    """Cuts from the first to the second of each pair, and back; returns when packets are dropped."""
    for sender, receiver in pairs:
        world.network.cut(sender, receiver)
        if both:
            world.network.cut(receiver, sender)
    until(lambda: world.network.dropped() > 0, "packets are dropped")


@fault
def home_and_followers_split(world: World) -> None:
    home, others = world.home(), world.followers()
    split(world, [(home.machine, other.machine) for other in others])
    world.another_home(home)
    world.progress()


@fault
def home_not_heard_by_followers(world: World) -> None:
    home, others = world.home(), world.followers()
    split(world, [(home.machine, other.machine) for other in others], both=False)
    world.another_home(home)
    world.progress()


@fault
def followers_not_heard_by_home(world: World) -> None:
    home, others = world.home(), world.followers()
    split(world, [(other.machine, home.machine) for other in others], both=False)
    world.progress()


@fault
def home_and_one_follower_split(world: World) -> None:
    home, others = world.home(), world.followers()
    split(world, [(home.machine, others[0].machine)])
    world.progress()


@fault
def home_not_heard_by_one_follower(world: World) -> None:
    home, others = world.home(), world.followers()
    split(world, [(home.machine, others[0].machine)], both=False)
    world.progress()


@fault
def home_and_etcd_split(world: World) -> None:
    """Clients and followers still reach the home."""
    home = world.home()
    split(world, [(home.machine, member) for member in world.members])
    world.another_home(home)
    world.progress()


@fault
def home_not_heard_by_etcd(world: World) -> None:
    home = world.home()
    split(world, [(home.machine, member) for member in world.members], both=False)
    world.another_home(home)
    world.progress()


@fault
def etcd_not_heard_by_home(world: World) -> None:
    """What the home sends takes effect; it hears nothing of it."""
    home = world.home()
    split(world, [(member, home.machine) for member in world.members], both=False)
    world.another_home(home)
    world.progress()


@fault
def home_and_leader_of_etcd_split(world: World) -> None:
    split(world, [(world.home().machine, world.members[world.leader()])])
    world.progress()


@fault
def home_alone(world: World) -> None:
    """Clients alone reach the home."""
    home, others = world.home(), world.followers()
    split(world, [(home.machine, machine) for machine in [*(other.machine for other in others), *world.members]])
    world.another_home(home)
    world.progress()


@fault
def follower_and_etcd_split(world: World) -> None:
    split(world, [(world.followers()[0].machine, member) for member in world.members])
    world.progress()


@fault
def leader_of_etcd_and_members_split(world: World) -> None:
    leader = world.leader()
    split(world, [(world.members[leader], member) for number, member in enumerate(world.members) if number != leader])
    world.etcd.leader(other_than=leader)
    world.progress()


@fault
def leader_of_etcd_not_heard_by_members(world: World) -> None:
    leader = world.leader()
    split(world, [(world.members[leader], member) for number, member in enumerate(world.members) if number != leader], both=False)
    world.etcd.leader(other_than=leader)
    world.progress()


@fault
def members_not_heard_by_leader_of_etcd(world: World) -> None:
    leader = world.leader()
    split(world, [(member, world.members[leader]) for number, member in enumerate(world.members) if number != leader], both=False)
    world.etcd.leader(other_than=leader)
    world.progress()


@fault
def nodes_and_etcd_split(world: World) -> None:
    """No node reaches the log: nothing is acknowledged before it is mended."""
    split(world, [(node.machine, member) for node in world.nodes for member in world.members])
    # What was under way when the network was cut.
    time.sleep(1)
    seen = len(world.probe.acknowledged)
    time.sleep(1)
    assert len(world.probe.acknowledged) == seen, "a write was acknowledged without the log"
