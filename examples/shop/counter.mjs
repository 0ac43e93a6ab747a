// The counter of the shop, with redis.search of @upstash/redis over REST: another index over the
// keys that `shop.py` writes and searches. Either finds what the other writes from the reply on.
//
//     node counter.mjs search "runing shose" 100
//     node counter.mjs report
//     node counter.mjs restock w5 10
import { createRequire } from "node:module";

// An application has it installed beside it, and imports it.
const { Redis, s } = createRequire(import.meta.url)("@upstash/redis");

const redis = Redis.fromEnv();
const schema = s.object({
  name: s.string(),
  text: s.string(),
  brand: s.keyword(),
  colors: s.string().noStem(),
  price: s.number("F64"),
  stock: s.number("U64"),
});

/** Makes the index unless it is there, and waits until the keys before it are in it. */
async function open() {
  const index = await redis.search.createIndex({ name: "counter", dataType: "hash", prefix: "ware:", schema, existsOk: true });
  await index.waitIndexing();
  return index;
}

/** What is in stock and is called so, misspelt or not; the best first. */
async function search(words, max = "1000000") {
  const index = await open();
  const isCalledSo = { $or: [{ name: { $smart: words, $boost: 3 } }, { text: { $smart: words } }] };
  const filter = { $must: [isCalledSo, { stock: { $gt: 0 } }, { price: { $lte: Number(max) } }] };
  const found = await index.query({ filter, select: { name: true, price: true }, limit: 5 });
  return found.map(({ key, data }) => ({ ware: key, ...data }));
}

/** Wares, pieces in stock and the highest price of each brand; wares by price; all pieces. */
async function report() {
  const index = await open();
  const { brands, prices, pieces } = await index.aggregate({
    aggregations: {
      brands: { $terms: { field: "brand" }, $aggs: { stock: { $sum: { field: "stock" } }, dearest: { $max: { field: "price" } } } },
      prices: { $range: { field: "price", ranges: [{ to: 50 }, { from: 50, to: 100 }, { from: 100 }] } },
      pieces: { $sum: { field: "stock" } },
    },
  });
  return {
    brands: brands.buckets.map(({ key, docCount, stock, dearest }) => ({ brand: key, wares: docCount, stock: stock.value, dearest: dearest.value })),
    prices: Object.fromEntries(prices.buckets.map(({ key, docCount }) => [key, docCount])),
    pieces: pieces.value,
  };
}

/** Returns how many there are then. */
const restock = (ware, pieces) => redis.hincrby(`ware:${ware}`, "stock", Number(pieces));

const ACTS = { search, report, restock };
const [name, ...given] = process.argv.slice(2);
if (!Object.hasOwn(ACTS, name ?? "")) {
  console.error("node counter.mjs search WORDS [MAX] | report | restock WARE PIECES");
  process.exit(2);
}
console.log(JSON.stringify(await ACTS[name](...given)));
