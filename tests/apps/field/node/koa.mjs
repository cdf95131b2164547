// Koa with node-redis (one connection for all), a pool of pg, and got.
import { setTimeout as pause } from 'node:timers/promises';
import { Agent } from 'node:http';
import { PassThrough } from 'node:stream';
import Router from '@koa/router';
import got from 'got';
import Koa from 'koa';
import pg from 'pg';
import { createClient } from 'redis';
import { backUrl, databaseUrl, leafUrl, port, redisPort } from './shared.mjs';

const redis = await createClient({ url: `redis://127.0.0.1:${redisPort}` }).connect();
const pool = new pg.Pool({ connectionString: databaseUrl });
const client = got.extend({ agent: { http: new Agent({ keepAlive: true }) } });
const get = (url) => client(url).json();
const item = async (id) => (await pool.query('SELECT name, stock FROM items WHERE id = $1', [id])).rows[0];
const restock = (id) => pool.query('UPDATE items SET stock = stock + 1 WHERE id = $1', [id]);

// Four workers take the calls that all requests hand over.
const tasks = [];
const idle = [];
async function work() {
  for (;;) {
    const task = tasks.shift() ?? (await new Promise((resolve) => idle.push(resolve)));
    await get(task.url).then(task.resolve, task.reject);
  }
}
for (let i = 0; i < 4; i++) work();
const hand = (url) =>
  new Promise((resolve, reject) => {
    const task = { url, resolve, reject };
    const worker = idle.shift();
    if (worker) worker(task);
    else tasks.push(task);
  });

const router = new Router();

router.get('/seq/:id', async (ctx) => {
  const { id } = ctx.params;
  const cached = await redis.get(`item:${id}`);
  const row = await item(id);
  const price = await get(`${leafUrl}/price/${id}`);
  await redis.set(`item:${id}`, JSON.stringify({ row, price }), { EX: 60 });
  ctx.body = { id, cached, row, price };
});

router.get('/par/:id', async (ctx) => {
  const { id } = ctx.params;
  const [cached, row, price, stock] = await Promise.all([
    redis.get(`item:${id}`),
    item(id),
    get(`${leafUrl}/price/${id}`),
    get(`${leafUrl}/stock/${id}`),
  ]);
  ctx.body = { id, cached, row, price, stock };
});

router.get('/tx/:id', async (ctx) => {
  const { id } = ctx.params;
  const connection = await pool.connect();
  try {
    await connection.query('BEGIN');
    await connection.query('INSERT INTO orders (id, item) VALUES ($1, $2)', [id, 'book']);
    await connection.query("UPDATE orders SET state = 'paid' WHERE id = $1", [id]);
    await connection.query('COMMIT');
  } finally {
    connection.release();
  }
  await redis.multi().del(`item:${id}`).incr(`sold:${id}`).exec();
  ctx.body = { id, leaf: await get(`${leafUrl}/ship/${id}`) };
});

router.get('/nest/:id', async (ctx) => {
  const { id } = ctx.params;
  const seen = await redis.incr(`seen:${id}`);
  const [detail, price] = await Promise.all([get(`${backUrl}/seq/${id}`), get(`${leafUrl}/price/${id}`)]);
  ctx.body = { id, seen, detail, price };
});

router.get('/deep/:id', async (ctx) => {
  const { id } = ctx.params;
  const parts = async () => Promise.all([0, 1, 2].map((part) => get(`${leafUrl}/part${part}/${id}`)));
  const [all, cached] = await Promise.all([parts(), redis.get(`item:${id}`)]);
  ctx.body = { id, all, cached, row: await item(id) };
});

router.get('/work/:id', async (ctx) => {
  const { id } = ctx.params;
  const [printed] = await Promise.all([hand(`${leafUrl}/print/${id}`), restock(id)]);
  ctx.body = { id, printed, seen: await redis.incr(`seen:${id}`) };
});

router.get('/later/:id', (ctx) => {
  const { id } = ctx.params;
  const mail = async () => {
    await pause(1);
    await restock(id);
    await redis.incr(`mails:${id}`);
    await get(`${leafUrl}/mail/${id}`);
  };
  mail().catch(console.error);
  ctx.body = { id };
});

router.get('/stream/:id', (ctx) => {
  const { id } = ctx.params;
  const said = new PassThrough();
  const say = async () => {
    said.write(JSON.stringify((await item(id)) ?? {}));
    said.write(JSON.stringify(await get(`${leafUrl}/price/${id}`)));
    said.end(await redis.get(`item:${id}`));
  };
  say().catch((error) => said.destroy(error));
  ctx.body = said;
});

const app = new Koa();
app.use(async (ctx, next) => {
  const began = Date.now();
  await next();
  ctx.set('X-Response-Time', `${Date.now() - began}ms`);
});
app.use(router.routes());
app.listen(port, '127.0.0.1');
