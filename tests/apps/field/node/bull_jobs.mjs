// Jobs of BullMQ that call a database and the leaf.
import { Queue, Worker } from 'bullmq';
import pg from 'pg';
import { databaseUrl, leafUrl, redisPort } from './shared.mjs';

const connection = { host: '127.0.0.1', port: redisPort };
const queue = new Queue('shop', { connection });
const pool = new pg.Pool({ connectionString: databaseUrl, max: 4 });
const get = async (path) => (await fetch(`${leafUrl}${path}`)).text();

const jobs = {
  async ship({ data }) {
    await pool.query('INSERT INTO orders (id, item) VALUES ($1, $2)', [data.item, 'book']);
    await get(`/ship/${data.item}`);
  },
  async pack({ data }) {
    await get(`/pack/${data.item}`);
    await queue.add('ship', { item: data.item });
  },
  async pay({ data, attemptsMade }) {
    await get(`/pay/${data.item}`);
    if (attemptsMade === 0) throw new Error('try again');
  },
};

new Worker('shop', (job) => jobs[job.name](job), { connection });
