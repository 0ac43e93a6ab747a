"""What is done to a cluster: each function breaks something, waits until that shows, and mends it.

Whatever a fault promises is awaited: that the home changes, that packets are dropped, that writes go on meanwhile. None of it is left to
luck, and everything that is broken is whole again at its end.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import redis

from harness.cluster import Node
from harness.server import Server, binary

from .world import COMES_WITHIN, OPTIONS, World, until

ALL: list[Callable[[World], None]] = []
HOUR = 3600
# A home is suspected after a second. What nobody has to notice lasts longer.
HELD_SECONDS = 3
# A node says once a second what its clock shows.
CLOCK_SEEN_WITHIN = 60
# One that has room has everything within a second.
BEHIND_SECONDS = 3
# Less than the smallest thing that a node makes room for.
SMALL_BYTES = 65536


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
    world.progress_for(HELD_SECONDS)
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
    world.network.cut([*pairs, *((receiver, sender) for sender, receiver in pairs if both)])
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
    world.progress_for(HELD_SECONDS)


@fault
def home_and_one_follower_split(world: World) -> None:
    home, others = world.home(), world.followers()
    split(world, [(home.machine, others[0].machine)])
    world.progress_for(HELD_SECONDS)


@fault
def home_not_heard_by_one_follower(world: World) -> None:
    home, others = world.home(), world.followers()
    split(world, [(home.machine, others[0].machine)], both=False)
    world.progress_for(HELD_SECONDS)


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
    world.progress_for(HELD_SECONDS)


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
    world.progress_for(HELD_SECONDS)


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
    # What was under way when the network was cut is over.
    world.probe.wait_refused(1)
    seen = len(world.probe.acknowledged)
    world.probe.wait_refused(3)
    assert len(world.probe.acknowledged) == seen, "a write was acknowledged without the log"


# ---- clocks


def jump(world: World, home: Node, seconds: int) -> None:
    """Sets the clock of a node that runs, and waits until the nodes have seen it."""
    other = next(node for node in world.nodes if node is not home)
    world.set_clock(home, seconds)

    def is_seen() -> bool:
        try:
            nodes = json.loads(other.ask("/admin/v1/cluster"))["nodes"]
        except OSError:
            return False
        # Ahead of whichever node has answered; not said of one that is away.
        ahead = {node["name"]: node["clock_ahead_milliseconds"] for node in nodes if node.get("clock_ahead_milliseconds") is not None}
        if not {home.name, other.name} <= ahead.keys():
            return False
        return abs(ahead[home.name] - ahead[other.name] - 1000 * seconds) < 1000 * CLOCK_SEEN_WITHIN

    until(is_seen, f"the clock of {home.name} is seen to be off")
    world.progress()


@fault
def clock_of_home_an_hour_ahead(world: World) -> None:
    home = world.home()
    jump(world, home, HOUR)
    world.set_clock(home, 0)


@fault
def clock_of_home_an_hour_behind(world: World) -> None:
    home = world.home()
    jump(world, home, -HOUR)
    world.set_clock(home, 0)


@fault
def home_killed_whose_clock_is_ahead(world: World) -> None:
    """The clock of the next home is an hour behind the versions that the log has."""
    home = world.home()
    jump(world, home, HOUR)
    world.kill(home)
    world.another_home(home)
    world.progress()
    world.set_clock(home, 0)
    world.start(home)


# ---- disks


def fill(world: World, node: Node) -> list[Path]:
    disk, fillings = world.disk(node), []

    def is_full() -> bool:
        if disk.left():
            fillings.append(disk.fill())
        return disk.left() < SMALL_BYTES

    until(is_full, f"the disk of {node.name} is full")
    return fillings


@fault
def disk_of_home_full(world: World) -> None:
    home = world.home()
    fillings = fill(world, home)

    def is_refused() -> bool:
        """Or another node is home in its place, for it was too slow."""
        return "No space left" in world.write_much() or not home.is_home()

    until(is_refused, "writes are refused")
    for filling in fillings:
        filling.unlink()


@fault
def disk_of_follower_full(world: World) -> None:
    """It has no room for what it should apply, and the others go on without it."""
    follower = world.followers()[0]
    fillings = fill(world, follower)

    def is_behind() -> bool:
        """Or it is home, for the home before was too slow."""
        world.write_much()
        try:
            figures = follower.metrics()
        except OSError:
            return False
        return figures["quartet_home"] == 1 or figures["quartet_lag_seconds"] > BEHIND_SECONDS

    until(is_behind, f"{follower.name} has no room for more")
    if not follower.is_home():
        world.progress()
    for filling in fillings:
        filling.unlink()


# ---- the life of a cluster


def emptied(world: World, node: Node) -> None:
    """Its disk is a new one."""
    for path in Path(node.data).iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


@fault
def node_joins_and_is_killed(world: World) -> None:
    """One with an empty folder copies the home, and is killed within the copy or behind it; the next start goes on or begins anew."""
    joining = world.followers()[0]
    world.kill(joining)
    emptied(world, joining)
    for seconds in (0.05, 0.3, 1.0):
        started = threading.Thread(target=begin, args=(joining,), daemon=True)
        started.start()
        time.sleep(seconds)
        joining.kill()
        started.join(60)
        world.progress()
    world.start(joining)


def begin(node: Node) -> None:
    with contextlib.suppress(RuntimeError):
        node.start()


def killed_after(seconds: float, words: list[str]) -> None:
    """A command that is killed on its way, if it takes as long."""
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(seconds)
    process.kill()
    process.wait()


def ended(world: World) -> Node:
    """All nodes stop, and the cluster ends at the home: that node is returned. The command is killed on its way. Nothing is acknowledged
    from then on."""
    last = world.home()
    for node in world.followers():
        world.kill(node)
    world.progress()
    # A killed node is away after ten seconds.
    until(lambda: sum(one["is_running"] for one in json.loads(last.ask("/admin/v1/cluster"))["nodes"]) == 1, "it is alone")
    world.kept_running.discard(last)
    last.stop()
    for seconds in (0.05, 0.2):
        killed_after(seconds, last.end_words())

    def has_ended() -> bool:
        done = last.end_cluster()
        return done.returncode == 0 or "is of no cluster" in done.stderr

    until(has_ended, "the cluster has ended")
    return last


def founded(world: World, founder: Node) -> None:
    """The folder of a server founds the next cluster, with kills on its way; writes go on before the other nodes join."""
    for seconds in (0.1, 0.5):
        started = threading.Thread(target=begin, args=(founder,), daemon=True)
        started.start()
        time.sleep(seconds)
        founder.kill()
        started.join(60)
    world.start(founder)
    world.progress()
    for node in world.nodes:
        if node is not founder:
            world.start(node)


@fault
def cluster_is_founded_anew(world: World) -> None:
    """The cluster ends, and its data found the next. The other nodes join with what they have of the cluster before."""
    founded(world, ended(world))


@fault
def cluster_is_founded_with_a_restored_backup(world: World) -> None:
    """The cluster ends, its data go into a backup of a server, and what is restored from it founds the next, which empty nodes join. The
    backup and the restore are killed on their way too."""
    last = ended(world)
    backup = world.folder / "backup"
    server = Server("always", data=last.data, host=last.host, root_key=last.root_key, prefix=last.machine.prefix, options=OPTIONS, listeners=["http"])
    with server:
        taking = [binary(), "backup", "--server", f"{last.host}:{server.http_port}", "--key", last.root_key, "--to", str(backup)]
        for seconds in (0.05, 0.2):
            killed_after(seconds, taking)
        subprocess.run(taking, check=True, capture_output=True, timeout=COMES_WITHIN)
    restoring = [binary(), "restore", "--from", str(backup), "--data", last.data]
    for seconds in (0.05, 0.2):
        emptied(world, last)
        killed_after(seconds, restoring)
    emptied(world, last)
    subprocess.run(restoring, check=True, capture_output=True, timeout=COMES_WITHIN)
    shutil.rmtree(backup)
    for node in world.nodes:
        if node is not last:
            emptied(world, node)
    founded(world, last)


# ---- etcd as an operator treats it


@fault
def member_of_etcd_replaced(world: World) -> None:
    leader = world.leader()
    lost = next(number for number in range(len(world.members)) if number != leader)
    world.etcd.replace(lost, by_way_of=leader)
    world.progress()
    until(lambda: world.etcd.answers(lost), "the member that is new has caught up")


def says_that_it_stopped(node: Node) -> bool:
    return any("this node has stopped: an operator must decide" in line for line in node.output)


def is_served(world: World, node: Node) -> bool:
    try:
        world.probe.connect(node).scard(world.probe.KEY)
    except (redis.RedisError, OSError):
        return False
    return True


@fault
def etcd_restored_from_a_snapshot(world: World) -> None:
    """All members have what one of them had a while ago. No node goes on from there, not even one that is started again; when the members
    have everything again, all go on."""
    file = world.folder / "snapshot"
    file.unlink(missing_ok=True)
    world.etcd.save(world.leader(), file)
    for _ in range(20):
        world.progress()
    world.etcd.restore(file)
    seen = len(world.probe.acknowledged)
    for node in world.nodes:
        until(lambda node=node: says_that_it_stopped(node), f"{node.name} stops and says why")
    again = world.nodes[0]
    world.kill(again)
    with contextlib.suppress(RuntimeError):
        again.start()
    until(lambda: says_that_it_stopped(again), f"{again.name} stops again and says why")
    assert not any(is_served(world, node) for node in world.nodes), "a node serves what is out of date"
    assert len(world.probe.acknowledged) == seen, "a write was acknowledged after etcd was restored"
    world.etcd.put_back()
    for node in world.nodes:
        world.kill(node)
        world.start(node)
