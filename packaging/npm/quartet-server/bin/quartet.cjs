#!/usr/bin/env node
// `npx quartet-server serve --dev`: the binary itself, with its output, its signals and its exit code.
"use strict";

const { spawn } = require("node:child_process");
const { constants } = require("node:os");
const { binary } = require("../index.cjs");

const child = spawn(binary(), process.argv.slice(2), { stdio: "inherit" });
for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"]) process.on(signal, () => child.kill(signal));
child.once("error", (error) => {
  console.error(error.message);
  process.exit(127);
});
child.once("exit", (code, signal) => process.exit(code ?? 128 + constants.signals[signal]));
