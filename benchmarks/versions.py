#!/usr/bin/env python3
"""Two builds of Quartet beside each other: is the newer one slower?

    benchmarks/versions.py --before OLD/quartet --after target/dist/quartet --layer fauna

or of one build with other options of `quartet serve` for the second, as for the default of --io-threads:

    benchmarks/versions.py --before target/dist/quartet --after target/dist/quartet --after-options "--io-threads 2"

Each test of the Product benchmark (of `quartet bench keyvalue` for that layer) runs against both in turn, `--rounds` times, each time
on a fresh server, the order changing from round to round, with the newer build's load generator for both. What is compared is the
server's own CPU time per request: on a machine that others use, rates say little. A test's ratio is the median of its rounds' ratios.
Servers listen on loopback only and are stopped.
"""

import argparse
import statistics

import redis
from redis import Server, bench, figures

PRODUCT = "product", ["read", "insert", "overwrite", "update"]
WORKLOADS = {"redis": PRODUCT, "fauna": PRODUCT, "dynamodb": PRODUCT, "keyvalue": ("keyvalue", ["reads", "writes", "mixed"])}
GREETINGS = {
    "redis": Server.greeting,
    "fauna": (b"GET /ping HTTP/1.1\r\nhost: localhost\r\n\r\n", b"HTTP/1.1 200"),
    "dynamodb": (b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n", b"HTTP/1.1 200"),
    # No request: the connection is closed.
    "keyvalue": (b"GET / HTTP/1.1\r\n\r\n", b""),
}
URLS = {"redis": "redis://127.0.0.1:{}", "fauna": "fauna://secret@127.0.0.1:{}", "dynamodb": "dynamodb://127.0.0.1:{}",
        "keyvalue": "quartet:dev@127.0.0.1:{}"}


class Build(Server):
    def __init__(self, binary, more, layer):
        self.binary, self.more, self.layer, self.greeting = binary, more, layer, GREETINGS[layer]
        super().__init__("quartet", "interval")

    def command(self):
        listeners = ["redis", "fauna", "dynamodb", "keyvalue", "http"]
        served = {layer: f"127.0.0.1:{self.port}" if layer == self.layer else "off" for layer in listeners}
        options = [word for layer, address in served.items() for word in (f"--listen-{layer}", address)]
        return [self.binary, "serve", "--dev", "--data", self.directory, "--durability", self.mode, *options,
                *self.more.split()]

    def url(self, db=0):
        return URLS[self.layer].format(self.port)


def measured(build, settings, test):
    """Microseconds of the server's CPU for a request, and requests a second."""
    server = Build(*build, settings.layer)
    try:
        options = ["--tests", test, "--parallelism", str(settings.workers), "--seconds", str(settings.seconds)]
        workload = WORKLOADS[settings.layer][0]
        found = figures(bench(server, workload, *options, timeout=2 * settings.seconds + 120)[0])
        return found["cpu_us"], found["per_second"]
    finally:
        server.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", required=True, help="the older binary")
    parser.add_argument("--after", required=True, help="the newer one")
    parser.add_argument("--before-options", default="", help="of `quartet serve`, for the older one")
    parser.add_argument("--after-options", default="", help="and for the newer one")
    parser.add_argument("--layer", choices=list(URLS), default="redis")
    parser.add_argument("--tests", nargs="+", help="all of the layer's if not given")
    parser.add_argument("--workers", type=int, default=10)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=5)
    settings = parser.parse_args()
    redis.QUARTET = settings.after
    print(f"server CPU of a request, microseconds: {settings.layer}, {settings.workers} workers, {settings.rounds} rounds of {settings.seconds} s")
    builds = [(settings.before, settings.before_options), (settings.after, settings.after_options)]
    for test in settings.tests or WORKLOADS[settings.layer][1]:
        rounds = []
        for number in range(settings.rounds):
            order = builds if number % 2 == 0 else builds[::-1]
            found = {build: measured(build, settings, test) for build in order}
            rounds.append([found[build] for build in builds])
        cpu, rate = ([(before[kind], after[kind]) for before, after in rounds] for kind in (0, 1))
        before, after = (statistics.median(column) for column in zip(*cpu))
        ratios = [statistics.median(after / before for before, after in pairs) for pairs in (cpu, rate)]
        print(f"{test:10} before {before:6.1f}  after {after:6.1f}  CPU {ratios[0]:.3f}  rate {ratios[1]:.3f}", flush=True)


if __name__ == "__main__":
    main()
