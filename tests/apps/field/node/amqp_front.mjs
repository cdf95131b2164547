// Express that sends work to RabbitMQ with amqplib: at once, in a chain, later (by a queue whose messages expire), and
// with a retry.
import amqp from 'amqplib';
import express from 'express';
import { amqpUrl, port } from './shared.mjs';

const app = express();
const channel = await (await amqp.connect(amqpUrl)).createChannel();
const later = { deadLetterExchange: '', deadLetterRoutingKey: 'ship', messageTtl: 300 };
for (const queue of ['ship', 'pack', 'pay']) await channel.assertQueue(queue);
await channel.assertQueue('later', later);

for (const [route, queue] of Object.entries({ job: 'ship', chain: 'pack', later: 'later', retry: 'pay' })) {
  app.get(`/${route}/:id`, (req, res) => {
    channel.sendToQueue(queue, Buffer.from(JSON.stringify({ item: req.params.id })), { persistent: true });
    res.json({ id: req.params.id });
  });
}

app.listen(port, '127.0.0.1');
