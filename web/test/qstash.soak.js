/** The unmodified SDK of QStash works with the dialect: what it sends, reads and verifies. */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { after, before, test } from 'node:test';
import { Client, Receiver } from '@upstash/qstash';
import { startNode } from './lib/node.js';
import { eventually } from './lib/wait.js';

let node, client, hook, server;
const got = []; // the deliveries

before(async () => {
  server = createServer((req, res) => {
    const body = [];
    req.on('data', (part) => body.push(part)).on('end', () => {
      got.push({ path: req.url, method: req.method, headers: req.headers, body: Buffer.concat(body).toString() });
      if (req.url.startsWith('/final')) res.setHeader('Upstash-NonRetryable-Error', 'true');
      res.writeHead(req.url.startsWith('/fails') ? 500 : req.url.startsWith('/final') ? 489 : 200).end('answer');
    });
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  hook = `http://127.0.0.1:${server.address().port}`;
  node = await startNode(['--dialects', 'qstash']);
  client = new Client({ baseUrl: node.base, token: 'any', retry: false });
});
after(async () => {
  await node.stop();
  server.closeAllConnections();
  server.close();
});

const delivered = async (path) => {
  await eventually(`a delivery to ${path}`, () => got.some((d) => d.path === path));
  return got.find((d) => d.path === path);
};

test('a message is delivered with a signature that the Receiver verifies', async () => {
  const sent = await client.publishJSON({
    url: `${hook}/paid?a=1`, body: { n: 1 }, headers: { 'X-Tenant': 'acme', 'Authorization': 'Bearer theirs' }, label: ['vip', 'eu'],
  });
  const d = await delivered('/paid?a=1');
  assert.equal(d.headers['upstash-message-id'], sent.messageId);
  assert.equal(d.headers['x-tenant'], 'acme');
  assert.equal(d.headers.authorization, 'Bearer theirs');
  assert.equal(d.headers['content-type'], 'application/json');
  const keys = await (await fetch(`${node.base}/v2/keys`)).json();
  const receiver = new Receiver({ currentSigningKey: keys.current, nextSigningKey: keys.next });
  const signature = d.headers['upstash-signature'];
  assert.ok(await receiver.verify({ signature, body: d.body, url: `${hook}/paid?a=1` }));
  await assert.rejects(receiver.verify({ signature, body: 'another' }));
  await assert.rejects(receiver.verify({ signature, body: d.body, url: `${hook}/elsewhere` }));
});

test('messages can be read and cancelled', async () => {
  const sent = await client.publish({ url: `${hook}/later`, body: 'x', delay: '1d10h30m', retries: 2, retryDelay: '1000 * (1 + retried)' });
  const m = await client.messages.get(sent.messageId);
  assert.equal(m.url, `${hook}/later`);
  assert.equal(m.maxRetries, 2);
  assert.equal(m.notBefore - m.createdAt, (34.5 * 3600) * 1000);
  assert.equal(m.retryDelayExpression, '1000 * (1 + retried)');
  await client.messages.cancel(sent.messageId);
  await assert.rejects(client.messages.get(sent.messageId), (e) => e.status === 404);
  await client.publish({ url: `${hook}/later`, delay: '1h', label: 'many' });
  await client.publish({ url: `${hook}/later`, delay: '1h', label: 'many' });
  assert.deepEqual(await client.messages.cancel({ filter: { label: 'many' } }), { cancelled: 2 });
});

test('deduplication, batches and errors', async () => {
  const once = await client.publish({ url: `${hook}/once`, body: '1', deduplicationId: 'o-1' });
  const twice = await client.publish({ url: `${hook}/once`, body: '2', deduplicationId: 'o-1' });
  assert.deepEqual([twice.messageId, twice.deduplicated], [once.messageId, true]);
  const batch = await client.batchJSON([
    { url: `${hook}/batch1`, body: { a: 1 } },
    { queueName: 'batched', url: `${hook}/batch2`, body: { a: 2 } },
  ]);
  assert.equal(batch.length, 2);
  assert.equal((await delivered('/batch2')).body, '{"a":2}');
  await assert.rejects(client.publish({ url: 'ftp://shop.example' }), (e) => e.status === 400 && /invalid scheme/.test(e.message));
});

test('queues', async () => {
  const queue = client.queue({ queueName: 'orders' });
  await queue.upsert({ parallelism: 2 });
  await queue.pause();
  await queue.enqueueJSON({ url: `${hook}/queued`, body: 1 });
  const q = await queue.get();
  assert.deepEqual([q.name, q.parallelism, q.paused, q.lag], ['orders', 2, true, 1]);
  assert.ok((await queue.list()).some((one) => one.name === 'orders'));
  await queue.resume();
  await delivered('/queued');
  await queue.delete();
  await assert.rejects(queue.get(), (e) => e.status === 404);
});

test('url groups', async () => {
  await client.urlGroups.addEndpoints({ name: 'g', endpoints: [{ name: 'one', url: `${hook}/g1` }, { url: `${hook}/g2` }] });
  assert.equal((await client.urlGroups.get('g')).endpoints.length, 2);
  const sent = await client.publishJSON({ urlGroup: 'g', body: {} });
  assert.equal(sent.length, 2);
  assert.equal((await delivered('/g2')).headers['upstash-topic-name'], 'g');
  await client.urlGroups.removeEndpoints({ name: 'g', endpoints: [{ name: 'one' }] });
  assert.equal((await client.urlGroups.list()).length, 1);
  await client.urlGroups.delete('g');
  assert.equal((await client.urlGroups.list()).length, 0);
});

test('schedules', async () => {
  const { scheduleId } = await client.schedules.create({
    destination: `${hook}/scheduled`, cron: 'CRON_TZ=Asia/Shanghai 30 4 * * *', body: '{"k":1}', scheduleId: 'nightly', retries: 1,
    headers: { 'Content-Type': 'application/json' },
  });
  assert.equal(scheduleId, 'nightly');
  const s = await client.schedules.get('nightly');
  assert.deepEqual([s.cron, s.retries, s.isPaused, s.body], ['CRON_TZ=Asia/Shanghai 30 4 * * *', 1, false, '{"k":1}']);
  await client.schedules.pause({ schedule: 'nightly' });
  assert.equal((await client.schedules.list())[0].isPaused, true);
  await client.schedules.resume({ schedule: 'nightly' });
  await client.schedules.delete('nightly');
  assert.deepEqual(await client.schedules.list(), []);
});

test('a schedule for a url group', async () => {
  await client.urlGroups.addEndpoints({ name: 'ticks', endpoints: [{ name: 'one', url: `${hook}/tick1` }, { name: 'two', url: `${hook}/tick2` }] });
  const { scheduleId } = await client.schedules.create({ destination: 'ticks', cron: '0 0 1 1 *', body: 'tick', retries: 1 });
  await node.call('POST', `/v1/schedules/${scheduleId}/run`);
  for (const path of ['/tick1', '/tick2']) assert.equal((await delivered(path)).body, 'tick');
  assert.equal((await client.schedules.get(scheduleId)).destination, 'ticks');
  await client.schedules.delete(scheduleId);
  await client.urlGroups.delete('ticks');
});

test('callbacks, dead letters and logs', async () => {
  const sent = await client.publish({
    url: `${hook}/fails`, body: 'hi', retries: 0, callback: `${hook}/callback`, failureCallback: `${hook}/failure`,
  });
  const callback = JSON.parse((await delivered('/failure')).body);
  assert.deepEqual([callback.status, callback.sourceMessageId, atob(callback.body), atob(callback.sourceBody)], [500, sent.messageId, 'answer', 'hi']);
  await delivered('/callback');
  const { messages } = await client.dlq.listMessages({ filter: { responseStatus: 500 } });
  assert.deepEqual([messages.length, messages[0].messageId, messages[0].dlqId, messages[0].responseBody], [1, sent.messageId, callback.dlqId, 'answer']);
  const { logs } = await client.logs({ filter: { messageId: sent.messageId } });
  assert.deepEqual(logs.map((l) => l.state), ['FAILED', 'ERROR', 'ACTIVE', 'CREATED']);
  const again = await client.dlq.retry({ dlqIds: [messages[0].dlqId] });
  assert.equal(again.responses.length, 1);
  await eventually('the second failure', () => got.filter((d) => d.path === '/failure').length === 2);
  await client.dlq.delete(messages[0].dlqId);
  assert.deepEqual((await client.dlq.listMessages()).messages, []);

  const final = await client.publish({ url: `${hook}/final`, retries: 5, failureCallback: `${hook}/final-failure` });
  await delivered('/final-failure');
  assert.equal(got.filter((d) => d.path === '/final').length, 1);
  assert.equal((await client.dlq.listMessages()).messages[0].messageId, final.messageId);
});

test('kills lose no message that was acknowledged', async (t) => {
  let killed = await startNode(['--dialects', 'qstash']);
  const acknowledged = new Set();
  let next = 0, kills = 0;
  const send = async () => {
    for (let n = next++; n < 600; n = next++) {
      for (;;) {
        try {
          const { base } = killed;
          await new Client({ baseUrl: base, token: 'any', retry: false }).publish({
            url: `${hook}/kept`, body: String(n), delay: n % 4, deduplicationId: `kept-${n}`,
          });
          acknowledged.add(String(n));
          break;
        } catch (e) {
          if (e.status) throw e;
          await eventually('a node again', () => killed.up !== false);
        }
      }
    }
  };
  const publishers = Promise.all(Array.from({ length: 8 }, send));
  while (kills < 3) {
    await eventually('some messages', () => acknowledged.size >= (kills + 1) * 120);
    killed.up = false;
    await killed.kill();
    killed = await startNode(['--dialects', 'qstash'], killed.dir);
    kills++;
  }
  await publishers;
  const kept = () => got.filter((d) => d.path === '/kept');
  await eventually('all deliveries', () => new Set(kept().map((d) => d.body)).size === acknowledged.size);
  assert.equal(acknowledged.size, 600);
  t.diagnostic(`${kills} kills, ${acknowledged.size} messages, ${kept().length} deliveries`);
  await killed.stop();
});

test('flow control', async () => {
  await client.publish({ url: `${hook}/flow`, flowControl: { key: 'acme', parallelism: 2, rate: 10, period: '1m' } });
  await delivered('/flow');
  const key = await client.flowControl.get('acme');
  assert.deepEqual([key.flowControlKey, key.parallelismMax, key.rateMax, key.ratePeriod], ['acme', 2, 10, 60]);
  await client.flowControl.pause('acme');
  assert.equal((await client.flowControl.get('acme')).isPaused, true);
  await client.flowControl.resume('acme');
});
