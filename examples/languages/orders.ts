// Registers a job when an order is placed, cancels it when it is paid, and verifies deliveries. No packages.
import { createHmac, timingSafeEqual } from "node:crypto";

const headers = { "Content-Type": "application/json", Authorization: `Bearer ${process.env.DUEHOOK_TOKEN}` };
const call = (method: string, path: string, body?: unknown) =>
  fetch(process.env.DUEHOOK_URL + path, { method, headers, body: JSON.stringify(body) });

export async function placed(order: number): Promise<void> {
  const job = { topic: "orders", id: `${order}`, url: process.env.SHOP_URL, delay: "30m", body: { order } };
  const answer = await call("POST", "/v1/jobs", job); // safe to repeat: the same id and content is the same job
  if (!answer.ok) throw new Error((await answer.json()).detail);
}

export const paid = (order: number) => call("DELETE", `/v1/jobs/orders/${order}`);

/** What a receiver answers. `again later` uses no attempt; 410 gives up; any other failure follows the ladder. */
export const againLater = { status: 503, headers: { "Duehook-Action": "snooze", "Retry-After": "60" } };

/** Whether a delivery is genuine. The body is the bytes as they came. */
export function verify(secret: string, headers: Record<string, string>, body: string): boolean {
  const { "webhook-id": id, "webhook-timestamp": time, "webhook-signature": signatures } = headers;
  if (!signatures || Math.abs(Date.now() / 1000 - Number(time)) > 300) return false;
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  const wanted = Buffer.from("v1," + createHmac("sha256", key).update(`${id}.${time}.${body}`).digest("base64"));
  return signatures.split(" ").some((one) => one.length === wanted.length && timingSafeEqual(Buffer.from(one), wanted));
}
