// Hono on Node's server, with Knex over a pool of pg, pipelines of ioredis, and a Pool of undici with time limits.
import { setTimeout as pause } from 'node:timers/promises';
import { serve } from '@hono/node-server';
import { Hono } from 'hono';
import { stream } from 'hono/streaming';
import Redis from 'ioredis';
import knex from 'knex';
import { Pool } from 'undici';
import { backUrl, databaseUrl, leafUrl, port, redisPort } from './shared.mjs';

const redis = new Redis(redisPort, { enableAutoPipelining: true });
const db = knex({ client: 'pg', connection: databaseUrl, pool: { min: 2, max: 10 } });
const leaf = new Pool(leafUrl, { connections: 64 });
const back = new Pool(backUrl, { connections: 64 });

async function get(pool, path, signal) {
  const { body } = await pool.request({ path, method: 'GET', signal });
  return body.json();
}
const item = (id) => db('items').select('name', 'stock').where({ id }).first();

const app = new Hono();

app.get('/seq/:id', async (c) => {
  const id = c.req.param('id');
  const cached = await redis.get(`item:${id}`);
  const row = await item(id);
  const price = await get(leaf, `/price/${id}`);
  await redis.set(`item:${id}`, JSON.stringify({ row, price }), 'EX', 60);
  return c.json({ id, cached, row, price });
});

app.get('/par/:id', async (c) => {
  const id = c.req.param('id');
  const [cached, row, price, stock] = await Promise.all([
    redis.get(`item:${id}`),
    item(id),
    get(leaf, `/price/${id}`),
    get(leaf, `/stock/${id}`),
  ]);
  return c.json({ id, cached, row, price, stock });
});

app.get('/tx/:id', async (c) => {
  const id = c.req.param('id');
  await db.transaction(async (trx) => {
    await trx('orders').insert({ id, item: 'book' });
    await trx('orders').where({ id }).update({ state: 'paid' });
  });
  await redis.pipeline().del(`item:${id}`).incr(`sold:${id}`).exec();
  return c.json({ id, leaf: await get(leaf, `/ship/${id}`) });
});

app.get('/nest/:id', async (c) => {
  const id = c.req.param('id');
  const seen = await redis.incr(`seen:${id}`);
  const [detail, price] = await Promise.all([get(back, `/seq/${id}`), get(leaf, `/price/${id}`)]);
  return c.json({ id, seen, detail, price });
});

app.get('/deep/:id', async (c) => {
  const id = c.req.param('id');
  async function* parts() {
    for (const part of ['part0', 'part1', 'part2']) yield get(leaf, `/${part}/${id}`);
  }
  const all = [];
  for await (const part of parts()) all.push(part);
  const first = await Promise.race([get(leaf, `/race0/${id}`), get(leaf, `/race1/${id}`)]);
  return c.json({ id, all, first, row: await item(id) });
});

app.get('/retry/:id', async (c) => {
  const id = c.req.param('id');
  for (const attempt of ['try0', 'try1']) {
    try {
      return c.json({ id, leaf: await get(leaf, `/${attempt}/${id}`, AbortSignal.timeout(15)) });
    } catch {
      await pause(2);
    }
  }
  return c.json({ id, leaf: await get(leaf, `/last/${id}`) });
});

app.get('/later/:id', (c) => {
  const id = c.req.param('id');
  setImmediate(async () => {
    await item(id);
    await redis.set(`mail:${id}`, 'sent');
    await get(leaf, `/mail/${id}`);
  });
  return c.json({ id });
});

app.get('/stream/:id', (c) => {
  const id = c.req.param('id');
  return stream(c, async (out) => {
    for (const part of ['price', 'stock']) await out.write(JSON.stringify(await get(leaf, `/${part}/${id}`)));
    await out.write(String(await redis.incr(`seen:${id}`)));
  });
});

serve({ fetch: app.fetch, port, hostname: '127.0.0.1' });
