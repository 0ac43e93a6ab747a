// One sorted set a section: a member is an article, its score the number of views. Through ioredis.
import Redis from "ioredis";

const key = (section) => `news:${section}`;
export const member = ({ view_count, ...article }) => JSON.stringify(article);

export class RedisStore {
  constructor(server) {
    this.redis = new Redis(server.redisUrl, { maxRetriesPerRequest: 1 });
  }

  async load(articles) {
    const pipeline = this.redis.pipeline();
    for (const article of articles) pipeline.zadd(key(article.section), article.view_count, member(article));
    await pipeline.exec();
  }

  /** The ten most viewed, best first. */
  async top(section) {
    const flat = await this.redis.zrevrange(key(section), 0, 9, "WITHSCORES");
    return Array.from({ length: flat.length / 2 }, (_, index) => ({ ...JSON.parse(flat[2 * index]), view_count: Number(flat[2 * index + 1]) }));
  }

  async rescore(article, views) {
    await this.redis.zadd(key(article.section), views, member(article));
  }

  async close() {
    this.redis.disconnect();
  }
}
