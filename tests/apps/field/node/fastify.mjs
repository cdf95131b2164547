// Fastify with ioredis (one connection for all), a pool of pg, and undici.
import Fastify from 'fastify';
import Redis from 'ioredis';
import pg from 'pg';
import { Agent, request } from 'undici';
import { backUrl, databaseUrl, leafUrl, port, redisPort } from './shared.mjs';

const app = Fastify();
const redis = new Redis(redisPort);
const pool = new pg.Pool({ connectionString: databaseUrl, max: 10 });
const dispatcher = new Agent({ connections: 128 });

async function get(url) {
  const { body } = await request(url, { dispatcher });
  return body.json();
}

app.get('/seq/:id', async (req) => {
  const { id } = req.params;
  const cached = await redis.get(`item:${id}`);
  const { rows } = await pool.query('SELECT * FROM items WHERE id = $1', [id]);
  const leaf = await get(`${leafUrl}/price/${id}`);
  await redis.set(`item:${id}`, JSON.stringify({ rows, leaf }), 'EX', 60);
  return { id, cached, rows, leaf };
});

app.get('/par/:id', async (req) => {
  const { id } = req.params;
  const [cached, item, price, stock] = await Promise.all([
    redis.get(`item:${id}`),
    pool.query('SELECT * FROM items WHERE id = $1', [id]),
    get(`${leafUrl}/price/${id}`),
    get(`${leafUrl}/stock/${id}`),
  ]);
  return { id, cached, rows: item.rows, price, stock };
});

app.get('/tx/:id', async (req) => {
  const { id } = req.params;
  const client = await pool.connect();
  try {
    await client.query('BEGIN');
    await client.query('INSERT INTO orders (id, item) VALUES ($1, $2)', [id, 'book']);
    await client.query("UPDATE orders SET state = 'paid' WHERE id = $1", [id]);
    await client.query('COMMIT');
  } finally {
    client.release();
  }
  await redis.del(`item:${id}`);
  return { id, leaf: await get(`${leafUrl}/ship/${id}`) };
});

app.get('/nest/:id', async (req) => {
  const { id } = req.params;
  const seen = await redis.incr(`seen:${id}`);
  const [item, price] = await Promise.all([get(`${backUrl}/seq/${id}`), get(`${leafUrl}/price/${id}`)]);
  return { id, seen, item, price };
});

await app.listen({ port, host: '127.0.0.1' });
