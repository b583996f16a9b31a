// pg is one of the dashboard's tools for tests.
const { Client } = require(require.resolve("pg", { paths: ["../../../../web"] }));

const { DB_USER: user, DB_HOST: host, DB_PORT: port } = process.env;

async function main() {
  const { placeOrder } = await import("../orders.mjs");
  const client = new Client({ user, host, port: Number(port), database: "postgres" });
  await client.connect();
  for (const order of process.argv.slice(2)) {
    await placeOrder(client, Number(order), 100).then(() => console.log(order), (error) => console.error(error));
  }
  await client.end();
}

main();
