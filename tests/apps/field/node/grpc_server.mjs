// A gRPC server of @grpc/grpc-js, with a pool of pg, node-redis (one connection for all), and fetch. Its argument is
// the description of the service.
import grpc from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import pg from 'pg';
import { createClient } from 'redis';
import { databaseUrl, leafUrl, port, redisPort } from './shared.mjs';

const redis = createClient({ socket: { host: '127.0.0.1', port: redisPort } });
await redis.connect();
const pool = new pg.Pool({ connectionString: databaseUrl, max: 10 });
const get = async (path) => (await fetch(`${leafUrl}${path}`)).text();
const item = (id) => pool.query('SELECT name, stock FROM items WHERE id = $1', [id]);

const work = {
  async Seq(id) {
    await redis.get(`item:${id}`);
    await item(id);
    const price = await get(`/price/${id}`);
    await redis.set(`item:${id}`, price, { EX: 60 });
    return price;
  },
  async Par(id) {
    const [, , price] = await Promise.all([redis.get(`item:${id}`), item(id), get(`/price/${id}`)]);
    return price;
  },
};

const unary = (method) => (call, answer) =>
  work[method](call.request.id).then(
    (text) => answer(null, { text }),
    (error) => answer(error),
  );

async function list(call) {
  for (const part of ['price', 'stock', 'ship']) call.write({ text: await get(`/${part}/${call.request.id}`) });
  call.end();
}

const server = new grpc.Server();
const { shop } = grpc.loadPackageDefinition(loadSync(process.argv[2]));
server.addService(shop.Shop.service, { Seq: unary('Seq'), Par: unary('Par'), List: list });
server.bindAsync(`127.0.0.1:${port}`, grpc.ServerCredentials.createInsecure(), () => {});
