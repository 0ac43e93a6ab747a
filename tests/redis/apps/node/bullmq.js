// BullMQ: every job that was accepted is completed.

import { Queue, Worker } from "bullmq";

import { done, patiently, port, until } from "./patience.js";

const JOBS = 200;
const connection = { host: "127.0.0.1", port, maxRetriesPerRequest: null, retryStrategy: () => 50 };
const completed = new Set();

const queue = new Queue("jobs", { connection });
const worker = new Worker("jobs", async (job) => job.data.number * 2, { connection, concurrency: 4, stalledInterval: 1000, lockDuration: 2000 });
queue.on("error", () => {});
worker.on("error", () => {});
worker.on("completed", (job, result) => completed.add(result / 2));

const ids = [];
for (let number = 0; number < JOBS; number++) {
  const job = await patiently(() => queue.add("double", { number }, { jobId: `job-${number}`, attempts: 3 }));
  ids.push(job.id);
  if (number === JOBS / 2) console.log("HALFWAY");
}
await until("all jobs are completed", async () => completed.size === JOBS || (await patiently(() => queue.getCompletedCount())) === JOBS);
const states = await Promise.all(ids.map((id) => patiently(() => queue.getJobState(id))));
if (states.some((state) => state !== "completed")) throw new Error(`states: ${new Set(states)}`);
done(`${JOBS} jobs completed`);
