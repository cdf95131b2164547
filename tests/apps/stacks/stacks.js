// A server that says in which functions it waits or runs: before it does, it writes its own stack to FILE.truth.
//
// usage: stacks.js PORT      answers GET /WHAT/MS; FILE is this file
'use strict';
const fs = require('fs');
const http = require('http');

const never = new Int32Array(new SharedArrayBuffer(4));
Error.stackTraceLimit = 100;

// Names as V8 keeps them with the function, without the type of the object, and files without directories; innermost
// first. Lines that begin with "async" are of functions that are not on the stack.
function truth(path) {
  const lines = new Error().stack.split('\n').slice(2);
  const frames = lines.filter((line) => !line.includes('at async ')).map((line) => {
    const [, name, place] = line.match(/at (?:(.*) \((.*)\))/) || line.match(/at (())(.*)/).slice(1);
    const own = (name || '').replace(/^new /, '').replace(/ \[as .*\]$/, '').split('.').pop();
    const file = (place || line.trim().slice(3)).replace(/(:\d+)+$/, '').split('/').pop();
    const known = own && own !== '<anonymous>' ? own : '(anonymous)';
    return file === '<anonymous>' ? known : `${known} (${file})`;
  });
  fs.appendFileSync(`${__filename}.truth`, `${JSON.stringify([path, frames])}\n`);
}

function sleepWork(path, ms) {
  truth(path);
  Atomics.wait(never, 0, 0, ms);
}

function spinWork(path, ms) {
  truth(path);
  const until = Date.now() + ms;
  let n = 0;
  while (Date.now() < until) n += Math.sqrt(n + 1);
  return n;
}

class Shop {
  #discount = 1;

  constructor(path, ms, what) {
    if (what === 'made') sleepWork(path, ms);
  }

  price(path, ms) {
    sleepWork(path, ms * this.#discount);
  }

  static open(path, ms) {
    new Shop().price(path, ms);
  }

  get total() {
    sleepWork(this.path, this.ms);
    return 1;
  }
}

const deep = (path, ms, levels) => (levels ? deep(path, ms, levels - 1) + 1 : (sleepWork(path, ms), 0));

const work = {
  sleep: (path, ms) => sleepWork(path, ms),
  spin: (path, ms) => spinWork(path, ms),
  method(path, ms) {
    Shop.open(path, ms);
  },
  made(path, ms) {
    return new Shop(path, ms, 'made');
  },
  getter(path, ms) {
    const shop = Object.assign(Object.create(Shop.prototype), { path, ms });
    return shop.total;
  },
  builtin(path, ms) {
    return [1].map(function each(n) {
      return [2].reduce((sum, m) => sum + m + (sleepWork(path, ms) || 0), n);
    });
  },
  deep: (path, ms) => deep(path, ms, 20),
  recursion: (path, ms) => deep(path, ms, 10000),
  letters(path, ms) {
    const größe = () => sleepWork(path, ms);
    größe();
  },
  async later(path, ms) {
    await null;
    sleepWork(path, ms);
  },
};

async function handle(request, response) {
  const [, what, ms] = decodeURIComponent(request.url).split('/');
  if (work[what]) await work[what](request.url, Number(ms));
  response.end('ok');
}

http.createServer(handle).listen(Number(process.argv[2]), '127.0.0.1');
