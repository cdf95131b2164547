// Server and client of HTTP/2 without TLS, in Node.
//
// node node.mjs serve TRUTH                       prints its port; writes a line of JSON for each request
// node node.mjs front ADDRESS                      passes each request on; prints its port
// node node.mjs ask ADDRESS COUNT AT_ONCE [own]   COUNT requests, AT_ONCE at a time, on one connection
import { createHash } from "node:crypto";
import { appendFileSync } from "node:fs";
import http2 from "node:http2";

const OWN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const LENGTHS = [0, 100, 3000, 20000];
const [how, where, count, atOnce, owns] = process.argv.slice(2);

const answer = (target, body) => target.repeat(1 + (body.length % 1000));

async function read(stream) {
  const pieces = [];
  for await (const piece of stream) pieces.push(piece);
  return Buffer.concat(pieces);
}

function serve() {
  const server = http2.createServer();
  server.on("stream", async (stream, headers, _flags, raw) => {
    const body = await read(stream);
    const contexts = [];
    const rest = [];
    for (let n = 0; n < raw.length; n += 2) {
      if (raw[n] === "traceparent") contexts.push(raw[n + 1]);
      else if (!raw[n].startsWith(":")) rest.push(`${raw[n]}: ${raw[n + 1]}`);
    }
    const target = headers[":path"];
    const line = {
      target,
      contexts,
      rest: rest.sort(),
      body: createHash("sha256").update(body).digest("hex"),
      length: body.length,
    };
    appendFileSync(where, `${JSON.stringify(line)}\n`);
    stream.respond({ ":status": 200 });
    stream.end(answer(target, body));
  });
  server.listen(0, "127.0.0.1", () => console.log(server.address().port));
}

async function ask(session, n) {
  const length = LENGTHS[n % LENGTHS.length];
  const headers = { ":method": "POST", ":path": `/n/${n}-${length}` };
  if (owns && (n === 10 || n === 11)) headers.traceparent = OWN;
  const body = Buffer.alloc(length, "b");
  const stream = session.request(headers);
  stream.end(body);
  const got = (await read(stream)).toString();
  if (got !== answer(headers[":path"], body)) throw new Error(`${headers[":path"]}: ${got.length} other bytes`);
}

async function askAll() {
  const session = http2.connect(`http://${where}`);
  let next = 1;
  await ask(session, 0);
  const one = async () => {
    while (next < Number(count)) await ask(session, next++);
  };
  await Promise.all(Array.from({ length: Number(atOnce) }, one));
  session.close();
}

function front() {
  const server = http2.createServer();
  const behind = http2.connect(`http://${where}`);
  server.on("stream", async (stream, headers) => {
    const body = await read(stream);
    const passed = behind.request({ ":method": "POST", ":path": headers[":path"] });
    passed.end(body);
    const got = await read(passed);
    stream.respond({ ":status": 200 });
    stream.end(got);
  });
  server.listen(0, "127.0.0.1", () => console.log(server.address().port));
}

if (how === "serve") serve();
else if (how === "front") front();
else await askAll();
