// Plays orders.ts: Vite, of the dashboard's tools, removes the types.
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";

const vite = createRequire(new URL("../../../web/package.json", import.meta.url)).resolve("vite");
const { transformWithOxc } = await import(vite);
const file = new URL("../orders.ts", import.meta.url).pathname;
const { code } = await transformWithOxc(await readFile(file, "utf8"), file);
const orders = await import(`data:text/javascript;base64,${Buffer.from(code).toString("base64")}`);

const [step, ...args] = process.argv.slice(2);
if (step === "verify") {
  const [id, time, signature, body, secret] = args;
  console.log(orders.verify(secret, { "webhook-id": id, "webhook-timestamp": time, "webhook-signature": signature }, body));
} else {
  await orders[step](Number(args[0]));
}
