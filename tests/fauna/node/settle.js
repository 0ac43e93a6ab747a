// FaunaDB's JavaScript driver at nodes of a cluster whose home fails: three clients at each address, each with one query at a time. For
// each line of the input it says, of each client, how many queries have settled, how many of them well, and how long the present one
// has been without an answer. Started by tests/cluster/outages.py.
import { createInterface } from "node:readline";
import faunadb from "faunadb";

const q = faunadb.query;
const [secret, ...addresses] = process.argv.slice(2);
const clients = addresses.flatMap((address) => {
  const [domain, port] = address.split(":");
  const connect = () => new faunadb.Client({ secret, domain, port: Number(port), scheme: "http", http2SessionIdleTime: 0 });
  return [1, 2, 3].map(() => ({ address, client: connect(), settled: 0, answered: 0, began: Date.now() }));
});
const ask = async (one) => {
  for (;;) {
    one.began = Date.now();
    try {
      await one.client.query(q.Add(1, 2));
      one.answered += 1;
    } catch {
      // It has settled.
    }
    one.settled += 1;
    one.began = Date.now();
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
};
clients.forEach(ask);
for await (const _ of createInterface({ input: process.stdin })) {
  const told = ({ address, settled, answered, began }) => ({ address, settled, answered, waits: (Date.now() - began) / 1000 });
  console.log(JSON.stringify(clients.map(told)));
}
process.exit(0);
