/** Writes the order and its timeout: both, or none. The client is one of pg, such as one of a pool. */
export async function placeOrder(client, order, total) {
  const job = {
    topic: "order-timeout", id: `order-${order}`, delay: "30m",
    url: "https://shop.example/hooks/timeout", body: { order_id: order },
  };
  try {
    await client.query("BEGIN");
    await client.query("INSERT INTO orders (id, total) VALUES ($1, $2)", [order, total]);
    await client.query("INSERT INTO duehook_inbox (request) VALUES ($1)", [JSON.stringify(job)]);
    await client.query("COMMIT");
  } catch (error) {
    await client.query("ROLLBACK");
    throw error;
  }
}
