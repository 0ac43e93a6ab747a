"""Starts the containers of a compose file, or the pods of a rendered chart, as they are written, and uses the cluster that they make.

    python -m packages.containers compose
    python -m packages.containers chart RENDERED

Without a container engine: each process has a machine of its own (`harness.network`), a root of its own, and nothing of the environment but
what the file says. The members of etcd are those of the compose file for both. Certificates come from the lines of docs/cluster-operations.md.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from harness.network import Machine, Network, alone, own_folder, run
from harness.server import ROOT, binary

DOCKER = ROOT / "packaging" / "docker"
DOCKERFILE = (DOCKER / "Dockerfile").read_text().replace("\\\n", " ")
COMPOSE = DOCKER / "compose.cluster.yaml"
NAMESPACE = "default"
KEY = "rootKeyOfATest0123456789"
ETCD_USER, COMES_WITHIN = "0:0", 120.0
DEVICES = {"null": 3, "zero": 5, "random": 8, "urandom": 9}


@dataclass
class Container:
    machine: Machine
    folder: Path
    user: str
    command: list[str]
    environment: dict[str, str]
    # Folders by the path at which the container has them.
    mounts: dict[str, Path]
    output: Path = field(init=False)
    process: subprocess.Popen | None = None

    def __post_init__(self):
        self.output = self.folder.with_suffix(".out")
        for name in ("proc", "dev", "etc", "lib", "lib64", "usr", "tmp", *(path.lstrip("/") for path in self.mounts)):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        run("cp", binary(), str(self.folder / "quartet"))

    def start(self) -> None:
        root = self.folder
        lines = [f"mount -t proc none {root}/proc", f"mount -t tmpfs none {root}/dev"]
        lines += [f"mknod -m 666 {root}/dev/{name} c 1 {minor}" for name, minor in DEVICES.items()]
        lines += [f"mount --bind -o ro /{name} {root}/{name}" for name in ("lib", "lib64", "usr")]
        lines += [f"mount --bind {folder} {root}{path}" for path, folder in self.mounts.items()]
        lines += [f"exec {shlex.join(self.within(self.command))}"]
        script = ["unshare", "--mount", "bash", "-euc", "\n".join(lines)]
        self.process = subprocess.Popen([*self.machine.prefix, *script], stdin=subprocess.DEVNULL, stdout=self.output.open("ab"), stderr=subprocess.STDOUT)

    def within(self, command: list[str]) -> list[str]:
        values = [f"{name}={value}" for name, value in {"PATH": "/usr/bin", **self.environment}.items()]
        return ["env", "-i", *values, "/usr/sbin/chroot", f"--userspec={self.user}", str(self.folder), *command]

    def asked(self, *command: str) -> str:
        """What a command of the image says, run in the container while that runs."""
        inside = ["nsenter", "--net", "--mount", "--target", str(self.process.pid), *self.within(list(command))]
        return run(*inside).strip()

    def until(self, holds, what: str):
        deadline, last = time.monotonic() + COMES_WITHIN, None
        while True:
            try:
                if found := holds():
                    return found
            except (OSError, ValueError) as problem:
                last = problem
            if self.process.poll() is not None:
                # The engine starts it again, as one that needs a copy is to be.
                self.start()
            assert time.monotonic() < deadline, f"{what}: {last}\n{self.output.read_text()[-4000:]}"
            time.sleep(0.1)

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(timeout=COMES_WITHIN)


def of_the_image(instruction: str) -> str:
    return re.findall(rf"^{instruction} +(.+)$", DOCKERFILE, re.MULTILINE)[-1]


def image_environment() -> dict[str, str]:
    return dict(word.split("=", 1) for word in shlex.split(of_the_image("ENV")))


def certificates(folder: Path) -> None:
    """By the ten lines of the documentation."""
    page = (ROOT / "docs" / "cluster-operations.md").read_text()
    section = re.search(r"^### Lines of openssl$\n(.*?)^#", page, re.MULTILINE | re.DOTALL)[1]
    lines = "".join(re.findall(r"^```sh(?:,run)?$\n(.*?)^```$", section, re.MULTILINE | re.DOTALL))
    done = subprocess.run(["bash", "-euc", lines], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def composed(place: Path, network: Network) -> dict[str, Container]:
    """Every service of the compose file, with an address for its name and empty volumes."""
    text = re.sub(r"\$\{QUARTET_ROOT_KEY:\?[^}]*\}", KEY, COMPOSE.read_text())
    found = {}
    for name, service in yaml.safe_load(text)["services"].items():
        is_node = service["image"].startswith("quartet")
        user = of_the_image("USER") if is_node else ETCD_USER
        command = json.loads(of_the_image("ENTRYPOINT")) + json.loads(of_the_image("CMD")) if is_node else service["entrypoint"]
        # Debian's etcd stands in for the image's, which is a version that needs no permission.
        permission = {"QUARTET_ETCD_ALLOW_STALE_READS": "true"} if is_node else {}
        environment = {**(image_environment() if is_node else {}), **service["environment"], **permission}
        mounts = {}
        for volume in service["volumes"]:
            source, path = volume.split(":")[:2]
            mounts[path] = place / source
            if not source.startswith("."):
                volume_of(mounts[path], user)
        found[name] = Container(network.machine(name), place / f"root-{name}", user, command, environment, mounts)
    return found


def volume_of(folder: Path, user: str) -> None:
    folder.mkdir()
    os.chown(folder, *map(int, user.split(":")))


def pods(place: Path, network: Network, rendered: Path) -> dict[str, Container]:
    """The pods of the chart's StatefulSet, by the names that its headless service gives them."""
    documents = [document for document in yaml.safe_load_all(rendered.read_text()) if document]
    of_kind = {document["kind"]: document for document in documents}
    stateful = of_kind["StatefulSet"]
    spec, service = stateful["spec"], stateful["spec"]["serviceName"]
    assert service in [document["metadata"]["name"] for document in documents if document["kind"] == "Service" and document["spec"].get("clusterIP") == "None"]
    pod = spec["template"]["spec"]
    (described,) = pod["containers"]
    owner = pod["securityContext"]
    user = f"{owner['runAsUser']}:{owner['runAsGroup']}"
    secret = place / "secret"
    # The group of a volume is the pod's.
    secret.mkdir()
    for key, file in {"ca.crt": "ca.pem", "tls.crt": "wildcard.pem", "tls.key": "wildcard.key"}.items():
        run("install", "-m", "440", "-g", str(owner["fsGroup"]), str(place / "certificates" / file), str(secret / key))
    settings = place / "settings"
    settings.mkdir()
    for name, text in of_kind["ConfigMap"]["data"].items():
        (settings / name).write_text(text)
    found = {}
    for number in range(spec["replicas"]):
        name = f"{stateful['metadata']['name']}-{number}"
        environment = {**image_environment(), "QUARTET_ETCD_ALLOW_STALE_READS": "true"}
        for variable in described["env"]:
            # The secret of credentials has the root key alone.
            secret_key = variable.get("valueFrom", {}).get("secretKeyRef")
            if secret_key and secret_key["key"] != "root-key":
                assert secret_key["optional"]
                continue
            value = KEY if secret_key else name if "valueFrom" in variable else variable["value"]
            environment[variable["name"]] = re.sub(r"\$\((\w+)\)", lambda reference: environment[reference[1]], value)
        volumes = {volume["name"]: settings if "configMap" in volume else secret for volume in pod["volumes"]}
        volumes["data"] = place / f"data-{number}"
        volume_of(volumes["data"], user)
        mounts = {mount["mountPath"]: volumes[mount["name"]] for mount in described["volumeMounts"]}
        machine = network.machine(f"{name}.{service}.{NAMESPACE}.svc.cluster.local")
        found[name] = Container(machine, place / f"root-{name}", user, [*json.loads(of_the_image("ENTRYPOINT")), *described["args"]], environment, mounts)
    return found


def wildcard(folder: Path, name: str) -> None:
    """A certificate for all pods of a chart, of the authority that the lines of the documentation have made."""
    script = f"""
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=pods -keyout wildcard.key -out wildcard.csr
    printf 'subjectAltName=DNS:{name}\\nextendedKeyUsage=serverAuth,clientAuth\\n' > wildcard.ext
    openssl x509 -req -in wildcard.csr -CA ca.pem -CAkey ca.key -days 2 -extfile wildcard.ext -out wildcard.pem
    """
    done = subprocess.run(["bash", "-euc", script], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def redis(machine: Machine, *words: str) -> str:
    return run("redis-cli", "-h", machine.address, "--no-auth-warning", "-a", KEY, *words).strip()


def main() -> None:
    alone("packages.containers")
    sys.stdout.reconfigure(line_buffering=True)
    form, *rendered = sys.argv[1:]
    with own_folder() as place:
        place.chmod(0o755)
        certificates(place)
        network = Network()
        services = composed(place, network)
        members = {name: one for name, one in services.items() if name.startswith("etcd")}
        if form == "chart":
            wildcard(place / "certificates", f"*.shop-quartet-nodes.{NAMESPACE}.svc.cluster.local")
            nodes = pods(place, network, Path(rendered[0]))
        else:
            nodes = {name: one for name, one in services.items() if name not in members}
        hosts = "127.0.0.1 localhost\n" + "".join(f"{machine.address} {machine.name}\n" for machine in network.machines)
        running = {**members, **nodes}
        for one in running.values():
            (one.folder / "etc" / "hosts").write_text(hosts)
            one.start()
        use(list(nodes.values()))
        for one in running.values():
            one.stop()
        network.close()


def use(nodes: list[Container]) -> None:
    healthcheck = json.loads(of_the_image("HEALTHCHECK").split("CMD ")[1])
    status = ["/quartet", "cluster", "--key", KEY, "--json", "status"]
    for node in nodes:
        node.until(lambda: [node.asked(*healthcheck)], "a node is ready")
    print(len(nodes), "nodes are ready")
    nodes[0].until(lambda: redis(nodes[0].machine, "SET", "greeting", "hello") == "OK", "a node takes a write")
    print("another node has it:", redis(nodes[-1].machine, "GET", "greeting"))
    homes = nodes[0].until(lambda: [node["name"] for node in json.loads(nodes[0].asked(*status))["nodes"] if node["is_home"]], "the status names the home")
    home = next(node for node in nodes if [node.environment["QUARTET_NODE_NAME"]] == homes)
    print("stopped", home.stop())
    other = next(node for node in nodes if node is not home)
    other.until(lambda: redis(other.machine, "GET", "greeting") == "hello", "another node is home")
    print("another node is home")


if __name__ == "__main__":
    main()
