// A collection with an index over sections, ordered by view count, as published. Through the `faunadb` driver.
import faunadb from "faunadb";

const q = faunadb.query;
const COLLECTION = "news";
const INDEX = "section_by_view_count";
const BATCH = 500;

export class FaunaStore {
  constructor(server) {
    const { hostname: domain, port, protocol } = new URL(server.faunaUrl);
    this.client = new faunadb.Client({ secret: server.faunaSecret, domain, port: Number(port), scheme: protocol.slice(0, -1), checkNewVersion: false });
  }

  async load(articles) {
    await this.client.query(q.CreateCollection({ name: COLLECTION }));
    await this.client.query(
      q.CreateIndex({
        name: INDEX,
        source: q.Collection(COLLECTION),
        serialized: false,
        terms: [{ field: ["data", "section"] }],
        values: [{ field: ["data", "view_count"], reverse: true }, { field: ["ref"] }],
      }),
    );
    for (let start = 0; start < articles.length; start += BATCH) {
      const create = q.Lambda("a", q.Create(q.Ref(q.Collection(COLLECTION), q.Select("id", q.Var("a"))), { data: q.Var("a") }));
      await this.client.query(q.Foreach(articles.slice(start, start + BATCH), create));
    }
  }

  async top(section) {
    const page = q.Paginate(q.Match(q.Index(INDEX), section), { size: 10 });
    const told = await this.client.query(q.Map(page, q.Lambda(["view_count", "X"], q.Get(q.Var("X")))));
    return told.data.map((document) => document.data);
  }

  async rescore(article, views) {
    await this.client.query(q.Update(q.Ref(q.Collection(COLLECTION), article.id), { data: { view_count: views } }));
  }

  async close() {
    this.client.close();
  }
}
