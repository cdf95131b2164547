// Bookinfo's ratings: Node's own server, and a pool of mysql2.
import http from 'node:http';
import mysql from 'mysql2';
import { mysqlUrl, port } from './shared.mjs';

const pool = mysql.createPool({ uri: mysqlUrl, connectionLimit: 10 });

http
  .createServer((request, response) => {
    const id = request.url.split('/').at(-1);
    pool.query('SELECT stock FROM items WHERE id = ?', [id], (error, rows) => {
      response.writeHead(error ? 500 : 200, { 'Content-Type': 'application/json' });
      response.end(JSON.stringify(error ?? { id, ratings: { Reviewer1: rows[0]?.stock ?? 5, Reviewer2: 4 } }));
    });
  })
  .listen(port, '127.0.0.1');
