// Where the server under test listens; `python -m harness -- npm test` starts one and says so.
export const host = process.env.QUARTET_REDIS_HOST ?? "127.0.0.1";
export const port = Number(process.env.QUARTET_REDIS_PORT ?? 6379);

/** The files run one after another, each in a database of its own emptied first. */
export const databases = { ioredis: 1, nodeRedis: 2 };

/** Where REST listens; nowhere if the target is Redis itself. */
export const httpPort = Number(process.env.QUARTET_HTTP_PORT ?? 0);
export const readOnlyToken = process.env.QUARTET_REST_READ_ONLY_TOKEN;
