// A service of a shape, in Node; README.md has the environment.
//
// HOW: `http` one call after the other over kept connections, `fanout` all at once, `http2` one after the other over
// one HTTP/2 connection for all requests, `http2-fanout` all at once on it, `http2tls` and `http2tls-fanout` the same
// with TLS.
import crypto from "node:crypto";
import fs from "node:fs";
import http from "node:http";
import http2 from "node:http2";
import path from "node:path";

const { SERVICE, HOW, LISTEN, CALLS, GROUND_TRUTH_DIR } = process.env;
const truth = fs.openSync(path.join(GROUND_TRUTH_DIR, `${SERVICE}.jsonl`), "a");
const [host, port] = [LISTEN.split(":")[0], Number(LISTEN.split(":")[1])];
const upstreams = (CALLS ?? "").split(",").filter(Boolean);
const agent = new http.Agent({ keepAlive: true, maxSockets: 512 });
const sessions = new Map();
const tls = HOW.startsWith("http2tls") && { key: fs.readFileSync(process.env.TLS_KEY),
    cert: fs.readFileSync(process.env.TLS_CERT) };

const now = () => BigInt(Date.now()) * 1000000n;

// One line in one write: nothing is lost when the process is ended.
function note(kind, target, port, start, status, more = {}) {
	const record = { service: SERVICE, kind, target, port, start: Number(start), end: Number(now()), status,
		...more };
	fs.writeSync(truth, `${JSON.stringify(record)}\n`);
}

// What a request makes its service call, by its path alone.
function calls(target) {
	const load = Number(target.split("/")[2]);
	return upstreams.flatMap((upstream, u) => Array.from({ length: 1 + ((load >> u) & 1) }, (_, i) => [upstream,
		(load + i + 1) % 4]));
}

function get1(upstream, target) {
	return new Promise((resolve, reject) => {
		const [hostname, port] = upstream.split(":");
		const request = http.get({ agent, hostname, port, path: target }, (answer) => {
			answer.resume();
			answer.on("end", () => resolve(answer.statusCode));
		});
		request.on("error", reject);
	});
}

function get2(upstream, target) {
	return new Promise((resolve, reject) => {
		if (!sessions.has(upstream)) sessions.set(upstream,
			tls ? http2.connect(`https://${upstream}`,
				{ rejectUnauthorized: false }) : http2.connect(`http://${upstream}`));
		const stream = sessions.get(upstream).request({ ":path": target });
		let status;
		stream.on("response", (headers) => (status = headers[":status"]));
		stream.on("end", () => resolve(status));
		stream.on("error", reject);
		stream.resume();
	});
}

async function call([upstream, load], inside) {
	const target = `/work/${load}/${crypto.randomBytes(6).toString("hex")}`;
	const start = now();
	const status = await (HOW.startsWith("http2") ? get2 : get1)(upstream, target);
	note("client", target, Number(upstream.split(":")[1]), start, status, { in: inside });
	return status === 200;
}

async function serve(target) {
	const start = now();
	const todo = calls(target);
	let good = true;
	if (HOW.endsWith("fanout")) good = (await Promise.all(todo.map((one) => call(one, target)))).every(Boolean);
	else for (const one of todo) good = (await call(one, target)) && good;
	note("server", target, port, start, good ? 200 : 502);
	return good ? 200 : 502;
}

const handler = async (request, response) => {
	response.writeHead(await serve(request.url), { "content-length": 2 });
	response.end("ok");
};

// Users speak HTTP/1.1; services of an HTTP/2 shape are called over HTTP/2 only.
const serve2 = () => (tls ? http2.createSecureServer(tls, handler) : http2.createServer(handler));
const server = HOW.startsWith("http2") && process.env.ENTRY !== "1" ? serve2() : http.createServer(handler);
server.keepAliveTimeout = 0; // else a connection may end in the moment in which its next request is sent
server.listen(port, host, 1024);
