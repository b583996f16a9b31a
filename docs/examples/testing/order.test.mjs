// node --test docs/examples/testing/order.test.mjs
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";

let duehook, base;

before(async () => {
  duehook = spawn(process.env.DUEHOOK ?? "duehook", ["dev", "--frozen", "--addr", "127.0.0.1:0"], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  for await (const line of createInterface({ input: duehook.stdout })) {
    base = line.match(/http:\/\/\S+/)?.[0];
    if (base) return;
  }
  throw new Error("duehook did not start");
});

after(async () => {
  duehook.kill();
  await once(duehook, "exit");
});

async function call(method, path, body) {
  const headers = { "Content-Type": "application/json", Connection: "close" };
  const response = await fetch(base + path, { method, headers, body: body && JSON.stringify(body) });
  assert.ok(response.ok, `${method} ${path}: ${response.status}`);
  return response.json();
}

test("an order that is not paid is closed after 30 minutes", async () => {
  await call("PUT", "/v1/dev/sinks/shop", { answers: [{ status: 503 }, { status: 200 }] });
  // Your code would register this job.
  const body = { order: 1 };
  await call("POST", "/v1/jobs", { topic: "orders", id: "1", url: "http://sink/shop/close", delay: "30m", body });

  assert.equal((await call("POST", "/v1/dev/clock", { advance: "29m" })).attempts, 0);
  assert.equal((await call("POST", "/v1/dev/clock", { advance: "2m" })).attempts, 2); // the second one after 15 s

  const { requests } = await call("GET", "/v1/dev/sinks/shop");
  assert.deepEqual(requests.map((r) => [r.path, JSON.parse(r.body), r.signature]), [
    ["/close", body, "valid"],
    ["/close", body, "valid"],
  ]);
  assert.equal(Date.parse(requests[1].at) - Date.parse(requests[0].at), 15_000);
  assert.equal((await call("GET", "/v1/jobs/orders/1")).state, "delivered");
});
