"""TLS that is switched on while a cluster runs."""

import contextlib
import signal
import socket
import ssl

import pytest
from harness import certificates
from harness.cluster import Cluster, until


@pytest.mark.quartet_only
@pytest.mark.timeout(600)
def test_a_certificate_that_is_switched_on_is_shown_by_every_node_in_every_role(tmp_path):
    """Only the home read it, and a home that began had the certificate with which its process had started."""
    made = certificates.make(tmp_path)
    trusted = ssl.create_default_context(cafile=str(made.root))
    cluster = Cluster(nodes=2, options=["--partitions", "2"])
    files = {node: tmp_path / f"{node.name}.toml" for node in cluster.nodes}
    for node, file in files.items():
        file.write_text("")
        node.options += ["--config", str(file)]

    def is_shown(node) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", node.http_port), 60) as raw:
                return trusted.wrap_socket(raw, server_hostname="localhost").getpeercert() is not None
        except OSError:
            return False

    def is_shown_by_all() -> bool:
        return all(is_shown(node) for node in cluster.nodes)

    with cluster:
        assert not any(is_shown(node) for node in cluster.nodes)
        for node, file in files.items():
            file.write_text(f'tls-certificate = "{made.certificate}"\ntls-key = "{made.key}"\n')
            node.process.send_signal(signal.SIGHUP)
        until(is_shown_by_all, "every node shows it")
        successor = cluster.others()[0]

        def is_home() -> bool:
            # A hand-over may be refused while one is under way.
            with contextlib.suppress(OSError):
                if not successor.is_home():
                    successor.hand_over()
            return successor.is_home()

        until(is_home, f"{successor.name} is home")
        until(is_shown_by_all, "every node shows it in its other role")
