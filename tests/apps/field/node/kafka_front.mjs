// Express that sends work to Kafka with kafkajs: one message a request, two at once, and work that asks for more work.
import express from 'express';
import { Kafka, logLevel, Partitioners } from 'kafkajs';
import { kafkaUrl, port } from './shared.mjs';

const app = express();
const kafka = new Kafka({ brokers: [kafkaUrl], logLevel: logLevel.ERROR });
const producer = kafka.producer({ createPartitioner: Partitioners.DefaultPartitioner });
await producer.connect();

const send = (topic, id) => producer.send({ topic, messages: [{ key: id, value: JSON.stringify({ item: id }) }] });

for (const [route, topic] of Object.entries({ job: 'ship', chain: 'pack', retry: 'pay' })) {
  app.get(`/${route}/:id`, async (req, res) => {
    await send(topic, req.params.id);
    res.json({ id: req.params.id });
  });
}

app.get('/two/:id', async (req, res) => {
  await Promise.all([send('ship', req.params.id), send('pack', req.params.id)]);
  res.json({ id: req.params.id });
});

app.listen(port, '127.0.0.1');
