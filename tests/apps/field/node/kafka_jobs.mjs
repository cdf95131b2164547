// A consumer of Kafka with kafkajs that calls a database and the leaf, one message after the other.
import { Kafka, logLevel, Partitioners } from 'kafkajs';
import pg from 'pg';
import { databaseUrl, kafkaUrl, leafUrl } from './shared.mjs';

const kafka = new Kafka({ brokers: [kafkaUrl], logLevel: logLevel.ERROR });
const producer = kafka.producer({ createPartitioner: Partitioners.DefaultPartitioner });
const consumer = kafka.consumer({ groupId: 'shop' });
const pool = new pg.Pool({ connectionString: databaseUrl, max: 4 });
const get = async (path) => (await fetch(`${leafUrl}${path}`)).text();
const send = (topic, message) =>
  producer.send({ topic, messages: [{ key: message.item, value: JSON.stringify(message) }] });

const jobs = {
  async ship({ item }) {
    // A message may come twice, and two may ask for the same.
    await pool.query('INSERT INTO orders (id, item) VALUES ($1, $2) ON CONFLICT DO NOTHING', [item, 'book']);
    await get(`/ship/${item}`);
  },
  async pack({ item }) {
    await get(`/pack/${item}`);
    await send('ship', { item });
  },
  async pay({ item, again }) {
    await get(`/pay/${item}`);
    if (!again) await send('pay', { item, again: true });
  },
};

await producer.connect();
await consumer.connect();
await consumer.subscribe({ topics: Object.keys(jobs), fromBeginning: true });
await consumer.run({ eachMessage: ({ topic, message }) => jobs[topic](JSON.parse(message.value)) });
