"""What the suites of frameworks find instead of containers, downloaded models and a newer server: `-p stand_ins` for pytest.

Nothing of a suite is changed by it. SUITE_SERVER_PORT is the server's; SUITE_SERVER_VERSION is the version that conditions read.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import types

import pytest


class NoContainers:
    """Instead of a set of containers: the server that runs already."""

    def __init__(self, *_: object, **__: object):
        pass

    def start(self) -> None:
        pass

    def stop(self, *_: object, **__: object) -> None:
        pass

    def get_service_host_and_port(self, service: str, _: int | None = None) -> tuple[str, int]:
        if not service.startswith("redis"):
            pytest.skip(f"{service} is a container")
        return "127.0.0.1", int(os.environ["SUITE_SERVER_PORT"])

    def get_service_port(self, service: str, port: int | None = None) -> int:
        return self.get_service_host_and_port(service, port)[1]


class NoContainer:
    """Instead of one container."""

    def __init__(self, *_: object, **__: object):
        pass

    def start(self) -> NoContainer:
        return self

    def stop(self, *_: object, **__: object) -> None:
        pass

    def __enter__(self) -> NoContainer:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def get_container_host_ip(self) -> str:
        return "127.0.0.1"

    def get_exposed_port(self, _: int) -> int:
        return int(os.environ["SUITE_SERVER_PORT"])


class WordCounts:
    """Instead of a downloaded model: a text's words, each added to a place that its hash gives, at length one. Texts are near that share words."""

    def __init__(self, name: str = "", *_: object, **__: object):
        self.dimensions = 384 if "MiniLM" in name else 768

    def encode(self, sentences: str | list[str], **_: object) -> object:
        import numpy

        texts = [sentences] if isinstance(sentences, str) else list(sentences)
        vectors = numpy.full((len(texts), self.dimensions), 1e-3, dtype=numpy.float32)
        for vector, text in zip(vectors, texts, strict=True):
            for word in str(text).lower().split():
                vector[int(hashlib.sha1(word.strip(".,?!").encode()).hexdigest(), 16) % self.dimensions] += 1
            vector /= numpy.linalg.norm(vector)
        return vectors[0] if isinstance(sentences, str) else vectors

    def get_sentence_embedding_dimension(self) -> int:
        return self.dimensions


def replace_models() -> None:
    module = types.ModuleType("sentence_transformers")
    module.SentenceTransformer = WordCounts
    module.CrossEncoder = WordCounts
    sys.modules["sentence_transformers"] = module


class NoDocker:
    """Instead of Docker's client: a container that it starts is the server that runs already."""

    def __init__(self):
        self.containers = self

    def ping(self) -> bool:
        return True

    def run(self, *_: object, **__: object) -> NoDocker:
        return self

    def stop(self) -> None:
        pass

    def remove(self) -> None:
        pass


def replace_containers() -> None:
    # Who has testcontainers has it too, and starts nothing with it.
    if importlib.util.find_spec("docker") is None:
        docker = types.ModuleType("docker")
        docker.from_env = NoDocker
        sys.modules["docker"] = docker
    try:
        import testcontainers.compose as compose
        import testcontainers.redis as redis
    except ImportError:
        return
    compose.DockerCompose = NoContainers
    redis.RedisContainer = NoContainer


def replace_version() -> None:
    """In what redis-py's clients make of INFO."""
    from redis._parsers import helpers

    helpers._RedisCallbacks["INFO"] = lambda text: helpers.parse_info(text) | {"redis_version": os.environ["SUITE_SERVER_VERSION"]}


if "SUITE_SERVER_PORT" in os.environ:
    replace_version()
    replace_models()
    replace_containers()


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    if known := getattr(session.config, "REDIS_INFO", None):
        known["version"] = os.environ["SUITE_SERVER_VERSION"]
