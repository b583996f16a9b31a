// node --test docs/examples/tutorial/shop.test.mjs
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import { shop } from "./shop.mjs";

const secret = "whsec_ZHVlaG9vay1kZXYtc2VjcmV0LWtub3duLXRvLWFsbCE="; // of every duehook dev
let process_, duehook;

before(async () => {
  process_ = spawn(process.env.DUEHOOK ?? "duehook", ["dev", "--frozen", "--addr", "127.0.0.1:0"], { stdio: ["ignore", "pipe", "inherit"] });
  for await (const line of createInterface({ input: process_.stdout })) {
    duehook = line.match(/http:\/\/\S+/)?.[0];
    if (duehook) return;
  }
  throw new Error("duehook did not start");
});

after(async () => {
  process_.kill();
  await once(process_, "exit");
});

async function dev(method, path, body) {
  const headers = { "Content-Type": "application/json", Connection: "close" };
  const answer = await fetch(`${duehook}/v1/dev${path}`, { method, headers, body: body && JSON.stringify(body) });
  assert.ok(answer.ok, `${method} ${path}: ${answer.status}`);
  return answer.json();
}

test("unpaid orders are closed, and the merchant hears of payments", async () => {
  await dev("PUT", "/sinks/merchant", { answers: [{ status: 503 }, { status: 200, body: "success" }] });
  const s = shop({ duehook, secret, merchant: "http://sink/merchant/paid" });
  await once(s.server.listen(0, "127.0.0.1"), "listening");
  try {
    await s.place("1");
    await s.place("2");
    await s.pay("2");
    await dev("POST", "/clock", { advance: "1h" }); // takes milliseconds

    assert.equal(s.orders.get("1"), "closed");
    assert.equal(s.orders.get("2"), "paid");
    const { requests } = await dev("GET", "/sinks/merchant");
    assert.deepEqual(requests.map((one) => JSON.parse(one.body)), [{ paid: "2" }, { paid: "2" }]);
  } finally {
    s.server.close();
    s.server.closeAllConnections();
  }
});
