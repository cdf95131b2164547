// Express that gives work to BullMQ: at once, in a chain, later, and with a retry.
import { Queue } from 'bullmq';
import express from 'express';
import { port, redisPort } from './shared.mjs';

const app = express();
const queue = new Queue('shop', { connection: { host: '127.0.0.1', port: redisPort } });
const routes = {
  job: ['ship', {}],
  chain: ['pack', {}],
  later: ['ship', { delay: 300 }],
  retry: ['pay', { attempts: 2, backoff: { type: 'fixed', delay: 200 } }],
};

for (const [route, [name, options]] of Object.entries(routes)) {
  app.get(`/${route}/:id`, async (req, res) => {
    await queue.add(name, { item: req.params.id }, options);
    res.json({ id: req.params.id });
  });
}

app.listen(port, '127.0.0.1');
