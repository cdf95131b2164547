// Both ends of a Tars service without the platform: `server PORT`, or `client PORT`, which reads `FUNCTION VALUE`
// lines.
"use strict";
const net = require("net");
const { server, client, error } = require("@tars/rpc");
const Stream = require("@tars/stream");

const SERVANT = "Shop.CartServer.CartObj";
const TUP = Stream.Tup.TUP_SIMPLE;

// What the compiler would make of an interface `Cart`.
class Cart {
  initialize() {}

  onDispatch(current, name, buffer) {
    const tup = current.getRequestVersion() === TUP;
    const text = tup ? tupText(buffer) : new Stream.TarsInputStream(buffer).readString(1, true);
    if (name === "refuse") {
      current.sendErrorResponse(77, `no room for '${text}'`);
    } else if (name === "add" || name === "note") {
      current.doResponse(tup ? tupOf("", text) : buffered(0, text));
    } else {
      return error.SERVER.FUNC_NOT_FOUND;
    }
    return error.SUCCESS;
  }
}

function buffered(tag, text) {
  const out = new Stream.TarsOutputStream();
  out.writeString(tag, text);
  return out.getBinBuffer();
}

function tupOf(name, text) {
  const all = new Stream.UniAttribute();
  all.tupVersion = TUP;
  all.writeString(name, text);
  return all.encode();
}

function tupText(buffer) {
  const all = new Stream.UniAttribute();
  all.tupVersion = TUP;
  all.decode(buffer);
  return all.readString("text");
}

// The older packet, which a proxy cannot read: as the package's own examples do it, over a connection of its own.
function tupCall(name, text) {
  const packet = new Stream.Tup();
  Object.assign(packet, { tupVersion: TUP, servantName: SERVANT, funcName: name });
  packet.writeString("text", text);
  return new Promise((resolve, reject) => {
    const socket = net.connect(port, "127.0.0.1", () => socket.write(packet.encode().toNodeBuffer()));
    socket.on("error", reject).on("data", (data) => {
      const answer = new Stream.Tup();
      answer.decode(new Stream.BinBuffer(data));
      const code = answer.getTarsResultCode();
      socket.end(() => resolve(code === 0 ? "ok" : `failed ${code}`));
    });
  });
}

function Proxy() {}

async function call(proxy, what, value) {
  const [name, how] = what.split("/");
  if (how === "tup") return tupCall(name, value);
  const property = { context: { token: value } };
  if (how === "one-way") property.packetType = 1;
  try {
    await proxy._worker.tars_invoke(name, buffered(1, how === "large" ? value.repeat(3000) : value), property);
    return "ok";
  } catch (failed) {
    // The package rejects what will not be answered, and gives no code for it.
    return how === "one-way" && failed.error.code === undefined ? "ok" : `failed ${failed.error.code}`;
  }
}

const [role, port] = process.argv.slice(2);
const endpoint = `tcp -h 127.0.0.1 -p ${port} -t 60000`;
if (role === "server") {
  server.createServer(Cart).start({ name: "Cart", servant: SERVANT, endpoint, maxconns: 100, protocol: "tars" });
} else {
  const proxy = client.stringToProxy(Proxy, `${SERVANT}@${endpoint}`);
  proxy._worker.timeout = 20000;
  console.log("ready");
  require("readline")
    .createInterface({ input: process.stdin })
    .on("line", async (line) => console.log(await call(proxy, ...line.split(" "))))
    .on("close", () => process.exit(0));
}
