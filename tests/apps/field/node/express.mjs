// Express with node-redis (one connection for all), a pool of pg, and axios.
import http from 'node:http';
import axios from 'axios';
import express from 'express';
import pg from 'pg';
import { createClient } from 'redis';
import { backUrl, databaseUrl, leafUrl, port, redisPort } from './shared.mjs';

const app = express();
const redis = createClient({ socket: { host: '127.0.0.1', port: redisPort } });
await redis.connect();
const pool = new pg.Pool({ connectionString: databaseUrl, max: 10 });
const client = axios.create({ httpAgent: new http.Agent({ keepAlive: true }) });
const get = async (url) => (await client.get(url)).data;

app.get('/seq/:id', async (req, res) => {
  const { id } = req.params;
  const cached = await redis.get(`item:${id}`);
  const { rows } = await pool.query('SELECT name, stock FROM items WHERE id = $1', [id]);
  const price = await get(`${leafUrl}/price/${id}`);
  await redis.set(`item:${id}`, JSON.stringify(rows), { EX: 60 });
  res.json({ id, cached, rows, price });
});

app.get('/par/:id', async (req, res) => {
  const { id } = req.params;
  const [cached, item, price, stock] = await Promise.all([
    redis.get(`item:${id}`),
    pool.query('SELECT name, stock FROM items WHERE id = $1', [id]),
    get(`${leafUrl}/price/${id}`),
    get(`${leafUrl}/stock/${id}`),
  ]);
  res.json({ id, cached, rows: item.rows, price, stock });
});

app.get('/tx/:id', async (req, res) => {
  const { id } = req.params;
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
  res.json({ id, leaf: await get(`${leafUrl}/ship/${id}`) });
});

app.get('/nest/:id', async (req, res) => {
  const { id } = req.params;
  const seen = await redis.incr(`seen:${id}`);
  const [item, price] = await Promise.all([get(`${backUrl}/seq/${id}`), get(`${leafUrl}/price/${id}`)]);
  res.json({ id, seen, item, price });
});

app.listen(port, '127.0.0.1');
