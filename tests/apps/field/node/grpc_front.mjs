// Express that calls a gRPC service by @grpc/grpc-js, on one channel for all. Its argument is the description of the
// service.
import grpc from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import express from 'express';
import Redis from 'ioredis';
import { backUrl, leafUrl, port, redisPort } from './shared.mjs';

const { shop } = grpc.loadPackageDefinition(loadSync(process.argv[2]));
const client = new shop.Shop(backUrl.replace('http://', ''), grpc.credentials.createInsecure());
const redis = new Redis(redisPort);
const app = express();

// The header tells the comparison for which request a call is.
function metadata(id) {
  const all = new grpc.Metadata();
  all.set('x-item', id);
  return all;
}

const call = (method, id) =>
  new Promise((resolve, reject) => {
    client[method]({ id }, metadata(id), (error, reply) => (error ? reject(error) : resolve(reply.text)));
  });

app.get('/seq/:id', async (req, res) => {
  const { id } = req.params;
  const seen = await redis.incr(`seen:${id}`);
  res.json({ id, seen, text: await call('Seq', id) });
});

app.get('/par/:id', async (req, res) => {
  const { id } = req.params;
  const price = fetch(`${leafUrl}/price/${id}`).then((answer) => answer.text());
  res.json({ id, text: await Promise.all([call('Seq', id), call('Par', id), price]) });
});

app.get('/list/:id', async (req, res) => {
  const { id } = req.params;
  const parts = [];
  for await (const reply of client.List({ id }, metadata(id))) parts.push(reply.text);
  res.json({ id, parts, seen: await redis.incr(`seen:${id}`) });
});

app.listen(port, '127.0.0.1');
