// Receives duehook's webhooks. First: npm install standardwebhooks
import { createServer } from "node:http";
import { Webhook } from "standardwebhooks";

// Two secrets while the secret is being changed.
const webhooks = process.env.WEBHOOK_SECRETS.split(",").map((secret) => new Webhook(secret));
const maxBody = 1 << 20;
const handled = new Set(); // in production: a table with a unique key

async function receive(request) {
  const chunks = [];
  let size = 0;
  for await (const chunk of request) {
    size += chunk.length;
    if (size > maxBody) return 413;
    chunks.push(chunk);
  }
  const body = Buffer.concat(chunks); // as it came: JSON that is parsed and written again differs
  if (!webhooks.some((webhook) => verifies(webhook, body, request.headers))) return 401;

  const id = request.headers["webhook-id"];
  if (!handled.has(id)) {
    await handle(request.headers["duehook-topic"], request.headers["duehook-job-id"], body);
    handled.add(id); // after success only: a failed delivery comes again with the same id
  }
  return 200;
}

function verifies(webhook, body, headers) {
  try {
    webhook.verify(body, headers, { jsonParse: false }); // also checks the timestamp
    return true;
  } catch {
    return false;
  }
}

async function handle(topic, jobId, body) {
  console.log(topic, jobId, body.toString());
}

const server = createServer(async (request, response) => {
  const status = await receive(request).catch(() => 500); // 500: duehook tries again
  response.writeHead(status, status === 413 ? { connection: "close" } : {}).end();
});
server.listen(process.env.PORT ?? 8080, "127.0.0.1", () => {
  console.log("listening on", `127.0.0.1:${server.address().port}`);
});
