"""Cells of `redis.py --only families`: commands whose cost is not that of a plain key.

Each measures one server and returns its figures; `redis.py` runs them on both sides in turn.
"""

import csv
import random
import resource
import selectors
import socket
import subprocess
import threading
import time

from harness.resp import encode

CLIENTS = 50
SUBSCRIBERS = 100
IDLE_CONNECTIONS = 10_000
STREAM_ENTRY = ["name", "sensor-17", "value", "21.5"]
# A fixed window: so many calls a minute for each of a thousand users.
RATE_LIMITER = """
local count = redis.call('INCR', KEYS[1])
if count == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
if count > tonumber(ARGV[1]) then return {0, redis.call('PTTL', KEYS[1])} end
return {1, tonumber(ARGV[1]) - count}
"""


def generate(server, requests, *words, clients=CLIENTS, pipeline=1, random_keys=None):
    """Runs redis-benchmark with one command. Returns the figures, with the server's CPU in microseconds a request."""
    options = ["-c", str(clients), "-P", str(pipeline), "-n", str(requests), "--csv"]
    options += ["-r", str(random_keys)] if random_keys else []
    before = server.cpu_seconds()
    run = subprocess.run(["redis-benchmark", "-p", str(server.port), *options, *words], capture_output=True, text=True, check=True)
    cpu = (server.cpu_seconds() - before) / requests * 1e6
    cell = list(csv.DictReader(run.stdout.splitlines()))[-1]
    return {"per_second": float(cell["rps"]), "p99_us": float(cell["p99_latency_ms"]) * 1000,
            "p50_us": float(cell["p50_latency_ms"]) * 1000, "cpu_us": cpu, "errors": 0}


def pipelined(server, requests):
    """Sends requests, given as lists of words, a thousand at a time, and reads past their replies."""
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        stream = connection.makefile("rb")
        for start in range(0, len(requests), 1000):
            batch = requests[start:start + 1000]
            connection.sendall(b"".join(encode(*words) for words in batch))
            for _ in batch:
                if (first := stream.readline())[:1] == b"-":
                    raise SystemExit(f"{batch[0]}: {first}")
                if first[:1] == b"$":
                    stream.readline()


def xadd(server, requests):
    server.cli("FLUSHALL")
    return generate(server, requests, "XADD", "stream", "MAXLEN", "~", "100000", "*", *STREAM_ENTRY)


def xreadgroup(server, requests):
    server.cli("FLUSHALL")
    pipelined(server, [["XADD", "stream", "*", *STREAM_ENTRY]] * requests)
    server.cli("XGROUP", "CREATE", "stream", "group", "0")
    return generate(server, requests, "XREADGROUP", "GROUP", "group", "consumer", "COUNT", "1", "STREAMS", "stream", ">")


def publish(server, requests):
    """Messages to a hundred subscribers, from the first sent until the last has arrived everywhere."""
    messages = max(1, requests // 20)
    payload = "m" * 64
    frame = len(encode("message", "channel", payload))
    listeners = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(SUBSCRIBERS)]
    for listener in listeners:
        listener.sendall(encode("SUBSCRIBE", "channel"))
        listener.recv(1000)
    reader = threading.Thread(target=drain, args=(listeners, frame * messages))
    before, started = server.cpu_seconds(), time.perf_counter()
    reader.start()
    cell = generate(server, messages, "PUBLISH", "channel", payload, clients=1)
    reader.join()
    seconds = time.perf_counter() - started
    cell["per_second"] = messages * SUBSCRIBERS / seconds
    cell["cpu_us"] = (server.cpu_seconds() - before) / (messages * SUBSCRIBERS) * 1e6
    for listener in listeners:
        listener.close()
    return cell


def drain(listeners, expected_bytes):
    """Reads until each listener has had so many bytes."""
    selector = selectors.DefaultSelector()
    left = {}
    for listener in listeners:
        listener.setblocking(False)
        left[selector.register(listener, selectors.EVENT_READ).fd] = expected_bytes
    while left:
        for key, _ in selector.select(timeout=60):
            left[key.fd] -= len(key.fileobj.recv(1 << 16))
            if left[key.fd] <= 0:
                selector.unregister(key.fileobj)
                del left[key.fd]


def rate_limiter(pipeline):
    def measure(server, requests):
        server.cli("FLUSHALL")
        sha = server.cli("SCRIPT", "LOAD", RATE_LIMITER)
        words = ["EVALSHA", sha, "1", "user:__rand_int__", "100", "60000"]
        return generate(server, requests * pipeline // 4 if pipeline > 1 else requests, *words, pipeline=pipeline, random_keys=1000)
    return measure


def hand_off(server, requests):
    """LPUSH by fifty, BRPOP by fifty others; the rate is that of elements handed over."""
    server.cli("FLUSHALL")
    before, started = server.cpu_seconds(), time.perf_counter()
    pushes = {}
    pusher = threading.Thread(target=lambda: pushes.update(generate(server, requests, "LPUSH", "queue", "job")))
    pusher.start()
    pops = generate(server, requests, "BRPOP", "queue", "0")
    pusher.join()
    cpu = (server.cpu_seconds() - before) / requests * 1e6
    return {**pops, "per_second": requests / (time.perf_counter() - started), "cpu_us": cpu}


def geosearch(server, requests):
    server.cli("FLUSHALL")
    around = random.Random(17)
    places = [["GEOADD", "places", around.uniform(12.4, 14.4), around.uniform(51.5, 53.5), f"place:{number}"] for number in range(10_000)]
    pipelined(server, places)
    words = ["GEOSEARCH", "places", "FROMLONLAT", "13.4", "52.5", "BYRADIUS", "10", "km", "ASC", "COUNT", "10", "WITHDIST"]
    return generate(server, requests // 2, *words)


def idle_connections(server, requests):
    """GET by a hundred connections beside ten thousand that are silent."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(65536, resource.getrlimit(resource.RLIMIT_NOFILE)[1]),) * 2)
    if (answer := server.cli("CONFIG", "SET", "maxclients", str(IDLE_CONNECTIONS + 500))) != "OK":
        raise SystemExit(f"{server.name} does not take so many connections: {answer}")
    server.cli("SET", "key", "v" * 64)
    silent = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(IDLE_CONNECTIONS)]
    try:
        for connection in (silent[0], silent[-1]):
            connection.sendall(encode("PING"))
            if connection.recv(100) != b"+PONG\r\n":
                raise SystemExit("an idle connection is not served")
        return generate(server, requests, "GET", "key", clients=100)
    finally:
        for connection in silent:
            connection.close()


# name, clients, how it is measured
CELLS = [
    ("XADD MAXLEN ~", CLIENTS, xadd),
    ("XREADGROUP COUNT 1", CLIENTS, xreadgroup),
    ("PUBLISH to 100, deliveries", 1, publish),
    ("EVALSHA rate limiter", CLIENTS, rate_limiter(1)),
    ("EVALSHA rate limiter -P 16", CLIENTS, rate_limiter(16)),
    ("LPUSH and BRPOP, hand-offs", 2 * CLIENTS, hand_off),
    ("GEOSEARCH radius, nearest ten", CLIENTS, geosearch),
    ("GET beside 10,000 idle connections", 100, idle_connections),
]
