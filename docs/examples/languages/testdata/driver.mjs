// Plays orders.ts. If this Node does not run TypeScript, Vite, of the dashboard's tools, removes the types.
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";

const file = new URL("../orders.ts", import.meta.url);

async function compiled() {
  const vite = createRequire(new URL("../../../../web/package.json", import.meta.url)).resolve("vite");
  const { transformWithOxc } = await import(vite);
  const { code } = await transformWithOxc(await readFile(file, "utf8"), file.pathname);
  return import(`data:text/javascript;base64,${Buffer.from(code).toString("base64")}`);
}

const orders = await (process.features.typescript ? import(file) : compiled());
const [step, ...args] = process.argv.slice(2);
if (step === "verify") {
  for (let i = 0; i < args.length; i += 5) {
    const [id, time, signature, body, secret] = args.slice(i);
    console.log(orders.verify(secret, { "webhook-id": id, "webhook-timestamp": time, "webhook-signature": signature }, Buffer.from(body)));
  }
} else {
  console.log((await orders[step](args[0])) ?? "");
}
