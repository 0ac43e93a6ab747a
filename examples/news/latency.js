// Latencies of one driver, warm or cold: bars of a tenth of a millisecond up to five, and percentiles of all of them.
import { createHistogram } from "node:perf_hooks";

export const BAR_MS = 0.1;
export const BARS = 50;
const PERCENTILES = [50, 75, 90, 95, 99, 99.9];

export class Latency {
  constructor() {
    this.histogram = createHistogram();
    this.bars = new Array(BARS).fill(0);
    this.beyond = 0;
  }

  record(nanoseconds) {
    this.histogram.record(Math.max(1, Math.round(nanoseconds)));
    const bar = Math.floor(nanoseconds / 1e6 / BAR_MS);
    if (bar < BARS) this.bars[bar] += 1;
    else this.beyond += 1;
  }

  summary() {
    const percentiles = PERCENTILES.map((percentile) => [percentile, this.histogram.percentile(percentile) / 1e6]);
    return { count: this.histogram.count, bars: this.bars, beyond: this.beyond, percentiles: this.histogram.count ? percentiles : [] };
  }
}
