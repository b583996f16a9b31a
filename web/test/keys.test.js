/** Where API keys are asked for. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { after, before, test } from 'node:test';
import { launch, openPage } from './lib/browser.js';
import { binary, startNode } from './lib/node.js';

/** Makes a key, as an operator would. */
function newKey(scope, ...more) {
  const printed = execFileSync(binary, ['apikey', 'new', '--scope', scope, '--name', scope, ...more], { encoding: 'utf8' });
  const field = (name) => new RegExp(`^${name}\\s+(.*)$`, 'm').exec(printed)[1];
  return { token: field('token'), line: field('line') };
}

let node, browser, reader, admin, tenant;
before(async () => {
  [reader, admin, tenant] = [newKey('read'), newKey('admin'), newKey('write', '--topics', 'orders*')];
  [node, browser] = await Promise.all([startNode([reader, admin, tenant].flatMap(({ line }) => ['--api-keys', line])), launch()]);
  const headers = { Authorization: `Bearer ${admin.token}` };
  await node.call('POST', '/v1/jobs', { topic: 'orders', id: 'a', url: 'https://shop.example/a', delay: '1h' }, headers);
  await node.call('PUT', '/v1/schedules/nightly', { cron: '30 2 * * *', job: { url: 'https://shop.example/a' } }, headers);
});
after(async () => {
  await browser.close();
  await node.stop();
});

test('a key is asked for, and kept in the tab', async () => {
  const { page, go, close } = await openPage(browser, node.base);
  await go('/topics');
  await page.getByLabel('API key', { exact: true }).waitFor();
  assert.equal(await page.locator('.live').count(), 0, 'nothing is live without a key');
  await page.getByLabel('API key', { exact: true }).fill('dh_nonsense');
  await page.getByRole('button', { name: 'Continue' }).click();
  await page.getByText('malformed API key').waitFor();
  await page.getByLabel('API key', { exact: true }).fill(admin.token);
  await page.getByLabel('API key', { exact: true }).press('Enter');
  await page.getByRole('link', { name: 'orders' }).waitFor();
  await page.reload();
  await page.getByRole('link', { name: 'orders' }).waitFor();
  assert.equal(await page.evaluate(() => localStorage.length), 2, 'only theme and language are kept for good');
  await page.getByRole('button', { name: 'Forget API key' }).click();
  await page.getByLabel('API key', { exact: true }).waitFor();
  await close();
});

test('a key of some topics begins with their jobs', async () => {
  const { page, go, close } = await openPage(browser, node.base, { key: tenant.token });
  await go('/');
  await page.getByRole('link', { name: 'a', exact: true }).waitFor();
  await page.getByText('orders*').waitFor();
  for (const name of ['Overview', 'Groups', 'Endpoints', 'Alerts']) assert.equal(await page.getByRole('navigation').getByRole('link', { name }).count(), 0);
  await go('/schedules');
  await page.getByRole('heading', { name: 'Schedules' }).waitFor();
  assert.equal(await page.getByRole('link', { name: 'nightly' }).count(), 0);
  await close();
});

test('an admin creates a key of some topics, and revokes it', async () => {
  const { page, go, close } = await openPage(browser, node.base, { key: admin.token });
  await go('/keys');
  await page.getByRole('button', { name: 'New API key' }).click();
  await page.getByLabel('Name').fill('fetcher');
  await page.getByLabel('Scope').selectOption('consume');
  await page.getByLabel('Topics').fill('orders-*, pay ments');
  await page.getByLabel('Most requests').fill('none');
  await page.getByRole('button', { name: 'Create' }).click();
  await page.getByText('must be requests/duration').waitFor();
  await page.getByLabel('Most requests').fill('5/1s');
  await page.getByRole('button', { name: 'Create' }).click();
  await page.getByText('This is the token of the new key.').waitFor();
  const token = await page.locator('pre').textContent();
  const headers = { Authorization: `Bearer ${token}` };
  const whoAmI = async () => (await fetch(`${node.base}/v1/whoami`, { headers })).status;
  assert.equal(await whoAmI(), 403, 'a consumer may fetch jobs only');
  const row = page.getByRole('row', { name: 'fetcher' });
  for (const text of ['consume: fetches jobs of pull queues', 'orders-*, pay, ments', '5/1s']) await row.getByText(text).waitFor();
  await row.getByRole('button', { name: 'Revoke' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click();
  await row.waitFor({ state: 'detached' });
  assert.equal(await whoAmI(), 401);
  await close();
});

test('why a key is wanted outlasts an answer that is given up', async () => {
  const { page, go, close } = await openPage(browser, node.base);
  // The answer to the page itself has begun when that of the events asks for a key, and is given up before it is read.
  await page.route('**/v1/whoami', (route) => route.fulfill({ json: { key: 'gone', key_name: null, scope: 'admin', topics: null } }));
  await page.addInitScript(() => {
    const { fetch } = globalThis;
    const { json } = Response.prototype;
    const until = async (holds) => {
      while (!holds()) await new Promise(requestAnimationFrame);
    };
    let given, begun;
    globalThis.fetch = (url, options) => {
      if (url.endsWith('/v1/topics')) given = options.signal;
      return fetch(url, options);
    };
    Response.prototype.json = async function () {
      if (this.url.endsWith('/v1/events')) await until(() => begun);
      if (!this.url.endsWith('/v1/topics')) return json.call(this);
      begun = true;
      await until(() => given.aborted);
      setTimeout(() => (globalThis.givenUp = true));
      throw new DOMException('The request was given up.', 'AbortError');
    };
  });
  await go('/topics');
  await page.waitForFunction(() => globalThis.givenUp);
  await page.getByText('The request has no API key').waitFor();
  await close();
});

test('the curl command leaves the key to the shell', async () => {
  const { page, go, close } = await openPage(browser, node.base, { key: admin.token });
  await go('/jobs/orders/a');
  await page.getByRole('button', { name: 'Copy as curl' }).click();
  await page.getByText('Copied.').waitFor();
  const command = await page.evaluate(() => navigator.clipboard.readText());
  assert.ok(!command.includes(admin.token));
  const env = { ...process.env, TOKEN: admin.token };
  const { id } = JSON.parse(execFileSync('sh', { input: command, env, encoding: 'utf8', stdio: ['pipe', 'pipe', 'ignore'] }));
  await go(`/jobs/orders/${id}`);
  await page.getByRole('heading', { name: id }).waitFor();
  await close();
});

test('a key to read is offered nothing that changes', async () => {
  const { page, go, close } = await openPage(browser, node.base, { key: reader.token });
  const refused = [];
  page.on('response', (answer) => answer.status() === 403 && refused.push(answer.url()));
  await go('/jobs/orders/a');
  await page.getByText('read · read only').waitFor();
  await page.getByRole('heading', { name: 'Retry ladder' }).waitFor();
  await page.getByText('Headers and body may hold secrets').waitFor();
  for (const name of ['Run now', 'Cancel job', 'Copy as curl']) assert.equal(await page.getByRole('button', { name }).count(), 0);
  assert.equal(await page.getByRole('link', { name: 'Register a job' }).count(), 0);
  assert.deepEqual(refused, [], 'nothing is asked for that the key may not see');
  await go('/endpoints');
  await page.getByRole('link', { name: 'shop.example' }).waitFor();
  for (const name of ['Send a test…', 'Test…']) assert.equal(await page.getByRole('button', { name }).count(), 0);
  await go('/alerts');
  await page.getByText('No alert is firing.').waitFor();
  assert.equal(await page.getByRole('link', { name: 'New rule' }).count(), 0);
  await go('/topics/orders');
  await page.getByText('No limits and no defaults.').waitFor();
  assert.equal(await page.getByRole('link', { name: 'Edit' }).count(), 0);
  await go('/topics/orders/edit');
  await page.getByText('This needs an API key of scope write.').waitFor();
  await go('/schedules');
  await page.getByRole('link', { name: 'nightly' }).waitFor();
  assert.equal(await page.getByRole('link', { name: 'New schedule' }).count(), 0);
  await go('/schedules/nightly');
  await page.getByText('Time zone data').waitFor();
  for (const name of ['Run now', 'Pause schedule', 'Delete']) assert.equal(await page.getByRole('button', { name }).count(), 0);
  assert.equal(await page.getByRole('link', { name: 'Edit' }).count(), 0);
  await go('/schedules/nightly/edit');
  await page.getByText('This needs an API key of scope write.').waitFor();
  assert.deepEqual(refused, [], 'nothing is asked for that the key may not see');
  await go('/register');
  await page.getByLabel('URL', { exact: true }).fill('https://shop.example/a');
  await page.getByRole('button', { name: 'Register' }).click();
  await page.getByText('Your API key does not allow this.').waitFor();
  await close();
});
