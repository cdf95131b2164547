// The front of the astronomy shop: Express, @grpc/grpc-js with one channel for each service behind it, and fetch. Its
// argument is the description of the services.
import grpc from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import express from 'express';
import { port } from './shared.mjs';

const { shop } = grpc.loadPackageDefinition(loadSync(process.argv[2]));
const address = (name) => process.env[`${name}_URL`].replace('http://', '');
const to = (name) => new shop.Shop(address(name), grpc.credentials.createInsecure());
const [catalog, recommendation, cart, ad, checkout] = ['CATALOG', 'RECOMMENDATION', 'CART', 'AD', 'CHECKOUT'].map(to);
const app = express();

// The header tells the comparison for which request a call is.
const call = (client, method, id) =>
  new Promise((resolve, reject) => {
    const metadata = new grpc.Metadata();
    metadata.set('x-item', id);
    client[method]({ id }, metadata, (error, reply) => (error ? reject(error) : resolve(reply.text)));
  });

app.get('/product/:id', async (req, res) => {
  const { id } = req.params;
  const product = await call(catalog, 'Seq', id);
  const around = await Promise.all([call(recommendation, 'Seq', id), call(ad, 'Seq', id)]);
  res.json({ id, product, around });
});

app.get('/cart/:id', async (req, res) => {
  const { id } = req.params;
  const items = await call(cart, 'Seq', id);
  const answer = await fetch(`${process.env.SHIPPING_URL}/nest/${id}`);
  res.json({ id, items, shipping: await answer.text() });
});

app.get('/checkout/:id', async (req, res) => {
  const { id } = req.params;
  res.json({ id, order: await call(checkout, 'Seq', id), next: await call(recommendation, 'Seq', id) });
});

app.listen(port, '127.0.0.1');
