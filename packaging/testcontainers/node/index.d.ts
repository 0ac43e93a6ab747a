import { AbstractStartedContainer, GenericContainer, StartedTestContainer } from "testcontainers";
import { Readable } from "node:stream";

export declare class QuartetContainer extends GenericContainer {
  constructor(image?: string);
  start(): Promise<StartedQuartetContainer>;
}

export declare class StartedQuartetContainer extends AbstractStartedContainer {
  constructor(started: StartedTestContainer, key: string);
  getRedisUrl(): string;
  getRestUrl(): string;
  getRestToken(): string;
  getDynamodbUrl(): string;
  getDynamodbCredentials(): { accessKeyId: string; secretAccessKey: string };
  getFaunaUrl(): string;
  getFaunaSecret(): string;
  /** The line of a cluster file for clients of FoundationDB. */
  getCluster(): string;
}

export declare function rootKey(log: Readable): Promise<string>;
