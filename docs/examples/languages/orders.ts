// Registers a job when an order is placed, cancels it when it is paid, and verifies deliveries. No packages.
import { createHmac, timingSafeEqual } from "node:crypto";

const { DUEHOOK_URL, DUEHOOK_TOKEN, SHOP_URL } = process.env;
const headers = { "Content-Type": "application/json", ...(DUEHOOK_TOKEN && { Authorization: `Bearer ${DUEHOOK_TOKEN}` }) };

async function call(method: string, path: string, body?: unknown): Promise<Response> {
  const answer = await fetch(DUEHOOK_URL + path, { method, headers, body: JSON.stringify(body) });
  if (!answer.ok) throw new Error(await answer.text()); // a problem document
  return answer;
}

export async function placed(order: string): Promise<void> { // safe to repeat: the same id and content is the same job
  await call("POST", "/v1/jobs", { topic: "orders", id: order, url: SHOP_URL, delay: "30m", body: { order } });
}

/** Whether the job never arrives. Otherwise (202) an attempt is in flight, and the receiver has to look. */
export async function paid(order: string): Promise<boolean> {
  return (await call("DELETE", `/v1/jobs/orders/${encodeURIComponent(order)}`)).status === 200;
}

/** What a receiver answers. `again later` uses no attempt; 410 gives up; any other failure follows the ladder. */
export const againLater = { status: 503, headers: { "Duehook-Action": "snooze", "Retry-After": "60" } };

/** Whether a delivery is genuine. The body is the bytes as they came. */
export function verify(secret: string, headers: Record<string, string | undefined>, body: Uint8Array): boolean {
  const { "webhook-id": id = "", "webhook-timestamp": time = "", "webhook-signature": signatures = "" } = headers;
  if (!/^\d{1,15}$/.test(time) || Math.abs(Date.now() / 1000 - Number(time)) > 300) return false;
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  const wanted = Buffer.from("v1," + createHmac("sha256", key).update(`${id}.${time}.`).update(body).digest("base64"));
  const given = signatures.split(" ").map((one) => Buffer.from(one));
  return given.some((one) => one.length === wanted.length && timingSafeEqual(one, wanted));
}
