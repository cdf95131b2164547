// NestJS on Express, with ioredis (one connection for all), a pool of mysql2, and axios. The decorators are applied as
// TypeScript's compiler does it.
import 'reflect-metadata';
import { Agent } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import { Controller, Get, Inject, Injectable, Module, Param, Res } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import axios from 'axios';
import Redis from 'ioredis';
import mysql from 'mysql2/promise';
import { backUrl, leafUrl, mysqlUrl, port, redisPort } from './shared.mjs';

function decorate(type, decorators, parameters = [], methods = {}) {
  parameters.forEach((token, i) => Inject(token)(type, undefined, i));
  for (const [name, [method, ...of]] of Object.entries(methods)) {
    of.forEach((parameter, i) => parameter(type.prototype, name, i));
    method(type.prototype, name, Object.getOwnPropertyDescriptor(type.prototype, name));
  }
  for (const decorator of decorators) decorator(type);
}

class Items {
  constructor(pool) {
    this.pool = pool;
  }

  async find(id) {
    const [rows] = await this.pool.execute('SELECT name, stock FROM items WHERE id = ?', [id]);
    return rows[0];
  }

  async order(id) {
    const connection = await this.pool.getConnection();
    try {
      await connection.beginTransaction();
      await connection.execute('INSERT INTO orders (id, item) VALUES (?, ?)', [id, 'book']);
      await connection.execute("UPDATE orders SET state = 'paid' WHERE id = ?", [id]);
      await connection.commit();
    } finally {
      connection.release();
    }
  }

  restock(id) {
    return this.pool.query('UPDATE items SET stock = stock + 1 WHERE id = ?', [id]);
  }
}
decorate(Items, [Injectable()], ['POOL']);

class Shop {
  constructor(items, redis, http) {
    Object.assign(this, { items, redis, http });
  }

  async get(url) {
    return (await this.http.get(url)).data;
  }

  async seq(id) {
    const cached = await this.redis.get(`item:${id}`);
    const row = await this.items.find(id);
    const price = await this.get(`${leafUrl}/price/${id}`);
    await this.redis.set(`item:${id}`, JSON.stringify({ row, price }), 'EX', 60);
    return { id, cached, row, price };
  }

  async par(id) {
    const [cached, row, price, stock] = await Promise.all([
      this.redis.get(`item:${id}`),
      this.items.find(id),
      this.get(`${leafUrl}/price/${id}`),
      this.get(`${leafUrl}/stock/${id}`),
    ]);
    return { id, cached, row, price, stock };
  }

  async tx(id) {
    await this.items.order(id);
    await this.redis.del(`item:${id}`);
    return { id, leaf: await this.get(`${leafUrl}/ship/${id}`) };
  }

  async nest(id) {
    const seen = await this.redis.incr(`seen:${id}`);
    const [detail, price] = await Promise.all([
      this.get(`${backUrl}/seq/${id}`),
      this.get(`${leafUrl}/price/${id}`),
    ]);
    return { id, seen, detail, price };
  }

  async deep(id) {
    const parts = async () => Promise.all([0, 1, 2].map((part) => this.get(`${leafUrl}/part${part}/${id}`)));
    const [all, cached] = await Promise.all([parts(), this.redis.get(`item:${id}`)]);
    return { id, all, cached, row: await this.items.find(id) };
  }

  later(id) {
    const mail = async () => {
      await pause(1);
      await this.items.restock(id);
      await this.redis.incr(`mails:${id}`);
      await this.get(`${leafUrl}/mail/${id}`);
    };
    mail().catch(console.error);
    return { id };
  }

  async stream(id, response) {
    response.write(JSON.stringify((await this.items.find(id)) ?? {}));
    response.write(JSON.stringify(await this.get(`${leafUrl}/price/${id}`)));
    response.end(await this.redis.get(`item:${id}`));
  }
}
const routes = ['seq', 'par', 'tx', 'nest', 'deep', 'later'].map((name) => [name, [Get(`${name}/:id`), Param('id')]]);
decorate(Shop, [Controller()], [Items, Redis, 'HTTP'], {
  ...Object.fromEntries(routes),
  stream: [Get('stream/:id'), Param('id'), Res()],
});

class App {}
const providers = [
  Items,
  { provide: 'POOL', useFactory: () => mysql.createPool({ uri: mysqlUrl, connectionLimit: 10 }) },
  { provide: Redis, useFactory: () => new Redis(redisPort) },
  { provide: 'HTTP', useFactory: () => axios.create({ httpAgent: new Agent({ keepAlive: true }) }) },
];
decorate(App, [Module({ controllers: [Shop], providers })]);

const app = await NestFactory.create(App, { logger: ['error', 'warn'] });
await app.listen(port, '127.0.0.1');
