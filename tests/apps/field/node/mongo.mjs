// Express with the driver of MongoDB (a pool of connections), ioredis (one connection for all), and fetch.
import express from 'express';
import Redis from 'ioredis';
import { MongoClient } from 'mongodb';
import { backUrl, leafUrl, mongoUrl, port, redisPort } from './shared.mjs';

const app = express();
const redis = new Redis(redisPort);
const client = await new MongoClient(mongoUrl, { maxPoolSize: 10 }).connect();
const [items, orders] = ['items', 'orders'].map((name) => client.db('shop').collection(name));
const get = async (url) => (await fetch(url)).json();

app.get('/seq/:id', async (req, res) => {
  const { id } = req.params;
  const cached = await redis.get(`item:${id}`);
  const item = await items.findOne({ _id: id });
  const price = await get(`${leafUrl}/price/${id}`);
  await redis.set(`item:${id}`, JSON.stringify(item), 'EX', 60);
  res.json({ id, cached, item, price });
});

app.get('/par/:id', async (req, res) => {
  const { id } = req.params;
  const [cached, item, price, stock] = await Promise.all([
    redis.get(`item:${id}`),
    items.findOne({ _id: id }),
    get(`${leafUrl}/price/${id}`),
    get(`${leafUrl}/stock/${id}`),
  ]);
  res.json({ id, cached, item, price, stock });
});

app.get('/tx/:id', async (req, res) => {
  const { id } = req.params;
  await orders.insertOne({ _id: id, item: 'book', state: 'new' });
  await orders.updateOne({ _id: id }, { $set: { state: 'paid' } });
  await redis.del(`item:${id}`);
  res.json({ id, leaf: await get(`${leafUrl}/ship/${id}`) });
});

app.get('/list/:id', async (req, res) => {
  const { id } = req.params;
  const open = await orders.find({ item: id }).sort({ state: 1 }).limit(20).toArray();
  const [count, price] = await Promise.all([orders.countDocuments({ item: id }), get(`${leafUrl}/price/${id}`)]);
  res.json({ id, open, count, price });
});

app.get('/nest/:id', async (req, res) => {
  const { id } = req.params;
  const seen = await redis.incr(`seen:${id}`);
  const [item, price] = await Promise.all([get(`${backUrl}/seq/${id}`), get(`${leafUrl}/price/${id}`)]);
  res.json({ id, seen, item, price });
});

app.listen(port, '127.0.0.1');
