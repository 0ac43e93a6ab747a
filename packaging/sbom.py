#!/usr/bin/env python3
"""What the binary is made of, as CycloneDX 1.5: `packaging/sbom.py > quartet.cdx.json`. Read from Cargo.lock through `cargo metadata`.

For Linux: what only other systems need is not in our binaries, and asking for it would fetch every one of those crates.
"""

from __future__ import annotations

import json
import subprocess

from binaries import ROOT, version

PLATFORM = "x86_64-unknown-linux-gnu"


def of_the_workspace() -> str:
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", PLATFORM]
    told = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    metadata = json.loads(told.stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    edges = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    (program,) = (package for package in packages.values() if package["name"] == "quartet" and package["source"] is None)
    used = reachable(program["id"], edges)
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "application", "bom-ref": reference(program), "name": "quartet", "version": version()}},
        "components": sorted((component(packages[one]) for one in used - {program["id"]}), key=lambda part: part["bom-ref"]),
        "dependencies": sorted((dependencies(one, packages, edges) for one in used), key=lambda edge: edge["ref"]),
    }
    return json.dumps(bill, indent=1) + "\n"


def reachable(start: str, edges: dict) -> set[str]:
    seen, waiting = set(), [start]
    while waiting:
        one = waiting.pop()
        if one not in seen:
            seen.add(one)
            waiting += needed(edges[one])
    return seen


def needed(node: dict) -> list[str]:
    """Without what only tests need."""
    return [needs["pkg"] for needs in node["deps"] if any(kind["kind"] != "dev" for kind in needs["dep_kinds"])]


def component(package: dict) -> dict:
    part = {"type": "library", "bom-ref": reference(package), "name": package["name"], "version": package["version"]}
    if package["license"]:
        part["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    if package["source"]:
        part["purl"] = f"pkg:cargo/{package['name']}@{package['version']}"
    return part


def dependencies(one: str, packages: dict, edges: dict) -> dict:
    return {"ref": reference(packages[one]), "dependsOn": sorted({reference(packages[other]) for other in needed(edges[one])})}


def reference(package: dict) -> str:
    return f"{package['name']}@{package['version']}"


if __name__ == "__main__":
    print(of_the_workspace(), end="")
