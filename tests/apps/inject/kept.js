// A service that passes each request on, over one kept connection. Says its port.
const http = require("node:http");

const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
const [host, port] = process.argv[2].split(":");

const server = http.createServer((came, answer) => {
  const pieces = [];
  came.on("data", (piece) => pieces.push(piece));
  came.on("end", () => {
    const body = Buffer.concat(pieces);
    const headers = body.length ? { "content-length": body.length } : {};
    const request = http.request(
      { host, port, path: `/back${came.url}`, agent, headers, method: came.method },
      (behind) => {
        answer.setHeader("content-length", behind.headers["content-length"]);
        behind.pipe(answer);
      },
    );
    request.on("error", (error) => answer.destroy(error));
    request.end(body);
  });
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
