"""The part `capacity` of cluster.py: processor time of each process for a strict read at a node that is not home."""

import contextlib
import multiprocessing
import socket
import time

from tables import row

# Requests of one connection, one after the other.
READS = 4_000
TABLE = "capacity"


def request(node, operation, body):
    """A request of DynamoDB. Nodes that are started with --dev accept any signature."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    head = [
        "POST / HTTP/1.1",
        f"Host: {node.host}:{node.dynamodb_port}",
        "Content-Type: application/x-amz-json-1.0",
        f"X-Amz-Target: DynamoDB_20120810.{operation}",
        f"X-Amz-Date: {stamp}",
        f"Authorization: AWS4-HMAC-SHA256 Credential=any/{stamp[:8]}/us-east-1/dynamodb/aws4_request, SignedHeaders=host;x-amz-date, Signature=00",
        f"Content-Length: {len(body)}",
    ]
    return ("\r\n".join(head) + "\r\n\r\n" + body).encode()


def answer(connection):
    """The status of an answer; its body is read."""
    text = b""
    while b"\r\n\r\n" not in text:
        text += connection.recv(65536) or exit("a node has closed a connection")
    head, body = text.split(b"\r\n\r\n", 1)
    length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length"))
    while len(body) < length:
        body += connection.recv(65536)
    return int(head.split(b" ", 2)[1])


def send(node, operation, body):
    with socket.create_connection((node.host, node.dynamodb_port), 60) as connection:
        connection.sendall(request(node, operation, body))
        return answer(connection)


def client(host, port, sent, connections, rounds, durations):
    """Each round a request on each connection, and then its answers: as many are waiting at a time."""
    took = []
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(socket.create_connection((host, port), 60)) for _ in range(connections)]
        for _ in range(rounds):
            began = time.perf_counter()
            for connection in opened:
                connection.sendall(sent)
            for connection in opened:
                assert answer(connection) == 200
            took.append(time.perf_counter() - began)
    durations.put(took)


def read(node, connections):
    """Reads at a node: their number, and the median of seconds for a round."""
    body = f'{{"TableName":"{TABLE}","Key":{{"id":{{"S":"a"}}}},"ConsistentRead":true}}'
    rounds, durations = max(READS // connections, 100), multiprocessing.Queue()
    arguments = (node.host, node.dynamodb_port, request(node, "GetItem", body), connections, rounds, durations)
    process = multiprocessing.Process(target=client, args=arguments)
    process.start()
    took = sorted(durations.get())
    process.join()
    return rounds * connections, took[len(took) // 2]


def used(processes):
    return [time.clock_gettime(~pid << 3 | 2) for pid in processes]


def capacity(arguments, cluster, bare, plot):
    home = cluster.home()
    follower = cluster.others()[0]
    table = f'{{"TableName":"{TABLE}","KeySchema":[{{"AttributeName":"id","KeyType":"HASH"}}],"BillingMode":"PAY_PER_REQUEST",'
    table += '"AttributeDefinitions":[{"AttributeName":"id","AttributeType":"S"}]}'
    assert send(home, "CreateTable", table) == 200
    assert send(home, "PutItem", f'{{"TableName":"{TABLE}","Item":{{"id":{{"S":"a"}},"value":{{"N":"1"}}}}}}') == 200
    # A follower learns a second after a change of home how that acknowledges writes.
    time.sleep(3)
    etcd = [process.pid for process in cluster.etcd.processes]
    rows = []
    for connections in (1, 8, 100):
        sides = {}
        for name, node in (("home", home), ("follower", follower)):
            read(node, connections)
            before, answered = used([home.pid, follower.pid, *etcd]), node.metrics()["quartet_replica_reads_total"]
            count, median = read(node, connections)
            after, answered = used([home.pid, follower.pid, *etcd]), node.metrics()["quartet_replica_reads_total"] - answered
            each = [(late - early) / count * 1e6 for early, late in zip(before, after)]
            sides[name] = (each[0], each[1], sum(each[2:]), median * 1e3, answered / count)
        home_us, own_us, etcd_us, median, share = sides["follower"]
        assert share == 1, f"{share} of the reads were answered at the follower"
        what = f"GetItem at a follower, {connections} waiting"
        rows += [
            row(f"{what}: CPU of the home, us a read", round(home_us, 2), round(sides["home"][0], 1), home_us, 1, "at most"),
            row(f"{what}: CPU of etcd's members together, us a read (beside: of a read at the home)", round(etcd_us, 1), round(sides["home"][2], 1), etcd_us, 5, "at most"),
            row(f"{what}: CPU of the follower, us a read (beside: of the home for its own)", round(own_us, 1), round(sides["home"][0], 1), own_us / sides["home"][0], None, ""),
        ]
        if connections == 1:
            rows.append(row(f"{what}: p50, ms (beside: at the home)", round(median, 2), round(sides["home"][3], 2), median / sides["home"][3], 1.2, "at most"))
    return rows
