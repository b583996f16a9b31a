/** A client generated from the OpenAPI document works against a node. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { generated } from './lib/generated.js';
import { startNode } from './lib/node.js';

const node = await startNode();
after(() => node.stop());

test('a generated client registers, looks up, lists and cancels', async () => {
  const client = generated(node.base);
  const job = await client.register('order-timeout', 'order-1', 'https://shop.example/hook');
  assert.deepEqual([job.result, job.state], ['created', 'waiting']);
  assert.deepEqual(await client.job('order-timeout', 'order-1'), { state: 'waiting', dueAt: job.due_at, headers: {} });
  assert.deepEqual(await client.waiting('order-timeout'), ['order-1']);
  assert.deepEqual(await client.schedule(), { next: 10, listed: [{ name: 'nightly', coming: true }] });
  assert.equal(await client.attempts(), 96);
  assert.equal(await client.cancel('order-timeout', 'order-1'), 'cancelled');
  assert.deepEqual(await client.job('order-timeout', 'nobody'), { code: 'job_not_found' });
  await assert.rejects(client.register('order-timeout', 'order-2', 'nowhere'), { message: '422 invalid_request' });
});
