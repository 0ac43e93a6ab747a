// The comparison of 2021 that this application follows, as it was published. Never measured here.

export const CIRCUMSTANCES =
  "Published in 2021, not measured here: calls from AWS Lambda functions (1 GB, us-west-1) to hosted databases on undisclosed hardware, cold starts and reconnects included.";

/** 99th percentile, and where it was told the usual time of a warm call, in milliseconds; all approximate. */
export const PUBLISHED = [
  { system: "Upstash", p99: 50, warm: 1 },
  { system: "DynamoDB", p99: 200, warm: 7 },
  { system: "FaunaDB", p99: 900, warm: null },
];
