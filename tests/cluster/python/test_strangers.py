"""Processes and peers that are no part of a cluster, or not the part that they say, change nothing."""

import contextlib
import socket
import ssl

import pytest
import redis
from harness import certificates
from harness.cluster import Cluster, Node, until


def test_a_name_is_that_of_one_process():
    """Two took over from each other without an end: each saw its own name as that of the home, and nobody there."""
    with Cluster() as cluster, contextlib.ExitStack() as left:
        assert cluster.at_one_home(lambda: redis.Redis(port=cluster.nodes[1].port).set("key", "value"))
        for taken in (cluster.home(), cluster.others()[0]):
            second = Node(cluster, taken.name)
            left.callback(second.close)
            with pytest.raises(RuntimeError, match=f"another process runs as {taken.name}, reached at 127.0.0.1:{taken.node_port}"):
                second.start()
            assert taken.alive()
        # It is free for a process at the same address at once.
        restarted = cluster.others()[0]
        restarted.kill()
        restarted.start()
        assert cluster.at_one_home(lambda: redis.Redis(port=restarted.port).get("key")) == b"value"


def test_a_stranger_at_the_port_of_a_node_learns_nothing(tmp_path):
    """Without a certificate of the cluster's own authority, with one of another, and without the cluster's name."""
    (tmp_path / "own").mkdir()
    (tmp_path / "other").mkdir()
    own, other = certificates.make(tmp_path / "own"), certificates.make(tmp_path / "other")
    with Cluster(certificates=None, options=node_certificates(own)) as cluster:
        node = cluster.home()
        id = node.status()["cluster"]

        def heard(context: ssl.SSLContext | None, line: bytes) -> bytes:
            """What comes back before the connection ends, TLS aside."""
            with socket.create_connection(("127.0.0.1", node.node_port), 60) as plain:
                try:
                    with context.wrap_socket(plain, server_hostname="127.0.0.1") if context else plain as link:
                        link.sendall(line)
                        return link.recv(1000)
                except (ssl.SSLError, OSError):
                    return b""

        def shows(made: certificates.Certificates | None) -> ssl.SSLContext:
            context = ssl.create_default_context(cafile=str(own.root))
            if made:
                context.load_cert_chain(made.certificate, made.key)
            return context

        asks = f"quartet 1 {id} take-over 0\n".encode()
        unknown = f"quartet 1 {'0' * 32} take-over 0\n".encode()
        term = cluster.term()
        for context, line in ((shows(None), asks), (shows(other), asks), (shows(own), unknown), (shows(own), b"PING\r\n"), (shows(own), b"x" * 1000)):
            assert heard(context, line) == b""
        # In clear text nothing comes back but an alert of TLS.
        assert b"ok" not in heard(None, asks)
        # The same words by a node of the cluster.
        assert heard(shows(own), f"quartet 1 {id} watch 0\n".encode()) == b"ok\n"
        assert heard(shows(own), f"quartet 1 {id} nonsense\n".encode()) == b"no unknown request\n"
        assert cluster.term() >= term

        # A node of another authority copies nothing, and is not heard.
        foreign = Node(cluster, "foreign")
        foreign.options = [word for word in foreign.options if word not in node_certificates(own)] + node_certificates(other)
        try:
            with pytest.raises(RuntimeError, match="copying node-"):
                foreign.start()
        finally:
            foreign.close()
        until(lambda: cluster.home().is_home(), "a node is home")


def node_certificates(made: certificates.Certificates) -> list[str]:
    return ["--cluster-ca", str(made.root), "--cluster-certificate", str(made.certificate), "--cluster-key", str(made.key)]
