"""Upstash's rate limiter for Python, over REST. Its scripts declare a flag of Upstash's own, and failed on every call once.

The windows are so long that none ends within a test.
"""

from __future__ import annotations

import asyncio

import pytest
from harness.server import Server
from upstash_ratelimit import FixedWindow, Ratelimit, SlidingWindow, TokenBucket
from upstash_ratelimit.asyncio import Ratelimit as AsyncRatelimit
from upstash_redis import Redis
from upstash_redis.asyncio import Redis as AsyncRedis

pytestmark = pytest.mark.quartet_only

WEEK = 7 * 24 * 3600
LIMITERS = {
    "fixed": FixedWindow(max_requests=5, window=1000 * WEEK),
    "sliding": SlidingWindow(max_requests=5, window=1000 * WEEK),
    "bucket": TokenBucket(max_tokens=5, refill_rate=1, interval=1000 * WEEK),
}


@pytest.fixture(scope="module")
def url():
    server = Server().start()
    yield f"http://127.0.0.1:{server.http_port}"
    server.close()


@pytest.mark.parametrize("name", LIMITERS)
def test_as_many_as_allowed_and_again_after_a_reset(url, name):
    redis = Redis(url=url, token="dev", allow_telemetry=False)
    redis.flushall()
    ratelimit = Ratelimit(redis=redis, limiter=LIMITERS[name])
    assert ratelimit.get_remaining("somebody") == 5
    answers = [ratelimit.limit("somebody") for _ in range(7)]
    assert [answer.allowed for answer in answers] == [True] * 5 + [False] * 2
    assert [answer.remaining for answer in answers[:5]] == [4, 3, 2, 1, 0]
    assert {answer.limit for answer in answers} == {5}
    assert ratelimit.get_remaining("somebody") == 0
    assert ratelimit.get_reset("somebody") > 0
    assert ratelimit.limit("somebody else", rate=3).remaining == 2
    redis.flushall()
    assert ratelimit.get_remaining("somebody") == 5
    assert ratelimit.limit("somebody").allowed


@pytest.mark.parametrize("name", LIMITERS)
def test_many_at_once_get_no_more_than_is_allowed(url, name):
    async def at_once() -> int:
        async with AsyncRedis(url=url, token="dev", allow_telemetry=False) as redis:
            await redis.flushall()
            ratelimit = AsyncRatelimit(redis=redis, limiter=LIMITERS[name])
            answers = await asyncio.gather(*(ratelimit.limit("somebody") for _ in range(40)))
            return sum(answer.allowed for answer in answers)

    assert asyncio.run(at_once()) == 5
