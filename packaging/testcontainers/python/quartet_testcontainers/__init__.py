"""A Quartet server in a container, with its data in memory.

It makes a root key of its own and prints it once; this module reads it from the container's output and puts it into every address.
"""

from __future__ import annotations

import re

from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import HttpWaitStrategy

PORTS = {"redis": 6379, "rest": 8080, "dynamodb": 8000, "fauna": 8443, "keyvalue": 4500}
ACCESS_KEY_ID, SECRET_ACCESS_KEY = "quartet", "quartet-secret"
ROOT_KEY = re.compile(r"root key, shown this once: (\S+)")


class QuartetContainer(DockerContainer):
    def __init__(self, image: str = "quartet/quartet:0.1.0", **options):
        super().__init__(image, **options)
        self.key = ""
        self.with_exposed_ports(*PORTS.values())
        self.with_command("serve --data memory")
        self.with_env("QUARTET_DYNAMODB_ACCESS_KEYS", f"{ACCESS_KEY_ID}:{SECRET_ACCESS_KEY}")
        self.waiting_for(HttpWaitStrategy(PORTS["rest"], "/readyz"))

    def start(self) -> QuartetContainer:
        super().start()
        output, _ = self.get_logs()
        self.key = root_key(output.decode())
        return self

    def redis_url(self) -> str:
        return f"redis://:{self.key}@{self._address('redis')}"

    def rest_url(self) -> str:
        return f"http://{self._address('rest')}"

    def rest_token(self) -> str:
        return self.key

    def dynamodb_url(self) -> str:
        return f"http://{self._address('dynamodb')}"

    def fauna_url(self) -> str:
        return f"http://{self._address('fauna')}"

    def fauna_secret(self) -> str:
        return self.key

    def cluster(self) -> str:
        """The line of a cluster file for clients of FoundationDB."""
        return f"quartet:{self.key}@{self._address('keyvalue')}"

    def _address(self, layer: str) -> str:
        return f"{self.get_container_host_ip()}:{self.get_exposed_port(PORTS[layer])}"


def root_key(output: str) -> str:
    """The key stands in the output before the server says that it is ready."""
    found = ROOT_KEY.search(output)
    if found is None:
        raise RuntimeError(f"the server printed no root key:\n{output}")
    return found.group(1)
