"""Puts the binary and the library that QUARTET_PACKAGE_BINARY and QUARTET_PACKAGE_LIBRARY name into the wheel, and gives the wheel its version and its platform."""

import os
import sys
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from binaries import Binary, version  # noqa: E402


class Metadata(MetadataHookInterface):
    def update(self, metadata: dict) -> None:
        metadata["version"] = version()


class Build(BuildHookInterface):
    def initialize(self, version: str, build_data: dict) -> None:
        binary = Binary(Path(os.environ["QUARTET_PACKAGE_BINARY"]))
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{binary.wheel_platform()}"
        build_data["force_include"][str(binary.path)] = "quartet_server/bin/quartet"
        build_data["force_include"][os.environ["QUARTET_PACKAGE_LIBRARY"]] = f"quartet_server/lib/{binary.library_name()}"
