"""What a release publishes, made of one binary: names, checksums, the bill of materials, the image's content, the chart."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

from harness.installed import run
from harness.server import ROOT, binary, library

VERSION = re.search(r'^version = "([^"]+)"', (ROOT / "Cargo.toml").read_text(), re.MULTILINE).group(1)
WORKFLOW = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())
CHART = ROOT / "packaging" / "helm" / "quartet"


@pytest.fixture(scope="module")
def release(tmp_path_factory) -> Path:
    """By the command of the workflow, where that finds what its other job has built."""
    folder = tmp_path_factory.mktemp("release")
    (folder / "binaries").mkdir()
    run(["strip", "-o", folder / "binaries" / "quartet-x86_64-unknown-linux-musl", binary()])
    shutil.copy2(library(), folder / "binaries" / "libfdb_c-x86_64-unknown-linux-musl")
    (folder / "packaging").symlink_to(ROOT / "packaging")
    (command,) = [step["run"] for step in WORKFLOW["jobs"]["publish"]["steps"] if "release.py" in step.get("run", "")]
    run(["bash", "-euc", command], cwd=folder, PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    return folder / "dist"


def test_every_file_has_its_checksum(release):
    subprocess.run(["sha256sum", "--check", "--quiet", "--strict", "SHA256SUMS"], cwd=release, check=True)
    named = {line.split()[1] for line in (release / "SHA256SUMS").read_text().splitlines()}
    assert named == {file.name for file in release.iterdir() if file.is_file()} - {"SHA256SUMS"}
    assert {f"quartet-{VERSION}-linux-x64.tar.gz", f"quartet_{VERSION}_amd64.deb", f"quartet-{VERSION}.cdx.json", "quartet.rb"} <= named


def test_the_formula_names_the_archive_that_is_there(release):
    formula = (release / "quartet.rb").read_text()
    sums = dict(reversed(line.split()) for line in (release / "SHA256SUMS").read_text().splitlines())
    assert sums[f"quartet-{VERSION}-linux-x64.tar.gz"] in formula
    assert not re.search("VERSION|ADDRESS|SHA256_OF", formula)


def test_the_archive_holds_the_program(release):
    with tarfile.open(release / f"quartet-{VERSION}-linux-x64.tar.gz") as tar:
        assert tar.getmember("quartet").mode & 0o111
        assert {"quartet", "libfdb_c.so", "foundationdb/fdb_c.h", "LICENSE"} <= set(tar.getnames())
        assert {"man/quartet.1", "man/quartet-serve.1", "completions/_quartet", "completions/quartet.fish"} <= set(tar.getnames())


def test_what_is_released_is_built_with_the_profile_of_packages():
    (commands,) = [step["run"] for step in WORKFLOW["jobs"]["binaries"]["steps"] if "cargo build" in step.get("run", "")]
    assert commands.count("--profile dist") == commands.count("cargo build") == commands.count("}}/dist/") == 2
    assert "[profile.dist]" in (ROOT / "Cargo.toml").read_text()


def test_compose_builds_the_image_from_the_checkout():
    """It named an image that no registry has, and built none."""
    file = ROOT / "packaging" / "docker" / "compose.yaml"
    build = yaml.safe_load(file.read_text())["services"]["quartet"]["build"]
    context = (file.parent / build["context"]).resolve()
    assert context == ROOT
    dockerfile = (context / build["dockerfile"]).read_text()
    assert re.search(rf"^FROM \S+ AS {build['args']['BINARY']}$", dockerfile, re.MULTILINE) and "cargo build --locked --profile dist" in dockerfile


def test_the_bill_of_materials_is_whole(release):
    bill = json.loads((release / f"quartet-{VERSION}.cdx.json").read_text())
    names = {part["name"] for part in bill["components"]}
    assert {"quartet-engine", "tokio", "rustls", "mlua"} <= names
    # What only tests need is not in the program.
    assert "proptest" not in names
    known = {part["bom-ref"] for part in bill["components"]} | {f"quartet@{VERSION}"}
    assert all(set(edge["dependsOn"]) <= known for edge in bill["dependencies"])
    assert all("licenses" in part for part in bill["components"])


def test_every_named_version_is_this_one():
    chart = (CHART / "Chart.yaml").read_text()
    assert f"\nversion: {VERSION}\n" in chart and f'\nappVersion: "{VERSION}"' in chart
    for module in ("node/index.js", "python/quartet_testcontainers/__init__.py", "go/quartet.go", "java/org/testcontainers/quartet/QuartetContainer.java"):
        assert f"quartet/quartet:{VERSION}" in (ROOT / "packaging" / "testcontainers" / module).read_text()


@pytest.mark.skipif(shutil.which("helm") is None, reason="helm is not installed; `./test packages` builds it")
def test_the_chart_is_well_formed():
    assert "0 chart(s) failed" in run(["helm", "lint", "--strict", CHART])
    users = "auth.aclUsers.reader.password=secret,auth.aclUsers.reader.permissions=~* -@all +@read"
    options = ["--set", users, "--set", "metrics.serviceMonitor.enabled=true", "--set", "tls.enabled=true,tls.existingSecret=pair"]
    told = run(["helm", "template", "shop", CHART, "--kube-version", "1.30.0", *options, "--set", "service.keyvalue.port=0", "--set", "quartetConfig.connections-max=7"])
    assert "user reader on #2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b ~* -@all +@read" in told
    assert 'redis-users-file = "/etc/quartet-users/users.acl"' in told and "mountPath: /etc/quartet-users" in told
    assert 'listen-keyvalue = "off"' in told and "connections-max = 7" in told and "kind: ServiceMonitor" in told
