// Tries again until the server is there again.

export const port = Number(process.argv[2]);

const MILLISECONDS_MAX = 180_000;

export const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

export async function patiently(work) {
  const deadline = Date.now() + MILLISECONDS_MAX;
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (Date.now() > deadline) throw error;
      await pause(50);
    }
  }
}

export async function until(what, holds) {
  const deadline = Date.now() + MILLISECONDS_MAX;
  while (!(await holds())) {
    if (Date.now() > deadline) throw new Error(`never: ${what}`);
    await pause(50);
  }
}

export function done(text) {
  console.log(`DONE ${text}`);
  process.exit(0);
}
