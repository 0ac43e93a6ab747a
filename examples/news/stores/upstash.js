// The same sorted sets, over REST, through @upstash/redis: what one driver writes the other reads.
import { Redis } from "@upstash/redis";
import { request } from "node:http";
import { json } from "node:stream/consumers";
import { member } from "./redis.js";

const key = (section) => `news:${section}`;

export class UpstashStore {
  constructor(server, { isCold = false } = {}) {
    const warm = { url: server.restUrl, token: server.restToken, enableTelemetry: false };
    this.redis = new Redis(isCold ? new ConnectionEachTime(server) : warm);
  }

  /** The sorted sets are loaded once, by the other driver. */
  async load() {}

  /** The driver itself turns the members back into articles. */
  async top(section) {
    const flat = await this.redis.zrange(key(section), 0, 9, { rev: true, withScores: true });
    return Array.from({ length: flat.length / 2 }, (_, index) => ({ ...flat[2 * index], view_count: Number(flat[2 * index + 1]) }));
  }

  async rescore(article, views) {
    await this.redis.zadd(key(article.section), { score: views, member: member(article) });
  }

  async close() {}
}

/** Node's `fetch` keeps its connections for everybody, so that a new client would find a warm one. */
class ConnectionEachTime {
  readYourWrites = false;

  constructor(server) {
    this.server = server;
  }

  request({ body }) {
    const headers = { authorization: `Bearer ${this.server.restToken}`, "content-type": "application/json" };
    return new Promise((resolve, reject) => {
      const asked = request(this.server.restUrl, { method: "POST", agent: false, headers }, (response) => json(response).then(resolve, reject));
      asked.once("error", reject);
      asked.end(JSON.stringify(body));
    });
  }
}
