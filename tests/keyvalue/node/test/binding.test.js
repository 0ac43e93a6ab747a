// FoundationDB's Node binding, unmodified, on our libfdb_c.so.

import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import fdb from 'foundationdb'

fdb.setAPIVersion(720)
const database = fdb.open()
after(() => database.close())

/** A subspace of the test's own, empty. */
async function space(name) {
  const own = database.at(fdb.tuple.pack(['node', name])).withKeyEncoding(fdb.encoders.tuple).withValueEncoding(fdb.encoders.json)
  await own.clearRangeStartsWith([])
  return own
}

test('rows come in the order of their tuples', async () => {
  const own = await space('rows')
  await own.doTn(async (tn) => {
    for (let number = 0; number < 1000; number++) tn.set([number], { number })
    tn.clear([1])
    assert.equal(await tn.get([1]), undefined)
    assert.deepEqual(await tn.get([2]), { number: 2 })
  })
  const all = await own.getRangeAllStartsWith([])
  assert.equal(all.length, 999)
  assert.deepEqual(all[1], [[2], { number: 2 }])
  const last = await own.getRangeAllStartsWith([], { limit: 2, reverse: true })
  assert.deepEqual(last.map(([key]) => key), [[999], [998]])
  let iterated = 0
  await own.doTn(async (tn) => {
    iterated = 0
    for await (const batch of tn.getRangeBatch([0], [500])) iterated += batch.length
  })
  assert.equal(iterated, 499)
})

test('concurrent transactions that read and write one row are all counted', async () => {
  const own = await space('count')
  const increment = () => own.doTn(async (tn) => tn.set(['n'], ((await tn.get(['n'])) ?? 0) + 1))
  await Promise.all(Array.from({ length: 40 }, increment))
  assert.equal(await own.get(['n']), 40)
})

test('of two transactions that read what the other writes one is refused', async () => {
  const own = await space('skew')
  const outcomes = []
  const [first, second] = [own.rawCreateTransaction(), own.rawCreateTransaction()]
  for (const [tn, read, written] of [[first, 'a', 'b'], [second, 'b', 'a']]) {
    await tn.get([read])
    tn.set([written], true)
  }
  for (const tn of [first, second]) outcomes.push(await tn.rawCommit().then(() => 0, (error) => error.code))
  assert.deepEqual(outcomes, [0, 1020])
})

test('a watch tells of a change, and a versionstamp is the one that was stored', async () => {
  const own = await space('watch')
  const watch = await own.doTn(async (tn) => tn.watch(['watched']))
  let stamp
  await own.doTn(async (tn) => {
    tn.set(['watched'], 'changed')
    tn.setVersionstampedKey(['stamped', fdb.tuple.unboundVersionstamp()], 1)
    stamp = tn.getVersionstamp()
  })
  assert.equal(await watch.promise, true)
  const [[key]] = await own.getRangeAllStartsWith(['stamped'])
  assert.deepEqual(key[1].value.subarray(0, 10), await stamp.promise)
})

test('directories are made, moved and listed', async () => {
  await fdb.directory.removeIfExists(database, ['node'])
  const made = await fdb.directory.createOrOpen(database, ['node', 'users'])
  await database.at(made).set('key', 'value')
  const moved = await fdb.directory.move(database, ['node', 'users'], ['node', 'people'])
  assert.equal((await database.at(moved).get('key')).toString(), 'value')
  assert.deepEqual((await fdb.directory.listAll(database, ['node'])).map(String), ['people'])
})
