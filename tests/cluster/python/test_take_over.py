"""Three nodes over three members of etcd: the home is killed, stands still, or waits for its disk, and nothing acknowledged is lost."""

import os
import time

import pytest
import redis
from harness.cluster import Cluster, until
from harness.ledger import Ledger
from harness.small_disk import PowerDisk, why_not
from harness.unnoticed import all_run
from harness.writers import Writers, connect

# How often, and the longest time without an acknowledgement. The aim is 2 s; a busy machine decides about it otherwise.
BOTH_KILLS = int(os.environ.get("BOTH_KILLS", "2"))
BOTH_LONGEST = float(os.environ.get("BOTH_LONGEST", "60"))


@pytest.fixture
def cluster():
    with Cluster() as cluster:
        yield cluster


def test_every_node_leads_to_the_home(cluster):
    clients = [connect(node) for node in cluster.nodes]
    for number, client in enumerate(clients):
        assert cluster.at_one_home(lambda client=client, number=number: client.set(f"key:{number}", number))
    for client in clients:
        assert cluster.at_one_home(lambda client=client: client.mget("key:0", "key:1", "key:2")) == ["0", "1", "2"]


def test_a_home_that_is_killed_loses_nothing(cluster):
    writers = Writers(cluster.nodes)
    try:
        for _ in range(3):
            writers.wait_for(500)
            home, killed = cluster.home(), time.monotonic()
            home.kill()
            writers.wait_for(500)
            print(f"writes resumed after {writers.longest_gap_after(killed):.2f} s")
            home.start()
    finally:
        writers.end()
    for node in cluster.nodes:
        writers.verify(node)


def test_a_home_that_stands_still_loses_nothing_and_follows_afterwards(cluster):
    writers = Writers(cluster.nodes)
    try:
        writers.wait_for(500)
        home = cluster.home()
        others = [node for node in cluster.nodes if node is not home]
        home.pause()
        deadline = time.monotonic() + 60
        while not any(node.is_home() for node in others):
            assert time.monotonic() < deadline, "no other node takes over"
            time.sleep(0.02)
        time.sleep(0.5)
        home.go_on()
        writers.wait_for(500)
    finally:
        writers.end()
    for node in cluster.nodes:
        writers.verify(node)


def test_writes_go_on_when_the_leader_of_etcd_is_killed(cluster):
    writers = Writers(cluster.nodes)
    try:
        writers.wait_for(500)
        cluster.etcd.kill(cluster.etcd.leader())
        writers.wait_for(500)
    finally:
        writers.end()
    writers.verify(cluster.home())


def answered(act) -> bool:
    try:
        return bool(act())
    except (redis.RedisError, OSError):
        return False


def test_a_home_whose_disk_answers_nothing_is_succeeded():
    """It went on telling the others that it lived, and every write waited for that disk."""
    if reason := why_not():
        pytest.skip(reason)
    with PowerDisk(1024) as disk, Cluster(folders=[str(disk.path / "data"), None, None]) as cluster:
        first, others = cluster.nodes[0], cluster.nodes[1:]
        until(lambda: first.is_home() or answered(lambda: first.hand_over() or True), f"{first.name} is home")
        client = redis.Redis(port=others[0].port, socket_timeout=2, retry=None)
        until(lambda: answered(lambda: client.set("before", "kept")), "a write is acknowledged")
        disk.hang()
        try:
            # The first one waits for the disk, and with it all others at this home.
            until(lambda: answered(lambda: client.set("meanwhile", "kept")) and any(node.is_home() for node in others), "another node is home")
        finally:
            disk.go_on()
        until(lambda: not first.is_home(), f"{first.name} follows")
        until(lambda: answered(lambda: first.hand_over() or True) or first.is_home(), f"{first.name} is home again")
        reader = redis.Redis(port=first.port, decode_responses=True)
        until(lambda: answered(lambda: reader.mget("before", "meanwhile") == ["kept", "kept"]), "nothing is lost")


@pytest.mark.parametrize("etcd_options", [[], ["--heartbeat-interval=50", "--election-timeout=500"]], ids=["defaults", "elections within half a second"])
def test_the_home_and_the_leader_of_etcd_are_killed_together(etcd_options):
    """Writes go on once etcd has another leader, which takes one to two of its election timeouts; the take-over itself hides behind that."""
    with Cluster(etcd_options=etcd_options) as cluster:
        all_run(cluster)
        took = []
        with Ledger([node.fixed_port for node in cluster.nodes], [{}], writers=4) as ledger:
            for _ in range(BOTH_KILLS):
                ledger.wait_for(50)
                home, leader = cluster.home(), cluster.etcd.leader()
                killed = time.monotonic()
                home.process.kill()
                cluster.etcd.kill(leader)
                home.kill()
                ledger.wait_for(20)
                took.append(max(writer.longest_wait(killed) for writer in ledger.writers))
                cluster.etcd.run(leader)
                home.start()
                all_run(cluster)
        print("home and leader of etcd killed:", *(f"{seconds:.2f}" for seconds in sorted(took)), "s without an acknowledgement", flush=True)
        cluster.at_one_home(lambda: ledger.verify(cluster.home().port))
        assert max(took) <= BOTH_LONGEST
