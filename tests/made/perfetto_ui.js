// The trace processor of the Perfetto UI (engine_bundle.js and its wasm), run outside a browser.
// node engine.js FOLDER REQUESTS REPLIES: every request of a file (4 bytes of length, then a message) is posted to the
// engine as the UI's page does; what it replies is written one after the other.
const fs = require("fs"), path = require("path"), vm = require("vm");
const [folder, requests, replies] = process.argv.slice(2);
const read = (url) => fs.readFileSync(path.join(folder, path.basename(new URL(url, "http://ui/").pathname)));

function fail(error) {
  process.stderr.write(String(error && error.stack || error).slice(-1500));
  process.exit(1);
}
process.on("unhandledRejection", fail);
process.on("uncaughtException", fail);

let ready = false; // the engine puts its reply function into the wasm's table just before it takes requests
const scope = {
  TextDecoder, TextEncoder, performance, setTimeout, clearTimeout, URL, crypto,
  console: { log() {}, info() {}, warn() {}, error() {} },
  location: { href: "http://ui/engine_bundle.js" },
  importScripts() {}, WorkerGlobalScope: function () {},
  XMLHttpRequest: class {
    open(_, url) { this.url = url; }
    send() {
      const bytes = read(this.url);
      this.status = 200;
      this.response = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
      if (this.onload) this.onload();
    }
  },
  fetch: async (url) => ({ ok: true, arrayBuffer: async () => { const b = read(url); return b.buffer.slice(b.byteOffset, b.byteOffset + b.length); } }),
  settled() { ready = true; },
};
scope.self = scope.globalThis = scope;
vm.createContext(scope);
vm.runInContext(`
  delete WebAssembly.instantiateStreaming;
  const set = WebAssembly.Table.prototype.set;
  WebAssembly.Table.prototype.set = function (...all) { settled(); return set.apply(this, all); };
  var copy = (bytes) => new Uint8Array(bytes);
`, scope);
vm.runInContext(read("engine_bundle.js").toString("utf8"), scope);
const out = fs.openSync(replies, "w");
const port = { onmessage: null, postMessage: (data) => fs.writeSync(out, data) };
scope.onmessage({ data: port });
const held = fs.readFileSync(requests);

function post() {
  if (!ready) return setTimeout(post, 20);
  for (let place = 0; place < held.length; ) {
    const size = held.readUInt32LE(place);
    port.onmessage({ data: scope.copy(held.subarray(place + 4, place + 4 + size)) });
    place += 4 + size;
  }
  fs.closeSync(out);
  process.exit(0);
}
post();
