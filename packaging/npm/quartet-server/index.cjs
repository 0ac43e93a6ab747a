// Starts a Quartet server for a test or a development session, and ends it with the process that asked for it.
//
// The binary comes in a package of its own for each platform (optionalDependencies), so nothing is downloaded or compiled when
// this package is installed. The server's standard input is a pipe that this process holds: however this process ends,
// the pipe closes, and the server stops (`--stop-with-stdin`).
"use strict";

const { spawn } = require("node:child_process");
const { mkdtempSync, rmSync, writeFileSync } = require("node:fs");
const { tmpdir } = require("node:os");
const { join } = require("node:path");

const READY_MILLISECONDS = 30_000;
const LOG_LINES_KEPT = 40;

// Variables that applications have for their own server; ours would take its token from them.
const OF_THE_APPLICATION = /^(UPSTASH_REDIS_REST_TOKEN|KV_REST_API_(READ_ONLY_)?TOKEN|SRH_TOKEN)$/;

/** The path of the server's binary; QUARTET_BIN names another one. */
function binary() {
  return process.env.QUARTET_BIN || ofThePlatform("bin/quartet");
}

/** The path of `libfdb_c`, for bindings of FoundationDB: its folder goes into LD_LIBRARY_PATH. */
function library() {
  return ofThePlatform(process.platform === "darwin" ? "lib/libfdb_c.dylib" : "lib/libfdb_c.so");
}

function ofThePlatform(file) {
  const name = `quartet-server-${process.platform}-${process.arch}`;
  try {
    return require.resolve(`${name}/${file}`);
  } catch {
    throw new Error(
      `quartet-server has no binary for this machine: the package ${name} is not installed. ` +
        "It is an optional dependency, left out by --no-optional and --omit=optional; QUARTET_BIN may name a binary of your own.",
    );
  }
}

class Quartet {
  #child;
  #folder;
  #ended;

  constructor(child, folder, addresses) {
    this.#child = child;
    this.#folder = folder;
    this.#ended = new Promise((resolve) => child.once("close", resolve));
    Object.assign(this, addresses);
  }

  /** The addresses as the variables that the usual clients read. */
  get environment() {
    return {
      REDIS_URL: this.redisUrl,
      UPSTASH_REDIS_REST_URL: this.restUrl,
      UPSTASH_REDIS_REST_TOKEN: this.restToken,
      AWS_ENDPOINT_URL_DYNAMODB: this.dynamodbUrl,
      AWS_ENDPOINT_URL_DYNAMODB_STREAMS: this.dynamodbUrl,
      AWS_REGION: "us-east-1",
      AWS_ACCESS_KEY_ID: "quartet",
      AWS_SECRET_ACCESS_KEY: "quartet",
      FAUNA_ENDPOINT: this.faunaUrl,
      FAUNA_SECRET: this.faunaSecret,
      FDB_CLUSTER_FILE: this.clusterFile,
    };
  }

  get pid() {
    return this.#child.pid;
  }

  /** Ends the server; resolves when it is gone. */
  async stop() {
    this.#child.ref();
    this.#child.kill("SIGTERM");
    await this.#ended;
    rmSync(this.#folder, { recursive: true, force: true });
  }

  async [Symbol.asyncDispose ?? Symbol.for("Symbol.asyncDispose")]() {
    await this.stop();
  }
}

/** Starts a server on free ports of the loopback interface; resolves when it answers. */
async function startQuartet(options = {}) {
  const { data = "memory", arguments: more = [], environment = {}, readyMilliseconds = READY_MILLISECONDS } = options;
  const listeners = ["redis", "http", "dynamodb", "fauna", "keyvalue"].flatMap((name) => [`--listen-${name}`, "127.0.0.1:0"]);
  const child = spawn(binary(), ["serve", "--dev", "--stop-with-stdin", "--data", data, ...listeners, ...more], {
    stdio: ["pipe", "pipe", "pipe"],
    env: { ...ownEnvironment(), ...environment },
  });
  const addresses = await ready(child, readyMilliseconds);
  // A process that has nothing left to do but this server ends, and the server with it.
  for (const handle of [child, child.stdin, child.stdout, child.stderr]) handle.unref();
  const folder = mkdtempSync(join(tmpdir(), "quartet-"));
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
  addresses.clusterFile = join(folder, "fdb.cluster");
  writeFileSync(addresses.clusterFile, addresses.cluster + "\n", { mode: 0o600 });
  delete addresses.cluster;
  return new Quartet(child, folder, addresses);
}

function ownEnvironment() {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !OF_THE_APPLICATION.test(name)));
}

function ready(child, milliseconds) {
  return new Promise((resolve, reject) => {
    const log = [];
    const addresses = { faunaSecret: "secret" };
    const timer = setTimeout(() => fail(`was not ready within ${milliseconds} ms`), milliseconds);
    const fail = (reason) => {
      clearTimeout(timer);
      child.kill("SIGKILL");
      reject(new Error([`the Quartet server ${reason}`, ...log].join("\n")));
    };
    child.once("error", (error) => fail(`could not be started: ${error.message}`));
    child.once("close", (code, signal) => fail(`ended (${signal ?? code}) before it was ready`));
    // An end of the server closes the pipe; that is told by `close`.
    child.stdin.on("error", () => {});
    eachLine(child.stderr, (line) => {
      log.push(line);
      if (log.length > LOG_LINES_KEPT) log.shift();
    });
    eachLine(child.stdout, (line) => {
      if (line !== "ready") return note(addresses, line);
      clearTimeout(timer);
      resolve(addresses);
    });
  });
}

/** Takes an address from a line that the server prints when it starts. */
function note(addresses, line) {
  const [, listener, address] = /^(\w+)\s+(.*)$/.exec(line) ?? [];
  if (listener === "redis") addresses.redisUrl = address;
  if (listener === "http") addresses.restUrl = address;
  if (listener === "dynamodb") addresses.dynamodbUrl = address;
  if (listener === "fauna") addresses.faunaUrl = address;
  if (listener === "keyvalue") addresses.cluster = address;
  if (listener === "rest") addresses.restToken = /UPSTASH_REDIS_REST_TOKEN=(\S+)/.exec(address)?.[1];
}

/** Goes on reading after the last line of interest, so that the server never waits for its output to be taken. */
function eachLine(stream, take) {
  let rest = "";
  stream.setEncoding("utf8").on("data", (text) => {
    const lines = (rest + text).split("\n");
    rest = lines.pop();
    lines.forEach(take);
  });
}

module.exports = { startQuartet, binary, library };
