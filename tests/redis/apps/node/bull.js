// Bull: every job that was accepted is completed.

import Queue from "bull";

import { done, patiently, port, until } from "./patience.js";

const JOBS = 150;
const redis = { host: "127.0.0.1", port, maxRetriesPerRequest: null, enableReadyCheck: false, retryStrategy: () => 50 };
const queue = new Queue("jobs", { redis, settings: { stalledInterval: 1000, lockDuration: 2000, maxStalledCount: 3 } });
queue.on("error", () => {});
queue.process(4, async (job) => job.data.number * 2);

const ids = [];
for (let number = 0; number < JOBS; number++) {
  const job = await patiently(() => queue.add({ number }, { jobId: `job-${number}`, attempts: 3 }));
  ids.push(job.id);
  if (number === Math.floor(JOBS / 2)) console.log("HALFWAY");
}
await until("all jobs are completed", async () => (await patiently(() => queue.getCompletedCount())) === JOBS);
const jobs = await Promise.all(ids.map((id) => patiently(() => queue.getJob(id))));
if (jobs.some((job) => job === null || job.returnvalue !== job.data.number * 2)) throw new Error("a job is gone, or its result");
done(`${JOBS} jobs completed`);
