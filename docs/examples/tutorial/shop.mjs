// An order service: closes orders that nobody pays, and notifies a merchant of payments.
import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";

export function shop({ duehook, merchant, secret, token }) {
  const orders = new Map(); // states by id; a database in a real shop
  const headers = { "Content-Type": "application/json", Connection: "close", ...(token && { Authorization: `Bearer ${token}` }) };

  async function call(method, path, body) {
    const answer = await fetch(duehook + path, { method, headers, body: body && JSON.stringify(body) });
    if (!answer.ok) throw new Error(await answer.text());
  }

  const server = createServer(async (request, response) => {
    const parts = [];
    for await (const part of request) parts.push(part);
    const body = Buffer.concat(parts);
    if (!verify(secret, request.headers, body)) return response.writeHead(401).end();
    const { order } = JSON.parse(body);
    if (orders.get(order) === "unpaid") orders.set(order, "closed"); // a cancelled timeout may still arrive
    response.writeHead(200).end();
  });

  return {
    server,
    orders,
    /** Stores an order and registers its timeout. Repeating it changes nothing. */
    async place(order) {
      if (!orders.has(order)) orders.set(order, "unpaid");
      const url = `http://127.0.0.1:${server.address().port}/hooks/close`;
      await call("POST", "/v1/jobs", { topic: "order-timeout", id: order, delay: "30m", url, body: { order } });
    },
    /** Cancels the timeout and notifies the merchant until it answers "success". */
    async pay(order) {
      if (orders.get(order) !== "unpaid") return;
      orders.set(order, "paid");
      await call("DELETE", `/v1/jobs/order-timeout/${encodeURIComponent(order)}`);
      await call("POST", "/v1/jobs", { topic: "payment-notify", id: order, url: merchant, body: { paid: order }, expect: { body: "success" } });
    },
  };
}

/** Whether a delivery is genuine. The body is the bytes as they came. */
function verify(secret, headers, body) {
  const { "webhook-id": id = "", "webhook-timestamp": time = "", "webhook-signature": signatures = "" } = headers;
  if (!/^\d{1,15}$/.test(time) || Math.abs(Date.now() / 1000 - Number(time)) > 300) return false;
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  const wanted = Buffer.from("v1," + createHmac("sha256", key).update(`${id}.${time}.`).update(body).digest("base64"));
  return signatures.split(" ").map((one) => Buffer.from(one)).some((one) => one.length === wanted.length && timingSafeEqual(one, wanted));
}
