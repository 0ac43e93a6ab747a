"""Early versions of Redis 5 wrote streams whose recorded length is not the number of entries that are left.

Reported with dump-stream1.rdb in the tests of redis-replicator (a stream says 120 entries and holds 118). Redis takes such payloads, also
with sanitize-dump-payload yes; here RESTORE answered "Bad data format", and an import left the stream out.
"""

from __future__ import annotations

import pytest


def checksum(payload: bytes) -> bytes:
    """CRC-64 of Jones, reflected, as DUMP has it."""
    value = 0
    for byte in payload:
        value ^= byte
        for _ in range(8):
            value = (value >> 1) ^ (0x95AC9329AC4BC9B5 if value & 1 else 0)
    return value.to_bytes(8, "little")


@pytest.mark.parametrize("said", [0, 3, 7])
def test_the_entries_of_a_stream_are_counted(server, said):
    import redis

    with redis.Redis(port=server.port) as client:
        client.delete("stream", "restored")
        for number in range(1, 6):
            client.xadd("stream", {"field": "value"}, id=f"{number}-1")
        client.xgroup_create("stream", "group", "3-1")
        dumped = client.dump("stream")
        assert checksum(dumped[:-8]) == dumped[-8:]
        # Length 5, last ID 5-1, first ID 1-1.
        at = dumped.rindex(b"\x05\x05\x01\x01\x01")
        body = dumped[:at] + bytes([said]) + dumped[at + 1 : -8]
        assert client.restore("restored", 0, body + checksum(body)) == b"OK"
        entries = client.xrange("restored")
        assert [entry for entry, _ in entries] == [f"{number}-1".encode() for number in range(1, 6)]
        assert client.xadd("restored", {"field": "value"}, id="6-1") == b"6-1"
        assert len(client.xreadgroup("group", "consumer", {"restored": ">"})[0][1]) == 3
