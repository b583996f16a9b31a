/** Everything that can be done from the pages, by mouse and by keyboard. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { fits, narrow, openPage, wide, within } from './lib/browser.js';
import { startNode } from './lib/node.js';
import { startReceiver } from './lib/receiver.js';
import { startSuite } from './lib/suite.js';
import { eventually, settled } from './lib/wait.js';

const { node, receiver, browser, page, go, button, link, choice, field, says } = await startSuite(['--retry-steps', '1h,2h']);

const register = (job) => node.call('POST', '/v1/jobs', job);
const stateOf = async (topic, id) => (await node.call('GET', `/v1/jobs/${topic}/${id}`)).state;

test('run, replay', async () => {
  await register({ topic: 'run', id: 'a', url: `${receiver.url}/ok`, delay: '1h' });
  await go('/jobs/run/a');
  await page.getByRole('timer').filter({ hasText: /Next attempt in 5\dm/ }).waitFor();
  await button('Run now').click();
  await says('The job is due now.');
  await page.getByText('Delivered').first().waitFor();
  await button('Replay').click();
  await says('sent again');
  await eventually('a second delivery', async () => (await node.call('GET', '/v1/jobs/run/a/attempts')).data.length === 2);
});

test('why a job waits, and its ladder to come', async () => {
  await register({ topic: 'why', id: 'a', url: `${receiver.url}/answer/503`, retry: { steps: ['2h', '3h', '4h'] } });
  await settled(node, 'why', { retrying: 1 });
  await go('/jobs/why/a');
  await page.getByText('Attempt 1 failed (HTTP 503)').waitFor();
  await page.locator('.ladder .step', { hasText: 'Attempt 1' }).waitFor();
  const steps = await page.locator('.ladder .step strong').allTextContents();
  assert.deepEqual(steps, ['Registered', 'Attempt 1', 'Attempt 2', 'Attempt 3', 'Attempt 4', 'Dead letter']);
  await page.getByText('Next step of the retry ladder').waitFor();
});

test('an attempt shows the connections that it made again', async () => {
  const closed = await startReceiver();
  await closed.stop();
  await register({ topic: 'refused', id: 'a', url: `${closed.url}/hook`, retry: { limit: 0 } });
  await settled(node, 'refused', { dead: 1 });
  await go('/jobs/refused/a');
  await page.getByText('Connection refused').first().waitFor();
  await page.getByText('Repeated connections, because the request had not been sent, or was sent twice: 2.').waitFor();
});

/** JSON that loses something when a program reads and writes it. */
const exactBody = '{ "n": 12345678901234567890, "list": [[], {}, "a,]}\\"", {"body": 1.50}], "who": "it\'s 日本 $HOME `id`" }';

test('the whole request of an attempt, and of one to come', async () => {
  const headers = { 'x-tenant': 'acme' };
  const sent = JSON.stringify({ topic: 'request', id: 'a', url: `${receiver.url}/answer/410`, headers, body: 0 }).replace(':0}', `:${exactBody}}`);
  await fetch(`${node.base}/v1/jobs`, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: sent });
  await settled(node, 'request', { dead: 1 });
  await go('/jobs/request/a');
  await page.locator('pre', { hasText: 'X-Tenant: acme' }).waitFor();
  const [{ started_at }] = (await node.call('GET', '/v1/jobs/request/a/attempts')).data;
  const { uid } = await node.call('GET', '/v1/jobs/request/a');
  assert.deepEqual((await page.locator('pre').first().textContent()).split('\n'), [
    `POST ${receiver.url}/answer/410`,
    'X-Tenant: acme',
    'Content-Type: application/json',
    `webhook-id: ${uid}`,
    `webhook-timestamp: ${Math.floor(Date.parse(started_at) / 1000)}`,
    'Duehook-Topic: request',
    'Duehook-Job-Id: a',
    'Duehook-Attempt: 1',
  ]);
  await page.locator('pre', { hasText: /^Date: /m }).waitFor(); // of the answer
  const body = page.locator('pre').nth(1);
  assert.equal(await body.textContent(), exactBody);
  await button('Indent').click();
  await page.locator('[aria-pressed=true]').waitFor();
  const lines = ['{', '  "n": 12345678901234567890,', '  "list": [', '    [],', '    {},', '    "a,]}\\"",', '    {', '      "body": 1.50', '    }', '  ],'];
  assert.deepEqual((await body.textContent()).split('\n').slice(0, lines.length), lines);

  await register({ topic: 'request', id: 'long', url: `${receiver.url}/ok`, delay: '1h', body_text: '<b>'.repeat(2000) });
  await go('/jobs/request/long');
  await page.getByText('The first 4,000 characters. The body has 6,000.').waitFor();
  assert.equal((await page.locator('pre').nth(1).textContent()).length, 4000);
  assert.equal(await page.locator('main b').count(), 0);
});

test('the curl command registers another job', async () => {
  for (const body_text of ["it's\n日本 \"$HOME\" `id` \\n !", "'".repeat(200_000)]) {
    const topic = `curl${body_text.length}`;
    await register({ topic, id: 'a', url: `${receiver.url}/ok?it='s`, delay: '2h', headers: { 'x-who': "o'neill é" }, labels: { id: 'b' }, body_text });
    await go(`/jobs/${topic}/a`);
    await button('Copy as curl').click();
    await says('Copied.');
    const command = await page.evaluate(() => navigator.clipboard.readText());
    const made = JSON.parse(execFileSync('sh', { input: command, encoding: 'utf8', stdio: ['pipe', 'pipe', 'ignore'] }));
    assert.deepEqual([made.topic, made.state, made.labels], [topic, 'waiting', { id: 'b' }]);
    assert.notEqual(made.id, 'a');
    const [first, second] = await Promise.all(['a', made.id].map((id) => node.call('GET', `/v1/jobs/${topic}/${id}/registration`)));
    assert.deepEqual({ ...second, id: 'a' }, first);
  }
});

test('reschedule', async () => {
  await register({ topic: 'later', id: 'a', url: `${receiver.url}/ok`, delay: '1h' });
  await go('/jobs/later/a');
  await button('Reschedule').click();
  await within(page.getByRole('dialog')).field('Delay').fill('3h');
  await page.getByRole('dialog').getByRole('button', { name: 'Reschedule' }).click();
  await says('rescheduled');
  await page.getByRole('timer').filter({ hasText: /2h 5\dm/ }).waitFor();
});

test('cancel, before and during an attempt', async () => {
  await register({ topic: 'cancel', id: 'a', url: `${receiver.url}/ok`, delay: '1h' });
  await register({ topic: 'cancel', id: 'b', url: `${receiver.url}/hold` });
  await go('/jobs/cancel/a');
  await button('Cancel job').click();
  await page.getByRole('dialog').waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  assert.equal(await stateOf('cancel', 'a'), 'waiting');
  await button('Cancel job').click();
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel job' }).click();
  await says('The job is cancelled.');
  assert.equal(await stateOf('cancel', 'a'), 'cancelled');
  await settled(node, 'cancel', { running: 1 });
  await go('/jobs/cancel/b');
  await page.getByText('An attempt is in flight').waitFor();
  await button('Cancel job').click();
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel job' }).click();
  await says('may still arrive');
  receiver.release();
});

test('register, first with mistakes', async () => {
  const field = (name) => page.getByLabel(name, { exact: true });
  await go('/register');
  await field('URL').fill('ftp://shop.example');
  await field('Delay').fill('soon');
  await button('Register').click();
  await page.getByRole('alert').waitFor();
  await page.getByText('must start with http:// or https://').waitFor();
  await page.getByText('is not a duration').waitFor();
  assert.equal(await field('Labels').isVisible(), false, 'what few need is folded');
  await page.getByText(/^In the time zone UTC$/).waitFor();
  await page.getByText('More options', { exact: true }).click();
  await field('URL').fill(`${receiver.url}/ok`);
  await field('Topic').fill('form');
  await field('Id').fill('order-1');
  await field('Labels').fill('shop:north plan:team');
  await field('Delay').fill('2h');
  await field('Body (JSON or text)').fill('{"order_id": 1}');
  await field('Method').selectOption('PUT');
  await field('Headers, one per line').fill('x-tenant: acme');
  await field('Retry steps').fill('15s 3m');
  await field('Retries').fill('4');
  await field('Priority, 9 first to 1 last').fill('9');
  await button('Preview').click();
  await page.getByText('If every attempt fails').waitFor();
  assert.equal(await page.locator('.ladder .step').count(), 6);
  await button('Register').click();
  await page.getByRole('heading', { name: 'order-1' }).waitFor();
  const made = await node.call('GET', '/v1/jobs/form/order-1');
  assert.deepEqual([made.state, made.method, made.max_attempts, made.priority, made.labels], ['waiting', 'PUT', 5, 9, { shop: 'north', plan: 'team' }]);
});

test('a job that consumers fetch has no URL, and nothing of a request', async () => {
  const field = (name) => page.getByLabel(name, { exact: true });
  await go('/register');
  await page.getByText('More options', { exact: true }).click();
  await field('URL').fill('ftp://shop.example');
  await field('Timeout').fill('soon');
  await field('Topic').fill('form');
  await field('Id').fill('fetched');
  await field('or fetched by consumers').check();
  for (const name of ['URL', 'Method', 'Timeout']) assert.equal(await field(name).count(), 0, name);
  await button('Register').click();
  await page.getByRole('heading', { name: 'fetched' }).waitFor();
  const made = await node.call('GET', '/v1/jobs/form/fetched');
  assert.deepEqual([made.pull, made.url], [true, null]);
});

test('a registration says what became of it', async () => {
  const url = `${receiver.url}/ok`;
  const field = (name) => page.getByLabel(name, { exact: true });
  const send = async (delay, onConflict) => {
    await go('/register');
    for (const [name, value] of Object.entries({ URL: url, Topic: 'again', Id: 'a', Delay: delay })) await field(name).fill(value);
    await page.getByText('More options', { exact: true }).click();
    await field('If the job exists').selectOption(onConflict);
    await button('Register').click();
  };
  await send('2h', 'reject');
  await says('The job is registered.');
  await send('2h', 'reject');
  await says('This job was already registered.');
  await send('3h', 'sooner');
  await says('Another job has this topic and id. It did not change.');
  await send('3h', 'later');
  await says('The due time of the existing job moved.');
  await register({ topic: 'again', id: 'dead', url: `${receiver.url}/answer/410` });
  await settled(node, 'again', { dead: 1 });
  await go('/register');
  for (const [name, value] of Object.entries({ URL: url, Topic: 'again', Id: 'dead' })) await field(name).fill(value);
  await button('Register').click();
  await page.getByRole('alert').filter({ hasText: 'A dead letter has this topic and id.' }).waitFor();
});

test('names in other scripts', async () => {
  await register({ topic: '订单', id: '甲-1', url: `${receiver.url}/ok`, delay: '1h' });
  await go('/jobs');
  await field('Search jobs').fill('topic:订');
  await page.locator('#searches option[value="topic:订单"]').waitFor({ state: 'attached' });
  await page.locator('#searches option[value="topic:run"]').waitFor({ state: 'detached' });
  await field('Search jobs').fill('topic:订单');
  await button('Search').click();
  await link('甲-1').click();
  await page.waitForURL(`**${encodeURI('/jobs/订单/甲-1')}`);
  await page.reload();
  await page.getByRole('heading', { name: '甲-1', exact: true }).waitFor();
  await page.locator('pre', { hasText: 'Duehook-Topic: %E8%AE%A2%E5%8D%95\nDuehook-Job-Id: %E7%94%B2-1' }).waitFor();
  await button('Run now').click();
  await settled(node, '订单', { delivered: 1 });
  await page.locator('.facts').getByRole('link', { name: '订单', exact: true }).click();
  await page.waitForURL(`**/jobs?topic=${encodeURIComponent('订单')}`);
  await field('Search jobs').fill('订单/甲-1');
  await button('Search').click();
  await page.getByRole('heading', { name: '甲-1', exact: true }).waitFor();
});

test('the jobs of a state are sorted', async () => {
  for (const [id, delay] of Object.entries({ a: '2h', b: '1h', c: '3h' })) await register({ topic: 'sort', id, url: `${receiver.url}/ok`, delay });
  const order = field('Order');
  const shows = (ids) =>
    eventually(`the order is ${ids}`, async () => (await page.locator('td.name a').allTextContents()).join('') === ids);
  await go('/jobs?topic=sort');
  await link('a').waitFor();
  assert.equal(await order.locator('option', { hasText: 'Due last' }).isDisabled(), true, 'which takes a state');
  await shows('bac'); // the jobs of a page are by time in any case
  await page.getByRole('link', { name: /^Waiting/ }).click();
  await shows('bac');
  for (const [chosen, ids] of [
    ['Due first', 'bac'],
    ['Due last', 'cab'],
  ]) {
    await order.selectOption(chosen);
    await shows(ids);
  }
  await page.waitForURL('**/jobs?topic=sort&state=waiting&order=-due');
  assert.equal(await order.locator('option', { hasText: 'Ended last' }).isDisabled(), true, 'which takes a state of ended jobs');
  // Of several topics, too.
  await register({ topic: 'another-sort', id: 'd', biz_key: 'sorted', url: `${receiver.url}/ok`, delay: '90m' });
  for (const id of ['e', 'f']) await register({ topic: 'sort', id, biz_key: 'sorted', url: `${receiver.url}/ok`, delay: id === 'e' ? '1h' : '2h' });
  await go('/jobs?biz_key=sorted&state=waiting');
  await order.selectOption('Due last');
  await shows('fde');
  for (const id of ['b', 'a', 'c']) await node.call('DELETE', `/v1/jobs/sort/${id}`);
  await go('/jobs?topic=sort&state=cancelled');
  await shows('cab');
  assert.equal(await order.inputValue(), '-ended', 'without a choice');
  await go('/jobs?order=due');
  await page.getByRole('alert').filter({ hasText: 'order' }).waitFor();
  await order.selectOption('By time on each page');
  await page.waitForURL('**/jobs');
  await page.getByRole('alert').waitFor({ state: 'detached' });
});

test('jobs that are tried again, and overdue ones, come first', async () => {
  await register({ topic: 'need', id: 'tried', url: `${receiver.url}/answer/503`, retry: { steps: ['3h'] } });
  await eventually('it is tried again', async () => (await node.call('GET', '/v1/jobs/need/tried')).state === 'retrying');
  await node.call('POST', '/v1/topics/need/pause', {});
  const later = Array.from({ length: 60 }, (_, n) => ({ topic: 'need', id: `later-${n}`, url: `${receiver.url}/ok`, delay: '1h' }));
  await node.call('POST', '/v1/jobs/batch', { jobs: [...later, { topic: 'need', id: 'overdue', url: `${receiver.url}/ok` }] });
  const names = () => page.locator('td.name a').allTextContents();
  await go('/jobs?topic=need');
  await field('Order').selectOption('Retrying and overdue first');
  await page.waitForURL('**/jobs?topic=need&order=need');
  await eventually('they are first', async () => (await names()).slice(0, 2).join() === 'tried,overdue');
  const seen = await names();
  assert.ok(seen.length > 40);
  await link('Next page').click();
  await eventually('the rest follows', async () => new Set([...seen, ...(await names())]).size === 62);
  assert.ok(!(await names()).some((name) => seen.includes(name)), 'and nothing again');
  await go('/jobs?topic=need&state=waiting');
  await link('later-1').waitFor();
  assert.equal(await field('Order').locator('option', { hasText: 'Retrying' }).count(), 0, 'which needs all states');
});

test('an overdue job has a badge with the reason', async () => {
  await node.call('PUT', '/v1/topics/held-up', {});
  await node.call('POST', '/v1/topics/held-up/pause', {});
  await register({ topic: 'held-up', id: 'a', url: `${receiver.url}/ok` });
  await register({ topic: 'held-up', id: 'later', url: `${receiver.url}/ok`, delay: '1h' });
  await go('/jobs?topic=held-up');
  await page.getByRole('row').filter({ hasText: 'now' }).or(page.getByRole('row').filter({ hasText: 'ago' })).getByText('Topic paused', { exact: true }).waitFor();
  assert.equal(await page.locator('.blocked').count(), 1);
});

test('search and filters are in the address', async () => {
  await register({ topic: 'find', id: 'a', biz_key: 'k1', labels: { region: 'eu' }, url: 'https://shop.example/a', delay: '1h' });
  await register({ topic: 'find', id: 'b', priority: 2, url: 'https://bank.example/b', delay: '3h' });
  await register({ topic: 'by-id', id: 'order-8070', url: 'https://mill.example/c', delay: '3h' });
  await register({ topic: 'by-id', id: 'order-8071', biz_key: '8070', url: 'https://mill.example/c', delay: '3h' });
  await go('/jobs');
  const box = field('Search jobs');
  for (const [typed, address, found] of [
    ['k1', '?biz_key=k1', ['a']],
    ['topic:find', '?topic=find', ['a', 'b']],
    ['topic:find due_to:2h', '?topic=find&due_to=2h', ['a']],
    ['endpoint:https://bank.example', '?endpoint=https%3A%2F%2Fbank.example', ['b']],
    ['https://bank.example/b?x=1', '?endpoint=https%3A%2F%2Fbank.example%2Fb%3Fx%3D1', ['b']],
    ['labels:region:eu', '?labels=region%3Aeu', ['a']],
    ['topic:find created_from:-1h state:waiting,dead', '?topic=find&created_from=-1h&state=waiting%2Cdead', ['a', 'b']],
    ['order-8070', '?id=order-8070', ['order-8070']],
    ['topic:by-id order-80', '?topic=by-id&id=order-80', ['order-8070', 'order-8071']],
    ['8070', '?biz_key=8070', ['order-8071']], // not an id that ends so
    ['id:order-8071 8070', '?id=order-8071&biz_key=8070', ['order-8071']],
    ['topic:find order-80', '?topic=find&biz_key=order-80', []],
    ['topic:find priority:2', '?topic=find&priority=2', ['b']],
    ['topic:find dialect:mykit', '?topic=find&dialect=mykit', []],
  ]) {
    await box.fill(typed);
    await box.press('Enter');
    await page.waitForURL(`**/jobs${address}`);
    await eventually(`${typed} finds ${found}`, async () => (await page.locator('td.name a').allTextContents()).sort().join() === found.join());
  }
  await page.goBack();
  await eventually('back', async () => (await box.inputValue()) === 'topic:find priority:2');
  await go('/jobs?topic=find');
  await page.locator('tr', { has: link('b') }).getByText('Priority 2').waitFor();
  assert.equal(await page.getByText('Priority 5').count(), 0, 'which most have');
  await page.getByRole('navigation', { name: 'State' }).getByText('Dead').click();
  await page.getByText('No jobs match.', { exact: true }).waitFor();
  await register({ topic: 'find:more', id: 'c', url: 'https://bank.example/c', delay: '1h' });
  for (const [typed, id] of [
    ['find/b', 'b'],
    ['find:more/c', 'c'],
  ]) {
    await go('/jobs');
    await box.fill(typed);
    await box.press('Enter');
    await page.getByRole('heading', { name: id, exact: true }).waitFor();
  }
});

test('a search typed before the first frame stays', async () => {
  await go('/topics');
  await page.evaluate(() => {
    new MutationObserver((_, observer) => {
      const box = document.querySelector('input[list=searches]');
      if (!box) return;
      observer.disconnect();
      box.value = 'k1';
      box.dispatchEvent(new Event('input', { bubbles: true }));
    }).observe(document.body, { childList: true, subtree: true });
    document.querySelector('a[href="/jobs"]').click();
  });
  await page.getByText('No jobs match', { exact: false }).or(page.locator('td.name')).first().waitFor();
  assert.equal(await field('Search jobs').inputValue(), 'k1');
});

test('filters that do not exist are refused, and select nothing', async () => {
  await register({ topic: 'filtered', id: 'a', url: `${receiver.url}/ok`, delay: '1h' });
  await go('/jobs?topic=filtered');
  await link('a').waitFor();
  const box = field('Search jobs');
  for (const [typed, fault] of [
    ['tenant:acme order 8812', 'tenant is not a filter. Write labels:tenant:acme'],
    ['order 8812', 'A job has one business key, not order, 8812.'],
    ['topic:a topic:b', 'topic can be given once.'],
    ['topic:', 'topic needs a value.'],
  ]) {
    await box.fill(typed);
    await box.press('Enter');
    await page.getByRole('alert').filter({ hasText: fault }).waitFor();
    assert.equal(await link('a').count(), 1, 'the list stays');
  }
  for (const address of ['/jobs?tpic=refused', '/jobs?label=a%3A1', '/dead?topic=refused&order=due', '/topics?topic=refused', '/jobs/refused/a?topic=b', '/jobs?topic=a&topic=b', '/?topic=a']) {
    await go(address);
    await page.getByRole('heading', { name: 'Unknown parameter in the address' }).waitFor();
    assert.equal(await button('Change all of these…').count(), 0, address);
  }
  await page.getByRole('link', { name: 'Open the page without parameters' }).click();
  await page.getByRole('heading', { name: 'Overview', exact: true }).waitFor();
});

test('rows stay where they are until new ones are asked for', async () => {
  await register({ topic: 'rows', id: 'm', url: `${receiver.url}/ok`, delay: '1h' });
  await go('/jobs?topic=rows');
  await link('m').waitFor();
  for (const id of ['a', 'z']) await register({ topic: 'rows', id, url: `${receiver.url}/ok`, delay: '1h' });
  await node.call('POST', '/v1/jobs/rows/m/run');
  await button('Show 2 new').waitFor();
  assert.deepEqual(await page.locator('td.name a').allTextContents(), ['m']);
  await page.locator('tr', { hasText: 'Delivered' }).waitFor();
  await button('Show 2 new').click();
  await eventually('all rows', async () => (await page.locator('tbody tr').count()) === 3);
});

test('events are followed', async () => {
  const { page, link, go, close } = await openPage(browser, node.base);
  // Without polls, only an event can tell the page.
  await page.addInitScript(() => {
    const every = globalThis.setInterval;
    globalThis.setInterval = (run, ms) => (ms < 3000 ? every(run, ms) : 0);
  });
  await register({ topic: 'stands', id: 'a', url: `${receiver.url}/ok`, delay: '1h' });
  const followed = page.waitForResponse(`${node.base}/v1/events`);
  await go('/topics');
  await followed;
  await link('stands').waitFor();
  await register({ topic: 'happens', id: 'a', url: `${receiver.url}/ok`, delay: '1h' });
  await page.getByRole('link', { name: 'happens' }).waitFor();
  await close();
});

test('the overview leads to its jobs', async () => {
  await register({ topic: 'soon', id: 'a', url: 'https://shop.example/a', delay: '2h' });
  await go('/');
  const figure = (name) => page.locator('.figure', { hasText: name });
  await figure('Due now').waitFor();
  for (const [name, address] of [
    ['Next hour', '/jobs?state=waiting&state=ready&state=retrying&due_to=1h'],
    ['In flight', '/jobs?state=running'],
    ['Dead letters', '/dead'],
    ['Open circuits', '/endpoints?state=open'],
    ['Alerts firing', '/alerts'],
  ]) {
    await figure(name).click();
    await page.waitForURL(`**${address}`);
    await page.goBack();
  }
  // The chart is for those who see and have a mouse; the table says the same.
  const chart = page.getByRole('img', { name: /jobs are due in the next 24 hours/ });
  await chart.locator('canvas').waitFor();
  await page.getByText('As a table').first().click();
  const listed = async () => {
    const numbers = await page.locator('.hours').first().locator('li > span').allTextContents();
    return numbers.reduce((sum, n) => sum + Number(n.replaceAll(',', '')), 0);
  };
  const { counts } = (await node.call('GET', '/v1/overview')).due;
  await eventually('the table adds up', async () => (await listed()) === counts.reduce((sum, n) => sum + n, 0));
  const box = await chart.locator('.u-over').boundingBox();
  await page.mouse.click(box.x + box.width / 2, box.y + box.height / 2);
  await page.waitForURL(/due_from=.*due_to=/);
});

test('an open circuit is tried', async () => {
  const own = await startNode(['--retry-steps', '1h', '--breaker-failures', '1', '--breaker-open', '1h']);
  const view = await openPage(browser, own.base);
  await own.call('POST', '/v1/jobs', { topic: 'circuit', id: 'fails', url: `${receiver.url}/answer/503` });
  await view.go('/');
  await view.page.locator('.figure.bad', { hasText: 'Open circuits' }).click();
  await view.page.getByText(/half-open in 5\dm/).waitFor();
  await own.call('POST', '/v1/jobs', { topic: 'circuit', id: 'waits', url: `${receiver.url}/ok` });
  await view.page.getByRole('button', { name: 'Try now' }).click();
  await settled(own, 'circuit', { delivered: 1, retrying: 1 });
  await view.page.getByText('No endpoints.').waitFor(); // that are open
  await view.page.getByRole('navigation', { name: 'State' }).getByText('Circuit closed').click();
  await view.page.locator('tr', { hasText: 'HTTP 503' }).waitFor();
  await view.close();
  await own.stop();
});

test('a topic is paused, drained and resumed', async () => {
  await register({ topic: 'steered', id: 'a', url: `${receiver.url}/ok`, delay: '1h' });
  await go('/topics/steered');
  const status = async () => (await node.call('GET', '/v1/topics/steered')).state;
  for (const [name, says, want] of [
    ['Pause topic', 'Paused', 'paused'],
    ['Drain topic', 'Draining', 'draining'],
    ['Resume topic', 'Active', 'active'],
  ]) {
    await button(name).click();
    await page.locator('.toolbar .state').filter({ hasText: says }).waitFor();
    assert.equal(await status(), want);
  }
  const until = new Date(Date.now() + 26 * 3_600_000).toISOString();
  await node.call('POST', '/v1/topics/steered/pause', { until, note: 'the warehouse moves, and nobody is there to answer until Monday' });
  await page.locator('.toolbar').getByText('until Monday').waitFor();
  for (const viewport of [narrow, { width: 1366, height: 860 }]) {
    await page.setViewportSize(viewport);
    await fits(page, 'a topic that is paused with a note');
  }
  await page.setViewportSize(wide);
});

test('a topic is set up, changed and reset', async () => {
  const secret = 'whsec_YW4gZXhhbXBsZTsgbmV2ZXIgdXNlIGl0IGluIGVhcm4=';
  const field = (name) => page.getByLabel(name, { exact: true });
  const wrong = (name) => page.locator('.field', { hasText: name }).locator('.wrong');
  await go('/topics');
  await page.getByRole('link', { name: 'Set up a topic' }).click();
  await field('Name').fill('set up');
  await field('Deliveries per second').fill('fast');
  await field('Timeout').fill('soon');
  await field('Priority of its jobs, 9 first, 1 last').fill('10');
  await button('Save').click();
  await page.getByRole('alert').filter({ hasText: 'Not saved' }).waitFor();
  await field('Name').fill('set-up');
  await button('Save').click();
  await wrong('Deliveries per second').filter({ hasText: 'must be a number' }).waitFor();
  await wrong('Timeout').filter({ hasText: 'is not a duration' }).waitFor();
  await wrong('Priority of its jobs').filter({ hasText: 'must be from 1 to 9' }).waitFor();
  assert.ok(await page.evaluate(() => document.activeElement.matches('[aria-invalid=true]')), 'what is wrong has the focus');
  await field('Deliveries per second').fill('2.5');
  await field('Timeout').fill('5s');
  await field('Retry steps').fill('1m, 2m');
  await field('Headers, one per line').fill('X-Tenant: acme');
  await field('Priority of its jobs, 9 first, 1 last').fill('7');
  await button('Save').click();
  await page.getByRole('heading', { name: 'set-up', exact: true }).waitFor();
  await page.getByText('2.5', { exact: true }).waitFor();
  const { settings } = await node.call('GET', '/v1/topics/set-up');
  assert.deepEqual(
    [settings.rate, settings.timeout, settings.retry.steps, settings.headers, settings.priority],
    [2.5, '5s', ['1m', '2m'], { 'X-Tenant': 'acme' }, 7],
  );

  await page.getByRole('link', { name: 'Edit' }).click();
  assert.equal(await field('Timeout').inputValue(), '5s');
  await field('Deliveries per second').fill('');
  await button('Save').click();
  await page.getByRole('link', { name: 'Edit' }).waitFor();
  const changed = await node.call('GET', '/v1/topics/set-up');
  assert.deepEqual(changed.settings, { ...settings, rate: null });

  await go('/topics/set-up/edit');
  const dialog = page.getByRole('dialog');
  await button('Set a new secret').click();
  await within(dialog).field('Secret (whsec_…)').fill(secret);
  await dialog.getByRole('button', { name: 'Set a new secret' }).click();
  await page.getByText('secrets of its own').waitFor();
  assert.ok(!(await page.content()).includes(secret));
  await button('Set a new secret').click();
  await dialog.getByRole('button', { name: 'Set a new secret' }).click();
  await page.locator('.signing pre', { hasText: 'whsec_' }).waitFor();
  assert.equal((await node.call('GET', '/v1/topics/set-up/signing')).secrets.length, 3);
  await button('Use the default secret').click();
  await dialog.getByRole('button', { name: 'Use the default secret' }).click();
  await page.getByText('signed with the default secret').waitFor();
  await button('Reset the settings').click();
  await dialog.getByRole('button', { name: 'Reset the settings' }).click();
  await says('The settings are reset.');
  await page.getByText('The topic has no jobs and no settings').waitFor();
});

test('alert rules are made, tested, changed and deleted', async () => {
  const field = (name) => page.getByLabel(name, { exact: true });
  const row = (name) => page.getByRole('row').filter({ has: page.getByRole('link', { name, exact: true }) });
  await node.call('PUT', '/v1/alerts/rules/watched', { metric: 'dead_letters', topic: 'watched', above: 0 });
  await register({ topic: 'watched', id: 'a', url: `${receiver.url}/answer/410` });
  await go('/alerts');
  await page.getByRole('link', { name: 'New rule' }).click();
  await field('Name').fill('late');
  await field('Metric').selectOption('Oldest due job');
  assert.equal(await field('Endpoint').count(), 0, 'which that metric cannot be told apart by');
  await field('URL to notify').fill(`${receiver.url}/answer/418`);
  await button('Save').click();
  await page.locator('.field', { hasText: 'Above' }).getByText('is required').waitFor();
  await field('Above').fill('300');
  await button('Save').click();
  await row('late').getByText('> 5m').waitFor();
  assert.equal((await node.call('GET', '/v1/alerts/rules/late')).above, 300);

  await button('Send a test for the rule late').click();
  const dialog = page.getByRole('dialog');
  assert.match(await within(dialog).field('Body (JSON or text)').inputValue(), /\[TEST\] late/);
  await dialog.getByRole('button', { name: 'Send' }).click();
  await page.getByRole('status').filter({ hasText: 'Result of the test' }).getByText('HTTP 418').waitFor();

  await row('late').getByRole('link').click();
  assert.equal(await field('Above').inputValue(), '300');
  await field('Metric').selectOption('Dead letters');
  await field('Above').fill('7');
  await button('Save').click();
  await row('late').getByText('Dead letters').waitFor();

  const firing = page.getByRole('row').filter({ hasText: 'watched' }).filter({ hasText: '1 / 0' });
  await firing.getByText('1 / 0').waitFor(); // it is evaluated every five seconds
  await firing.getByRole('link', { name: 'watched', exact: true }).first().click();
  await page.getByRole('heading', { name: 'watched' }).waitFor();
  await node.call('DELETE', '/v1/alerts/rules/watched');

  await go('/alerts');
  await button('Delete the rule late').click();
  await dialog.getByRole('button', { name: 'Delete' }).click();
  await says('The rule is deleted.');
  await row('late').waitFor({ state: 'detached' });
});

test('a form does not undo what somebody else saved meanwhile', async () => {
  const changed = page.getByRole('alert').filter({ hasText: 'Someone else changed this meanwhile.' });
  await node.call('PUT', '/v1/topics/shared', { rate: 1 });
  await go('/topics/shared/edit');
  await field('Deliveries per second').fill('2');
  await node.call('PUT', '/v1/topics/shared', { rate: 3 });
  await button('Save').click();
  await changed.waitFor();
  assert.equal((await node.call('GET', '/v1/topics/shared')).settings.rate, 3);

  await node.call('PUT', '/v1/alerts/rules/shared', { metric: 'backlog', above: 1 });
  await go('/alerts/shared');
  await field('Above').fill('2');
  await node.call('PUT', '/v1/alerts/rules/shared', { metric: 'backlog', above: 3 });
  await button('Save').click();
  await changed.waitFor();
  assert.equal((await node.call('GET', '/v1/alerts/rules/shared')).above, 3);
  await page.reload();
  await field('Above').fill('2');
  await button('Save').click();
  await says('The rule is saved');
  await node.call('DELETE', '/v1/alerts/rules/shared');
});

test('a test is sent', async () => {
  await go('/endpoints');
  await button('Send a test…').click();
  const dialog = page.getByRole('dialog');
  await within(dialog).field('URL').fill(`${receiver.url}/answer/418`);
  await within(dialog).field('Body (JSON or text)').fill('hello');
  await dialog.getByRole('button', { name: 'Send' }).click();
  const card = page.getByRole('status').filter({ hasText: 'Result of the test' });
  await card.getByText('HTTP 418').waitFor();
  await card.locator('pre', { hasText: 'try again later' }).waitFor();
  await card.getByRole('button', { name: 'Close' }).click();
  await card.waitFor({ state: 'detached' });
  await register({ topic: 'tested', id: 'a', url: 'https://tested.example/a', delay: '1h' });
  await button('Send a test to https://tested.example:443').click();
  assert.equal(await within(dialog).field('URL').inputValue(), 'https://tested.example/');
});

test('pages follow each other', async () => {
  const jobs = Array.from({ length: 60 }, (_, i) => ({ topic: 'paged', id: `p${i}`, url: `${receiver.url}/ok`, delay: '1h' }));
  await node.call('POST', '/v1/jobs/batch', { jobs });
  await go('/jobs?topic=paged');
  const ids = async () => page.locator('td.name a').allTextContents();
  await eventually('a full page', async () => (await ids()).length === 50);
  const first = await ids();
  await page.getByRole('link', { name: 'Next page' }).click();
  await eventually('the rest', async () => (await ids()).length === 10);
  assert.equal(new Set([...first, ...(await ids())]).size, 60);
  await page.getByRole('link', { name: 'First page' }).click();
  await eventually('the first again', async () => (await ids()).length === 50);
});

test('the topics with the most unfinished jobs come first', async () => {
  const jobs = ['rank-a', 'rank-b', 'rank-b', 'rank-b', 'rank-c', 'rank-c'].map((topic, i) => ({ topic, id: `r${i}`, url: `${receiver.url}/ok`, delay: '1h' }));
  await node.call('POST', '/v1/jobs/batch', { jobs });
  await go('/topics?q=rank-');
  const shows = (names) => eventually(`the topics are ${names}`, async () => (await page.locator('td.name a').allTextContents()).join(' ') === names);
  await shows('rank-a rank-b rank-c');
  await choice('Order').selectOption('Most unfinished jobs first');
  await page.waitForURL('**/topics?q=rank-&order=-unfinished');
  await shows('rank-b rank-c rank-a');
  await choice('Order').selectOption('By name');
  await shows('rank-a rank-b rank-c');
  // Many more topics than one page in this order has.
  await page.route('**/v1/topics?order=-unfinished', async (route) => {
    const answer = await route.fetch();
    const { data } = await answer.json();
    await route.fulfill({ response: answer, json: { data: Array.from({ length: 100 }, (_, i) => ({ ...data[0], name: `many-${i}` })), next_cursor: null } });
  });
  await go('/topics?order=-unfinished');
  await page.getByText('These are the 100 topics with the most unfinished jobs.').waitFor();
  await page.unrouteAll({ behavior: 'wait' });
});

test('dead letters are replayed', async () => {
  for (const id of ['a', 'b', 'c']) await register({ topic: 'letters', id, url: `${receiver.url}/answer/410` });
  await settled(node, 'letters', { dead: 3 });
  await go('/dead');
  await page.locator('tr', { hasText: 'letters' }).locator('.name').getByRole('link').click();
  await page.waitForURL(/reason=receiver_gone/);
  assert.ok(await button('Replay 0 selected').isDisabled());
  await page.setViewportSize(narrow); // which shows one column only
  await page.getByRole('checkbox', { name: 'Select all on this page' }).check();
  await button('Replay 3 selected').waitFor();
  await page.setViewportSize(wide);
  await page.getByRole('checkbox', { name: 'Select b', exact: true }).uncheck();
  await button('Replay 2 selected').click();
  await page.getByRole('dialog').getByRole('button', { name: 'Replay' }).click();
  await says('2 jobs are sent again.');
  await eventually('two more attempts', async () => (await node.call('GET', '/v1/jobs/letters/a/attempts')).data.length === 2);
  assert.equal((await node.call('GET', '/v1/jobs/letters/b/attempts')).data.length, 1);
});

test('a dead letter is corrected, and one is discarded', async () => {
  for (const id of ['a', 'b']) await register({ topic: 'mend', id, url: `${receiver.url}/answer/410`, body: { n: 1 } });
  await settled(node, 'mend', { dead: 2 });
  await go('/jobs/mend/a');
  await button('Correct and replay…').click();
  const dialog = page.getByRole('dialog');
  await within(dialog).field('URL').fill(`${receiver.url}/ok`);
  await within(dialog).field('Body').fill('{"n":12345678901234567890}');
  await dialog.getByRole('button', { name: 'Replay' }).click();
  await says('sent again');
  await settled(node, 'mend', { delivered: 1, dead: 1 });
  const registration = await (await fetch(`${node.base}/v1/jobs/mend/a/registration`)).text();
  assert.match(registration, /"body":{"n":12345678901234567890}/);
  await go('/jobs/mend/b');
  await button('Discard').click();
  await dialog.getByRole('button', { name: 'Discard' }).click();
  await says('The dead letter is discarded.');
  await settled(node, 'mend', { delivered: 1, cancelled: 1 });
  await page.getByText('A client discarded this dead letter. A replay restores it.').waitFor();
  await button('Replay').click();
  await says('sent again');
});

test('a job is found by its webhook-id', async () => {
  const { uid } = await register({ topic: 'found', id: 'by-uid', url: `${receiver.url}/ok`, delay: '1h' });
  await go('/jobs');
  await field('Search jobs').fill(uid.toLowerCase());
  await button('Search').click();
  await page.waitForURL(new RegExp(`uid=${uid}`));
  await eventually('one job', async () => (await page.locator('tbody tr').count()) === 1);
  await link('by-uid').waitFor();
});

test('many at once: counted, replayed, stopped and resumed', async () => {
  const jobs = Array.from({ length: 30 }, (_, i) => ({ topic: 'bulk', id: `b${i}`, url: `${receiver.url}/ok`, delay: '1h' }));
  await node.call('POST', '/v1/jobs/batch', { jobs });
  await go('/jobs?topic=bulk');
  await button('Change all of these…').click();
  assert.ok(await page.getByRole('dialog').getByRole('button', { name: 'Change many jobs' }).isDisabled(), 'no action is chosen');
  await within(page.getByRole('dialog')).choice('Action').selectOption('Replay jobs');
  await page.getByText('0 jobs', { exact: true }).waitFor(); // that could be replayed
  assert.ok(await page.getByRole('dialog').getByRole('button', { name: 'Replay jobs' }).isDisabled());
  await within(page.getByRole('dialog')).choice('Action').selectOption('Run jobs now');
  await page.getByText('30 jobs').waitFor();
  await field('Jobs per second').fill('5');
  await page.getByRole('dialog').getByRole('button', { name: 'Run jobs now' }).click();
  await page.getByRole('heading', { name: 'Operations' }).waitFor();
  await page.getByRole('button', { name: 'Stop' }).click();
  await page.getByText('Stopped').waitFor();
  const { delivered } = (await node.call('GET', '/v1/topics/bulk')).states;
  assert.ok(delivered < 30, `${delivered} delivered when stopped`);
  await page.getByRole('main').getByRole('button', { name: 'Resume' }).click();
  await page.getByText('Running').waitFor();
});

test('all jobs of a server are changed only on purpose', async () => {
  await go('/jobs');
  await button('Change all of these…').click();
  const dialog = page.getByRole('dialog');
  await within(dialog).choice('Action').selectOption('Reschedule jobs');
  await dialog.getByText(/^[1-9]\d* jobs$/).waitFor();
  assert.ok(await dialog.getByRole('button', { name: 'Reschedule jobs' }).isDisabled());
  await dialog.getByLabel('Change all jobs on this server, of all topics').check();
  assert.ok(await dialog.getByRole('button', { name: 'Reschedule jobs' }).isEnabled());
  await page.keyboard.press('Escape');
});

test('an operation shows what it changes in each job', async () => {
  await node.call('POST', '/v1/operations', { action: 'replay', filter: { topic: 'none-such' }, set: { url: `${receiver.url}/ok`, timeout: '5s' } });
  await go('/operations');
  await page.getByText('Changes in each job: url, timeout').waitFor();
});

test('all dead letters are replayed', async () => {
  for (const id of ['a', 'b']) await register({ topic: 'revived', id, url: `${receiver.url}/answer/410` });
  await settled(node, 'revived', { dead: 2 });
  await go('/dead');
  await page.locator('tr', { hasText: 'revived' }).locator('.name').getByRole('link').click();
  await button('Replay all…').click();
  await page.getByRole('dialog').getByText('2 jobs').waitFor();
  await page.getByRole('dialog').getByRole('button', { name: 'Replay jobs' }).click();
  await eventually('a second attempt', async () => (await node.call('GET', '/v1/jobs/revived/b/attempts')).data.length === 2);
});

test('all dead letters of a group are discarded', async () => {
  for (const id of ['a', 'b']) await register({ topic: 'given-up', id, url: `${receiver.url}/answer/410` });
  await settled(node, 'given-up', { dead: 2 });
  await go('/dead?topic=given-up');
  await button('Discard all…').click();
  await page.getByRole('dialog').getByText('2 jobs').waitFor();
  await page.getByRole('dialog').getByRole('button', { name: 'Discard dead letters' }).click();
  await settled(node, 'given-up', { dead: 0, cancelled: 2 });
});

test('an operation shows its time, who began it, and no total that nobody knows', async () => {
  const began = await node.call('POST', '/v1/operations', { action: 'reschedule', filter: { topic: 'none-such', labels: { a: 'b' } }, delay: '2h' });
  assert.equal(began.estimate, null);
  await page.route('**/v1/operations?*', async (route) => {
    const response = await route.fetch();
    const list = await response.json();
    list.data = list.data.filter(({ id }) => id === began.id).map((one) => ({ ...one, by: 'ops' }));
    await route.fulfill({ response, json: list });
  });
  await go('/operations');
  const card = page.locator('.operation');
  await card.getByText('New due time:').waitFor();
  await card.getByText('0 examined, 0 changed').waitFor();
  await card.getByText('by ops').waitFor();
  await page.unrouteAll({ behavior: 'wait' });
});

test('a closed circuit is green after a failure, too', async () => {
  await register({ topic: 'shaky', id: 'a', url: `${receiver.url}/answer/503` });
  await eventually('an attempt failed', async () => (await node.call('GET', '/v1/jobs/shaky/a')).attempts > 0);
  await go('/endpoints');
  await page.locator('tr', { hasText: new URL(receiver.url).host }).locator('.circuit-closed').waitFor();
});

test('a few high columns do not flatten the others', async () => {
  await page.route('**/v1/overview', async (route) => {
    const response = await route.fetch();
    const overview = await response.json();
    overview.due.counts = overview.due.counts.map((_, step) => (step === 5 ? 12_345 : 10 + (step % 3)));
    await route.fulfill({ response, json: overview });
  });
  await go('/');
  await page.getByText('The highest columns are cut off.').waitFor();
  await page.unrouteAll({ behavior: 'wait' });
});

test('a failing job leads to its endpoint, an overdue topic to the reason, an alert to its jobs', async () => {
  const own = await startNode(['--retry-steps', '1h', '--breaker-failures', '1', '--breaker-open', '1h']);
  const view = await openPage(browser, own.base);
  const heading = (name) => view.page.getByRole('heading', { name, level: 1, exact: true }).waitFor();
  await own.call('PUT', '/v1/alerts/rules/down', { metric: 'open_circuits' });
  await own.call('PUT', '/v1/alerts/rules/dead', { metric: 'dead_letters', above: 0 });
  await own.call('POST', '/v1/jobs', { topic: 'lead', id: 'gone', url: `${receiver.url}/answer/410` });
  await own.call('POST', '/v1/jobs', { topic: 'lead', id: 'fails', url: `${receiver.url}/answer/503` });
  await settled(own, 'lead', { dead: 1, retrying: 1 });
  await own.call('POST', '/v1/jobs', { topic: 'lead', id: 'waits', url: `${receiver.url}/ok` });

  await view.go('/topics/lead');
  const overdue = view.page.locator('.card', { hasText: 'Due jobs that nobody has taken: 1' });
  await overdue.getByText('Circuit open.').waitFor();
  await overdue.getByRole('link', { name: 'waits' }).click();
  await heading('waits');
  await view.page.locator('.reasons').getByRole('link', { name: `Open ${receiver.url}` }).click();
  await heading(receiver.url);
  await view.page.getByText('HTTP 503').waitFor();
  await view.go('/jobs/lead/fails');
  await view.page.locator('.facts').getByRole('link', { name: new URL(receiver.url).host }).click();
  await heading(receiver.url);

  await view.go('/alerts');
  const value = (rule) => view.page.locator('section', { hasText: 'Firing now' }).getByRole('row').filter({ hasText: rule }).locator('.number a');
  await value('down').click();
  await heading(receiver.url);
  await view.go('/alerts');
  await value('dead').click();
  await view.page.getByRole('link', { name: 'gone' }).waitFor();
  await heading('lead');
  await view.close();
  await own.stop();
});

test('firing alerts have pages', async () => {
  const alert = (rule) => ({ id: rule, rule, metric: 'dead_letters', topic: 't', endpoint: null, node: null, value: 3, threshold: 1, fired_at: new Date().toISOString() });
  const all = Array.from({ length: 51 }, (_, n) => alert(`burns${n}`));
  await page.route('**/v1/alerts?*', (route) => {
    const asked = new URL(route.request().url()).searchParams;
    const from = Number(asked.get('cursor') ?? 0);
    const rest = all.slice(from);
    const limit = Number(asked.get('limit'));
    return route.fulfill({ json: { data: rest.slice(0, limit), next_cursor: rest.length > limit ? String(from + limit) : null } });
  });
  await go('/alerts');
  await page.getByText('burns49').waitFor();
  await button('Next page').click();
  await page.getByText('burns50').waitFor();
  await page.unrouteAll({ behavior: 'wait' });
});

test('by keyboard alone', async () => {
  await register({ topic: 'keys', id: 'a', url: `${receiver.url}/ok`, delay: '1h' });
  await go('/');
  await page.getByRole('heading', { name: 'Overview' }).waitFor();
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Skip to content');
  const tabTo = async (name) => {
    for (let i = 0; i < 40; i++) {
      await page.keyboard.press('Tab');
      if ((await page.evaluate(() => document.activeElement.textContent.trim())) === name) return;
    }
    assert.fail(`${name} is not reached by Tab`);
  };
  await tabTo('Topics');
  await page.keyboard.press('Enter');
  await page.getByRole('link', { name: 'keys' }).waitFor();
  await tabTo('keys');
  await page.keyboard.press('Enter');
  await page.getByRole('link', { name: 'All jobs of this topic' }).waitFor();
  await tabTo('All jobs of this topic');
  await page.keyboard.press('Enter');
  await link('a').waitFor();
  await tabTo('a');
  await page.keyboard.press('Enter');
  await button('Cancel job').waitFor();
  await tabTo('Cancel job');
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').waitFor();
  await tabTo('Cancel job');
  await page.keyboard.press('Enter');
  await says('The job is cancelled.');
  assert.equal(await stateOf('keys', 'a'), 'cancelled');
});

test('pause, and the mark of what is stale', async () => {
  const own = await startNode();
  const view = await openPage(browser, own.base);
  await view.go('/topics');
  await view.page.getByText('No topics yet').waitFor();
  await view.page.getByRole('button', { name: 'Pause' }).click();
  await view.page.getByText('Paused').waitFor();
  await own.call('POST', '/v1/jobs', { topic: 'fresh', url: 'https://shop.example/a', delay: '1h' });
  await view.page.getByRole('button', { name: 'Resume' }).click();
  await view.page.getByText('fresh').waitFor();
  await own.stop();
  await view.page.getByText('Stale').waitFor();
  await view.page.getByRole('alert').filter({ hasText: 'cannot be reached' }).waitFor();
  await view.page.getByText('fresh').waitFor();
  await view.close();
});
