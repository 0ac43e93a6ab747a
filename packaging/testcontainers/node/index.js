// A Quartet server in a container, with its data in memory. It makes a root key of its own and prints it once; this module
// reads it from the container's output and puts it into every address.
"use strict";

const { AbstractStartedContainer, GenericContainer, Wait } = require("testcontainers");

const PORTS = { redis: 6379, rest: 8080, dynamodb: 8000, fauna: 8443, keyvalue: 4500 };
const ACCESS_KEY = { accessKeyId: "quartet", secretAccessKey: "quartet-secret" };
const ROOT_KEY = /root key, shown this once: (\S+)/;

class QuartetContainer extends GenericContainer {
  constructor(image = "quartet/quartet:0.1.0") {
    super(image);
    this.withExposedPorts(...Object.values(PORTS))
      .withCommand(["serve", "--data", "memory"])
      .withEnvironment({ QUARTET_DYNAMODB_ACCESS_KEYS: `${ACCESS_KEY.accessKeyId}:${ACCESS_KEY.secretAccessKey}` })
      .withWaitStrategy(Wait.forHttp("/readyz", PORTS.rest));
  }

  async start() {
    const started = await super.start();
    return new StartedQuartetContainer(started, await rootKey(await started.logs()));
  }
}

class StartedQuartetContainer extends AbstractStartedContainer {
  constructor(started, key) {
    super(started);
    this.key = key;
  }

  getRedisUrl() {
    return `redis://:${this.key}@${this.#address("redis")}`;
  }

  getRestUrl() {
    return `http://${this.#address("rest")}`;
  }

  getRestToken() {
    return this.key;
  }

  getDynamodbUrl() {
    return `http://${this.#address("dynamodb")}`;
  }

  getDynamodbCredentials() {
    return ACCESS_KEY;
  }

  getFaunaUrl() {
    return `http://${this.#address("fauna")}`;
  }

  getFaunaSecret() {
    return this.key;
  }

  /** The line of a cluster file for clients of FoundationDB. */
  getCluster() {
    return `quartet:${this.key}@${this.#address("keyvalue")}`;
  }

  #address(layer) {
    return `${this.getHost()}:${this.getMappedPort(PORTS[layer])}`;
  }
}

/** The key stands in the output before the server says that it is ready. */
function rootKey(log) {
  return new Promise((resolve, reject) => {
    let text = "";
    log.on("data", (more) => {
      text += more;
      const found = ROOT_KEY.exec(text);
      if (found) resolve(found[1]);
    });
    log.once("end", () => reject(new Error(`the server printed no root key:\n${text}`)));
    log.once("error", reject);
  }).finally(() => log.destroy());
}

module.exports = { QuartetContainer, StartedQuartetContainer, rootKey };
