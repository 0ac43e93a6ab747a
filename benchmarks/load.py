"""Data larger than memory, written as fast as clients can: the row `load` of storage.py.

A server with the ssd engine and the options as shipped, in a control group of a budget, takes several times that as rows of 16 bytes' key and 100
bytes' value, keys in no order, through one of four protocols, from one client with pipelines or from many. Measured: replies that refuse,
processes that the kernel ended, the longest time without a row acknowledged, and the mean rate beside the pace of the flush itself, which is what
the flushes took from the log over the time that they took. Then the server lists all that it has, in its own order, and every row is compared.
Beside the load there may be backups, one after the other, each of which has to succeed, or a snapshot that somebody holds from the beginning. A cell
may have an end in time: then the report says how many times the budget had been written by then.
"""

import contextlib
import ctypes
import http.client
import json
import multiprocessing
import os
import random
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request

VALUE_BYTES = 100
BLOCK = "".join(random.Random(7).choices("0123456789abcdefghijklmnopqrstuvwxyz", k=1 << 16))


class Refused(Exception):
    pass


# Numbers are spread by multiplying with this, and found again by multiplying with its inverse.
SPREAD = 0x9E3779B97F4A7C15


def key(number):
    """16 characters; neighbours in number are none in order."""
    return f"{number * SPREAD % (1 << 64):016x}"


def number_of(key):
    return int(key, 16) * pow(SPREAD, -1, 1 << 64) % (1 << 64)


def value(number):
    start = number * 7919 % (len(BLOCK) - VALUE_BYTES)
    return BLOCK[start : start + VALUE_BYTES]


def connected(port):
    connection = socket.create_connection(("127.0.0.1", port), timeout=120)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection, connection.makefile("rb", 1 << 16)


class Redis:
    rows_at_once, listener, row_bytes = 500, "redis", 116

    def __init__(self, port):
        self.socket, self.file = connected(port)

    def begin(self):
        pass

    def send(self, numbers):
        self.socket.sendall("".join(f"*3\r\n$3\r\nSET\r\n$16\r\n{key(n)}\r\n${VALUE_BYTES}\r\n{value(n)}\r\n" for n in numbers).encode())

    def receive(self, numbers):
        for _ in numbers:
            line = self.file.readline()
            if line != b"+OK\r\n":
                raise Refused(line)

    def words(self):
        return [self.file.read(int(self.file.readline()[1:]) + 2)[:-2] for _ in range(int(self.file.readline()[1:]))]

    def everything(self):
        cursor = b"0"
        while True:
            self.socket.sendall(b"*4\r\n$4\r\nSCAN\r\n$%d\r\n%s\r\n$5\r\nCOUNT\r\n$4\r\n1000\r\n" % (len(cursor), cursor))
            assert self.file.readline() == b"*2\r\n"
            cursor = self.file.read(int(self.file.readline()[1:]) + 2)[:-2]
            if keys := self.words():
                self.socket.sendall(b"*%d\r\n$4\r\nMGET\r\n" % (len(keys) + 1) + b"".join(b"$%d\r\n%s\r\n" % (len(k), k) for k in keys))
                yield from zip(map(number_of, keys), map(bytes.decode, self.words()))
            if cursor == b"0":
                return


class Http:
    def __init__(self, port):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        self.connection.connect()
        self.connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, body, headers):
        self.connection.request("POST", "/", json.dumps(body).encode(), headers)
        response = self.connection.getresponse()
        reply = response.read()
        if response.status >= 400:
            raise Refused(response.status, reply[:300])
        return json.loads(reply)


class DynamoDb(Http):
    rows_at_once, listener, row_bytes = 25, "dynamodb", 118
    SIGNED = "AWS4-HMAC-SHA256 Credential=load/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host;x-amz-date, Signature=" + "0" * 64

    def operation(self, name, body):
        headers = {"x-amz-target": f"DynamoDB_20120810.{name}", "content-type": "application/x-amz-json-1.0", "authorization": self.SIGNED}
        return self.ask(body, headers | {"x-amz-date": time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())})

    def begin(self):
        schema = {"KeySchema": [{"AttributeName": "k", "KeyType": "HASH"}], "AttributeDefinitions": [{"AttributeName": "k", "AttributeType": "S"}]}
        self.operation("CreateTable", {"TableName": "load", "BillingMode": "PAY_PER_REQUEST", **schema})
        while self.operation("DescribeTable", {"TableName": "load"})["Table"]["TableStatus"] != "ACTIVE":
            time.sleep(0.1)

    def send(self, numbers):
        puts = [{"PutRequest": {"Item": {"k": {"S": key(n)}, "v": {"S": value(n)}}}} for n in numbers]
        answer = self.operation("BatchWriteItem", {"RequestItems": {"load": puts}})
        if answer.get("UnprocessedItems"):
            raise Refused(answer["UnprocessedItems"])

    def receive(self, numbers):
        pass

    def everything(self):
        start = {}
        while True:
            answer = self.operation("Scan", {"TableName": "load", **start})
            yield from ((number_of(item["k"]["S"]), item["v"]["S"]) for item in answer["Items"])
            if "LastEvaluatedKey" not in answer:
                return
            start = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}


class Fauna(Http):
    rows_at_once, listener, row_bytes = 100, "fauna", 120

    def query(self, body):
        return self.ask(body, {"authorization": "Bearer secret", "x-faunadb-api-version": "4"})["resource"]

    def begin(self):
        self.query({"create_collection": {"object": {"name": "load", "history_days": 0}}})

    def reference(self, number):
        return {"ref": {"collection": "load"}, "id": str(number * SPREAD % (1 << 62))}

    def send(self, numbers):
        data = lambda n: {"object": {"data": {"object": {"v": value(n)}}}}
        self.query({"do": [{"create": self.reference(n), "params": data(n)} for n in numbers] + [None]})

    def receive(self, numbers):
        pass

    def everything(self):
        inverse, after = pow(SPREAD, -1, 1 << 62), {}
        row = {"let": {"document": {"get": {"var": "r"}}}, "in": [{"select": ["ref", "id"], "from": {"var": "document"}}, {"select": ["data", "v"], "from": {"var": "document"}}]}
        while True:
            page = {"paginate": {"documents": {"collection": "load"}}, "size": 1000, **after}
            answer = self.query({"map": {"lambda": "r", "expr": row}, "collection": page})
            yield from ((int(id) * inverse % (1 << 62), value) for id, value in answer["data"])
            if "after" not in answer:
                return
            after = {"after": answer["after"]}


class KeyValue:
    """The protocol that our C library speaks (docs/keyvalue-protocol.md): a transaction of rows that reads nothing."""

    rows_at_once, listener, row_bytes = 200, "keyvalue", 116

    def __init__(self, port):
        self.socket, self.file = connected(port)
        self.socket.sendall(b"QuartKV1")
        self.ask(1, struct.pack("<H16s", 1, b""))

    def frame(self, code, body, number=1):
        return struct.pack("<IIB", 5 + len(body), number, code) + body

    def reply(self):
        length, _, failed = struct.unpack("<IIB", self.file.read(9))
        body = self.file.read(length - 5)
        if failed:
            raise Refused(struct.unpack("<H", body[:2]))
        return body

    def ask(self, code, body):
        self.socket.sendall(self.frame(code, body))
        return self.reply()

    def begin(self):
        pass

    def send(self, numbers):
        rows = b"".join(struct.pack("<BI16sI", 0, 16, key(n).encode(), VALUE_BYTES) + value(n).encode() for n in numbers)
        self.socket.sendall(self.frame(8, struct.pack("<QBBII", 0, 0, 0, 0, 0) + rows))

    def receive(self, numbers):
        self.reply()

    def version(self):
        return struct.unpack("<Q", self.ask(2, b""))[0]

    def get(self, version, number):
        body = self.ask(5, struct.pack("<QB", version, 0) + key(number).encode())
        return body[1:].decode() if body[0] else None

    def everything(self):
        selector = lambda key: struct.pack("<BiI", 0, 1, len(key)) + key
        start = b""
        while True:
            version = self.version()
            body = self.ask(7, struct.pack("<QIIBB", version, 2000, 1 << 20, 0, 0) + selector(start) + selector(b"\xff"))
            self.socket.sendall(self.frame(4, struct.pack("<Q", version)))
            at = 1
            while at < len(body):
                start, at = self.bytes_at(body, at)
                found, at = self.bytes_at(body, at)
                yield number_of(start), found.decode()
            if not body[0]:
                return
            start += b"\0"

    @staticmethod
    def bytes_at(body, at):
        begin = at + 4
        end = begin + struct.unpack_from("<I", body, at)[0]
        return body[begin:end], end


LAYERS = {"redis": Redis, "dynamodb": DynamoDb, "fauna": Fauna, "keyvalue": KeyValue}
# How many batches of rows a client with pipelines has on the way.
BATCHES_AHEAD = 4


class Server:
    def __init__(self, binary, data, prefix, options):
        command = [*prefix, binary, "serve", "--dev", "--engine", "ssd", "--data", data]
        command += [word for name in ("redis", "http", "dynamodb", "fauna", "keyvalue") for word in (f"--listen-{name}", "127.0.0.1:0")]
        self.log = open(os.path.join(os.path.dirname(data), "server.log"), "w")
        self.process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=self.log, text=True)
        self.ports = {}
        for line in self.process.stdout:
            if listening := re.match(r"(\w+)\s+\S*127\.0\.0\.1:(\d+)", line):
                self.ports[listening[1]] = int(listening[2])
            if line.strip() == "ready":
                return
        raise SystemExit("the server did not start: " + " ".join(command))

    def metrics(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.ports['http']}/metrics", timeout=60) as reply:
            rows = (line.rsplit(" ", 1) for line in reply.read().decode().splitlines() if line and line[0] != "#")
            return {name: float(number) for name, number in rows}

    def stop(self):
        self.process.terminate()
        try:
            return self.process.wait(120)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return None


def write(layer, port, share, deadline, done, refused):
    """One client: `share` are the numbers of its rows; how many are acknowledged stands in `done`. Nothing is sent after the deadline."""
    client = LAYERS[layer](port)
    # What HTTP's clients send waits for its answer.
    ahead, waiting = 1 if isinstance(client, Http) else BATCHES_AHEAD, []
    for first in range(0, len(share) + client.rows_at_once * ahead, client.rows_at_once):
        numbers = share[first : first + client.rows_at_once] if time.monotonic() < deadline else range(0)
        try:
            if numbers:
                client.send(numbers)
                waiting.append(numbers)
            while len(waiting) >= ahead or not numbers and waiting:
                client.receive(waiting[0])
                done.value += len(waiting.pop(0))
            if not numbers:
                return
        except Refused as reason:
            refused.value += 1
            print(f"refused: {reason}", file=sys.stderr)
            return


class Backups:
    """Whole backups, one after the other."""

    def __init__(self, binary, server, scratch):
        self.command = [binary, "backup", "--server", f"127.0.0.1:{server.ports['http']}", "--key", "dev", "--to"]
        self.scratch, self.count, self.failures = scratch, 0, []
        self.begin()

    def begin(self):
        self.target = tempfile.mkdtemp(prefix="backup-", dir=self.scratch)
        self.process = subprocess.Popen([*self.command, self.target], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def end(self):
        errors = self.process.communicate()[1]
        self.count += 1
        if self.process.returncode != 0:
            self.failures.append(errors[-500:])
        shutil.rmtree(self.target)

    def go_on(self):
        """Begins the next if the last has ended."""
        if self.process.poll() is not None:
            self.end()
            self.begin()

    def check(self):
        self.end()
        print(f"of {self.count} backups {len(self.failures)} failed", *self.failures[:1], file=sys.stderr)
        return len(self.failures)


class Snapshot:
    """A snapshot that is held."""

    def __init__(self, server):
        self.holder = KeyValue(server.ports["keyvalue"])
        self.version = self.holder.version()
        print(f"a snapshot at {self.version} is held", file=sys.stderr)

    def go_on(self):
        pass

    def check(self):
        with contextlib.suppress(Refused, OSError):
            return 0 if self.holder.get(self.version, 0) is None else 1
        return 0


class Nothing:
    def go_on(self):
        pass

    def check(self):
        return 0


def beside(arguments, what, server, scratch):
    """What goes on beside the load. `check` waits for its end, and returns how often it failed."""
    match what:
        case "snapshot":
            return Snapshot(server)
        case "backup":
            return Backups(arguments.binary, server, scratch)
    return Nothing()


def longest_wait(samples):
    """The longest time in seconds in which no row was acknowledged; `samples` are moments and counts."""
    longest, (since, count) = 0.0, samples[0]
    for moment, now in samples:
        if now > count:
            count, since = now, moment
        longest = max(longest, moment - since)
    return longest


def measured(arguments, scratch, layer, clients, megabytes, prefix, options, what="nothing", seconds_max=1e9):
    """Loads and verifies. The figures, by name."""
    rows = megabytes * 1_000_000 // LAYERS[layer].row_bytes
    data = os.path.join(scratch, "data")
    server = Server(arguments.binary, data, prefix, options)
    context = multiprocessing.get_context("fork")
    done = [context.Value(ctypes.c_uint64, lock=False) for _ in range(clients)]
    refused = context.Value(ctypes.c_uint64)
    try:
        port = server.ports[layer]
        LAYERS[layer](port).begin()
        before = server.metrics()
        share = lambda index: range(index * rows // clients, (index + 1) * rows // clients)
        other = beside(arguments, what, server, scratch)
        began, most = time.monotonic(), 0
        deadline = began + seconds_max
        writers = [context.Process(target=write, args=(layer, port, share(index), deadline, done[index], refused)) for index in range(clients)]
        for writer in writers:
            writer.start()
        samples = [(began, 0)]
        while any(writer.is_alive() for writer in writers):
            time.sleep(0.05)
            samples.append((time.monotonic(), sum(one.value for one in done)))
            most = max(most, anonymous_bytes(server.process.pid))
            other.go_on()
        # The last may have ended behind the last look.
        samples.append((time.monotonic(), sum(one.value for one in done)))
        took = time.monotonic() - began
        failed_beside = other.check()
        is_alive = server.process.poll() is None
        after = metrics_behind_a_flush(server, before) if is_alive else before
        written = [range(share(index).start, share(index).start + done[index].value) for index in range(clients)]
        wrong = verify(layer, port, rows, written) if is_alive else rows
    finally:
        status = server.stop()
    more = {name: after[name] - before.get(name, 0) for name in after}
    flush_seconds = more["quartet_store_flush_seconds_total"]
    pace = more["quartet_store_flushed_bytes_total"] / flush_seconds / 1e6 if flush_seconds else 0.0
    return {
        "rows": rows, "acknowledged": samples[-1][1], "megabytes": samples[-1][1] * LAYERS[layer].row_bytes / 1e6, "refused": refused.value, "wrong": wrong, "failed_beside": failed_beside, "ended": 0 if is_alive and status == 0 else 1,
        "longest_wait": longest_wait(samples), "seconds": took, "rows_per_second": samples[-1][1] / took,
        "rate": more["quartet_log_bytes_total"] / took / 1e6, "pace": pace, "memory": most,
    }


def metrics_behind_a_flush(server, before):
    """More is loaded than may wait for a flush. The one that has begun may last longer than the load."""
    ended, deadline = "quartet_store_flush_seconds_total", time.monotonic() + 60
    while (after := server.metrics())[ended] == before[ended] and time.monotonic() < deadline:
        time.sleep(0.05)
    return after


def anonymous_bytes(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/status") as status:
        return sum(int(line.split()[1]) * 1024 for line in status if line.startswith("RssAnon"))
    return 0


def verify(layer, port, rows, written):
    """How many rows are not what was written, are missing, or are there twice. `written`: ranges of numbers."""
    missing = bytearray(rows)
    for numbers in written:
        missing[numbers.start : numbers.stop] = b"\1" * len(numbers)
    wrong = 0
    for number, found in LAYERS[layer](port).everything():
        is_right = number < rows and missing[number] and found == value(number)
        if is_right:
            missing[number] = 0
        wrong += not is_right
    return wrong + sum(missing)


def load(arguments, scratch, row, limited):
    """The rows of the report. `row` makes one, `limited` a control group."""
    found = []
    for mebibytes in arguments.load_mebibytes:
        for layer in arguments.load_layers:
            for clients in arguments.load_clients:
                for what in arguments.load_beside:
                    with tempfile.TemporaryDirectory(dir=scratch) as place, limited(mebibytes) as (prefix, is_limited):
                        # The budget that a group of that size would give.
                        options = [] if is_limited else ["--memory-bytes", str((mebibytes << 20) // 5 * 4)]
                        options += ["--keyvalue-read-seconds", "3600"] if what == "snapshot" else []
                        megabytes = max(1, int(mebibytes * arguments.load_factor))
                        told = measured(arguments, place, layer, clients, megabytes, prefix, options, what, arguments.load_seconds)
                    name = f"{layer}, {clients} clients, {told['megabytes']:.0f} MB in {mebibytes} MiB" + (f", beside {what}" if what != "nothing" else "")
                    share = told["rate"] / told["pace"] if told["pace"] else 1.0
                    found += [
                        row(f"{name}: refused, ended by the kernel, wrong rows, failed beside", told["refused"], told["acknowledged"], told["refused"] + told["ended"] + told["wrong"] + told["failed_beside"], 0, "at most"),
                        row(f"{name}: longest seconds without progress", round(told["longest_wait"], 2), "", told["longest_wait"], 1.0, "at most"),
                        row(f"{name}: MB/s of the log (beside: the flush's own)", round(told["rate"], 1), round(told["pace"], 1), share, 0.8, "at least"),
                        row(f"{name}: rows/s (beside: most MiB of memory)", round(told["rows_per_second"]), told["memory"] >> 20, told["rows_per_second"], None, "at least"),
                    ]
                    print(found[-4:], file=sys.stderr, flush=True)
    return found
