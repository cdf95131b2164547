// A consumer of RabbitMQ with amqplib that works on up to four messages at once. It calls a database and the leaf.
import amqp from 'amqplib';
import pg from 'pg';
import { amqpUrl, databaseUrl, leafUrl } from './shared.mjs';

const channel = await (await amqp.connect(amqpUrl)).createChannel();
const pool = new pg.Pool({ connectionString: databaseUrl, max: 4 });
const get = async (path) => (await fetch(`${leafUrl}${path}`)).text();
const send = (queue, message) => channel.sendToQueue(queue, Buffer.from(JSON.stringify(message)));

const jobs = {
  async ship({ item }) {
    await pool.query('INSERT INTO orders (id, item) VALUES ($1, $2)', [item, 'book']);
    await get(`/ship/${item}`);
  },
  async pack({ item }) {
    await get(`/pack/${item}`);
    send('ship', { item });
  },
  async pay({ item }, { fields }) {
    await get(`/pay/${item}`);
    if (!fields.redelivered) throw new Error('try again');
  },
};

await channel.prefetch(Number(process.env.PREFETCH ?? 4));
for (const [queue, work] of Object.entries(jobs)) {
  await channel.assertQueue(queue);
  await channel.consume(queue, async (message) => {
    try {
      await work(JSON.parse(message.content), message);
      channel.ack(message);
    } catch {
      channel.nack(message);
    }
  });
}
