// hapi with postgres.js (which pipelines its queries), node-redis, the built-in fetch, and a pool of worker threads.
import { once } from 'node:events';
import { PassThrough, Readable } from 'node:stream';
import Hapi from '@hapi/hapi';
import { Piscina } from 'piscina';
import postgres from 'postgres';
import { createClient } from 'redis';
import { backUrl, databaseUrl, leafUrl, port, redisPort } from './shared.mjs';

const redis = await createClient({ url: `redis://127.0.0.1:${redisPort}` }).connect();
const sql = postgres(databaseUrl, { max: 10 });
const workers = new Piscina({ filename: new URL('./hapi_worker.mjs', import.meta.url).href, maxThreads: 2 });
const get = async (url, options) => (await fetch(url, options)).json();
const item = async (id) => (await sql`SELECT name, stock FROM items WHERE id = ${id}`)[0] ?? null;

const routes = {
  async seq(id) {
    const cached = await redis.get(`item:${id}`);
    const row = await item(id);
    const price = await get(`${leafUrl}/price/${id}`);
    await redis.set(`item:${id}`, JSON.stringify(price), { EX: 60 });
    return { id, cached, row, price };
  },

  async par(id) {
    const [cached, row, price, stock] = await Promise.allSettled([
      redis.get(`item:${id}`),
      item(id),
      get(`${leafUrl}/price/${id}`),
      get(`${leafUrl}/stock/${id}`),
    ]);
    return { id, cached, row, price, stock };
  },

  async tx(id) {
    await sql.begin(async (tx) => {
      await tx`INSERT INTO orders (id, item) VALUES (${id}, 'book')`;
      await tx`UPDATE orders SET state = 'paid' WHERE id = ${id}`;
    });
    await Promise.all([redis.del(`item:${id}`), redis.incr(`sold:${id}`)]);
    return { id, leaf: await get(`${leafUrl}/ship/${id}`) };
  },

  async nest(id) {
    const seen = await redis.incr(`seen:${id}`);
    const [detail, price] = await Promise.all([get(`${backUrl}/seq/${id}`), get(`${leafUrl}/price/${id}`)]);
    return { id, seen, detail, price };
  },

  // A thread of the pool makes a call of its own; the request goes on with its result.
  async thread(id) {
    const printed = await workers.run(`${leafUrl}/print/${id}`);
    return { id, printed, seen: await redis.incr(`seen:${id}`) };
  },

  async deep(id) {
    const parts = Readable.from(['part0', 'part1', 'part2', 'part3']);
    const all = await parts.map((part) => get(`${leafUrl}/${part}/${id}`), { concurrency: 2 }).toArray();
    return { id, all, row: await item(id) };
  },

  async later(id) {
    process.nextTick(async () => {
      await item(id);
      await redis.set(`mail:${id}`, 'sent');
      await get(`${leafUrl}/mail/${id}`);
    });
    return { id };
  },

  async stream(id, h) {
    const said = new PassThrough();
    (async () => {
      for (const part of ['price', 'stock']) {
        if (!said.write(JSON.stringify(await get(`${leafUrl}/${part}/${id}`)))) await once(said, 'drain');
      }
      said.end(String(await redis.incr(`seen:${id}`)));
    })();
    return h.response(said).type('application/x-ndjson');
  },
};

const server = Hapi.server({ port, host: '127.0.0.1' });
for (const [name, handle] of Object.entries(routes)) {
  server.route({ method: 'GET', path: `/${name}/{id}`, handler: (request, h) => handle(request.params.id, h) });
}
await server.start();
