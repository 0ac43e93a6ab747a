// Upstash's rate limiter, whose scripts declare a flag of Upstash's own. They failed on every call once.
//
// The windows are so long that none ends within a test.

import assert from "node:assert/strict";
import { beforeEach, describe, test } from "node:test";

import { IpDenyList, Ratelimit } from "@upstash/ratelimit";
import { Redis } from "@upstash/redis";

import { httpPort } from "./target.js";

const WINDOW = "1000 w";
const LIMITERS = {
  "fixed window": Ratelimit.fixedWindow(5, WINDOW),
  "sliding window": Ratelimit.slidingWindow(5, WINDOW),
  "token bucket": Ratelimit.tokenBucket(5, WINDOW, 5),
  "cached fixed window": Ratelimit.cachedFixedWindow(5, WINDOW),
};

describe("@upstash/ratelimit", { skip: !httpPort }, () => {
  const redis = new Redis({ url: `http://127.0.0.1:${httpPort}`, token: "dev", enableTelemetry: false, retry: false });
  const limiting = (limiter, options = {}) =>
    new Ratelimit({ redis, limiter, timeout: 0, enableTelemetry: false, ephemeralCache: false, ...options });
  beforeEach(() => redis.flushall());

  for (const [name, limiter] of Object.entries(LIMITERS)) {
    test(`${name}: as many as allowed, and again after a reset`, async () => {
      // The cached window lives in the limiter itself.
      const ratelimit = limiting(limiter, name.startsWith("cached") ? { ephemeralCache: new Map() } : {});
      const answers = [];
      for (let call = 0; call < 7; call++) {
        const answer = await ratelimit.limit("somebody");
        await answer.pending;
        answers.push([answer.success, answer.limit, answer.remaining]);
      }
      const left = [4, 3, 2, 1, 0].map((remaining) => [true, 5, remaining]);
      assert.deepEqual(answers.slice(0, 5), left);
      assert.deepEqual(answers.slice(5).map(([success]) => success), [false, false]);
      assert.equal((await ratelimit.limit("somebody else")).success, true);
      if (!name.startsWith("cached")) assert.equal((await ratelimit.getRemaining("somebody")).remaining, 0);
      await ratelimit.resetUsedTokens("somebody");
      assert.equal((await ratelimit.getRemaining("somebody")).remaining, 5);
      assert.deepEqual((await ratelimit.limit("somebody")).remaining, 4);
    });
  }

  test("many at once get no more than is allowed", async () => {
    for (const limiter of [LIMITERS["fixed window"], LIMITERS["sliding window"], LIMITERS["token bucket"]]) {
      await redis.flushall();
      const ratelimit = limiting(limiter);
      const answers = await Promise.all(Array.from({ length: 40 }, () => ratelimit.limit("somebody")));
      assert.equal(answers.filter((answer) => answer.success).length, 5);
    }
  });

  test("a request may cost more than one, and a limit may be changed at run time", async () => {
    const ratelimit = limiting(LIMITERS["fixed window"], { dynamicLimits: true });
    assert.equal((await ratelimit.limit("somebody", { rate: 4 })).remaining, 1);
    assert.equal((await ratelimit.limit("somebody", { rate: 4 })).success, false);
    await ratelimit.setDynamicLimit({ limit: 10 });
    assert.deepEqual(await ratelimit.getDynamicLimit(), { dynamicLimit: 10 });
    assert.equal((await ratelimit.limit("somebody else", { rate: 4 })).remaining, 6);
  });

  test("whoever is refused is remembered, and a list denies", async () => {
    const ratelimit = limiting(LIMITERS["fixed window"], { ephemeralCache: new Map(), enableProtection: true });
    // The list of addresses that everybody should refuse would be fetched from elsewhere.
    await IpDenyList.disableIpDenyList(redis, "@upstash/ratelimit");
    await redis.sadd("@upstash/ratelimit:denyList:all", "6.6.6.6");
    const denied = await ratelimit.limit("somebody", { ip: "6.6.6.6" });
    assert.deepEqual([denied.success, denied.reason, denied.deniedValue], [false, "denyList", "6.6.6.6"]);
    assert.equal((await ratelimit.limit("somebody else", { ip: "1.1.1.1", rate: 5 })).success, true);
    await ratelimit.limit("somebody else");
    assert.equal((await ratelimit.limit("somebody else")).reason, "cacheBlock");
  });
});
