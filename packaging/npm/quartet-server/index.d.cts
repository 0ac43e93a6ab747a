export interface StartOptions {
  /** Folder of the data, or "memory", the default: nothing is kept. */
  data?: string;
  /** More options of `quartet serve`. */
  arguments?: string[];
  /** More variables of the server's environment. */
  environment?: Record<string, string>;
  /** How long the server may take until it answers; 30,000 by default. */
  readyMilliseconds?: number;
}

export interface Quartet {
  /** `redis://127.0.0.1:PORT` */
  readonly redisUrl: string;
  /** Redis over REST, for `@upstash/redis`; also `/metrics`. */
  readonly restUrl: string;
  readonly restToken: string;
  /** The endpoint for AWS SDKs; any region and any key will do. */
  readonly dynamodbUrl: string;
  readonly faunaUrl: string;
  readonly faunaSecret: string;
  /** Path of a cluster file for clients of FoundationDB. */
  readonly clusterFile: string;
  /** All of these as the variables that the usual clients read (REDIS_URL, AWS_ENDPOINT_URL_DYNAMODB, ...). */
  readonly environment: Record<string, string>;
  readonly pid: number;
  /** Ends the server; without it the server ends with this process. */
  stop(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** Starts a server on free ports; resolves when it answers. */
export function startQuartet(options?: StartOptions): Promise<Quartet>;

/** The path of the server's binary; the variable QUARTET_BIN names another one. */
export function binary(): string;

/** The path of `libfdb_c`, which bindings of FoundationDB load: its folder goes into LD_LIBRARY_PATH. */
export function library(): string;
