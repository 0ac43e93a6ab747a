// rate-limiter-flexible: what was granted stays counted, so that a restart gives nobody more than the limit.

import { Redis } from "ioredis";
import { RateLimiterRedis, RateLimiterRes } from "rate-limiter-flexible";

import { done, pause, port } from "./patience.js";

const POINTS = 200;
const storeClient = new Redis({ host: "127.0.0.1", port, enableOfflineQueue: false, maxRetriesPerRequest: 0, retryStrategy: () => 50 });
storeClient.on("error", () => {});
const limiter = new RateLimiterRedis({ storeClient, points: POINTS, duration: 600, keyPrefix: "limit" });

let granted = 0;
let refused = 0;
let failed = 0;
while (refused < 5) {
  try {
    const answer = await limiter.consume("somebody");
    granted += 1;
    // What failed may have been counted or not.
    if (answer.consumedPoints < granted || answer.consumedPoints > granted + failed) throw new Error(`${answer.consumedPoints} counted, ${granted} granted`);
    if (granted === POINTS / 2) console.log("HALFWAY");
  } catch (refusal) {
    if (refusal instanceof RateLimiterRes) {
      refused += 1;
    } else if (refusal.message?.includes("granted")) {
      throw refusal;
    } else {
      failed += 1;
      if (failed > 2000) throw refusal;
      await pause(20);
    }
  }
}
if (granted > POINTS || granted + failed < POINTS) throw new Error(`${granted} granted, ${failed} unknown, ${POINTS} allowed`);
done(`${granted} granted of ${POINTS}`);
