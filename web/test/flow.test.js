/** What is around single deliveries: spreads, and what receivers ask for. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, fits, narrow, wide } from './lib/browser.js';
import { startSuite } from './lib/suite.js';
import { settled } from './lib/wait.js';

const { node, receiver, page, go, button, link, field, says } = await startSuite(['--retry-steps', '1h,2h']);

const get = (path) => node.call('GET', `/v1/${path}`);
const more = () => page.getByText('More options', { exact: true }).click();
const wrong = (name) => page.locator('.field', { hasText: name }).locator('.wrong').waitFor();
const fact = (name, text) => page.locator('.facts').getByText(name, { exact: true }).locator('xpath=following-sibling::dd[1]').filter({ hasText: text }).waitFor();

test('a job with a spread', async () => {
  await go('/register');
  await more();
  await field('URL').fill(`${receiver.url}/ok`);
  await field('Topic').fill('herd');
  await field('Id').fill('a');
  await field('Delay').fill('1h');
  await field('Spread over').fill('25h');
  await button('Register').click();
  await wrong('Spread over');
  await field('Spread over').fill('5m');
  await button('Register').click();
  await says('The job is registered.');
  await fact('Spread', 'over 5m');
  assert.equal((await get('jobs/herd/a')).spread, '5m');
});

test('the URL of jobs that name none', async () => {
  await go('/topics/calm/edit');
  await field('URL of jobs that name none').fill('nowhere');
  await button('Save').click();
  await wrong('URL of jobs that name none');
  await field('URL of jobs that name none').fill(`${receiver.url}/ok`);
  await button('Save').click();
  await says('The topic is saved.');
  await fact('URL of jobs that name none', `${receiver.url}/ok`);
  await node.call('POST', '/v1/jobs', { topic: 'calm', id: 'without', delay: '1h' });
  assert.equal((await get('jobs/calm/without')).url, `${receiver.url}/ok`);
  await go('/topics/calm/edit');
  await field('URL of jobs that name none').fill('');
  await button('Save').click();
  await says('The topic is saved.');
  await page.getByText('No limits and no defaults.').waitFor();
});

test('a spread of the jobs of a topic', async () => {
  await go('/topics/calm/edit');
  await field('Spread over').fill('10m');
  await button('Save').click();
  await says('The topic is saved.');
  await fact('Spread over', '10m');
  assert.equal((await get('topics/calm')).settings.spread, '10m');
});

test('a spread of the jobs of a schedule', async () => {
  await go('/schedules?new');
  await more();
  await field('Name').fill('calm');
  await field('Cron expression').fill('0 9 * * *');
  await field('URL').fill(`${receiver.url}/ok`);
  await field('Spread over').fill('10m');
  await page.getByText(/^due \d+\w* .*later$/).first().waitFor();
  await button('Save').click();
  await says('The schedule is saved.');
  await page.getByRole('heading', { name: 'calm', level: 1, exact: true }).waitFor();
  assert.equal((await get('schedules/calm/registration')).job.spread, '10m');
});

test('what the form of a topic does not show stays', async () => {
  await node.call('PUT', '/v1/topics/calm', { rate: 10 });
  await page.route('**/v1/topics/calm', async (route) => {
    if (route.request().method() === 'GET') {
      const response = await route.fetch();
      const topic = await response.json();
      await route.fulfill({ response, json: { ...topic, settings: { ...topic.settings, of_a_newer_server: { a: 1 }, unset: null } } });
    } else await route.continue();
  });
  await go('/topics/calm/edit');
  await field('Deliveries per second').fill('20');
  const sent = page.waitForRequest((request) => request.method() === 'PUT');
  await button('Save').click();
  assert.deepEqual((await sent).postDataJSON(), { rate: 20, of_a_newer_server: { a: 1 } });
  await page.unrouteAll({ behavior: 'wait' });
  await page.locator('[role=alert]').waitFor(); // this server does not know it
});

test('a receiver reschedules a job', async () => {
  await node.call('POST', '/v1/jobs', { topic: 'told', id: 'a', url: `${receiver.url}/reschedule/${new Date(Date.now() + 86_400_000).toISOString()}` });
  await settled(node, 'told', { retrying: 1 });
  await go('/jobs/told/a');
  await page.getByText('The receiver set the time (Duehook-At); the attempt counts').waitFor();
  await fact('Attempts', '1 of 3');
  await node.call('POST', '/v1/jobs', { topic: 'told', id: 'b', url: `${receiver.url}/reschedule/soon` });
  await settled(node, 'told', { retrying: 2 });
  await go('/jobs/told/b');
  await page.getByText('Rescheduled without Duehook-At').first().waitFor();
});

test('callbacks of a job', async () => {
  await go('/register');
  await more();
  await field('URL').fill(`${receiver.url}/answer/410`);
  await field('Topic').fill('reports');
  await field('Id').fill('a');
  await field('URL when dead').fill('nowhere');
  await button('Register').click();
  await wrong('URL when dead');
  await field('URL when dead').fill(`${receiver.url}/outcomes`);
  await field('URL for each failed attempt').fill(`${receiver.url}/failures`);
  await field('Retry steps of callbacks').fill('10s 1m');
  await button('Register').click();
  await says('The job is registered.');
  await settled(node, 'reports', { dead: 1, delivered: 2 });
  assert.deepEqual((await get('jobs/reports/a/registration')).callbacks.retry.steps, ['10s', '1m']);
  await page.locator('.facts').getByText('/failures').waitFor();
  await page.locator('.facts').getByRole('link', { name: 'Attempt failed 1' }).waitFor();
  await accessible(page, 'a job with callbacks');
  await page.locator('.facts').getByRole('link', { name: 'Dead', exact: true }).click();
  await fact('Callback of', 'Dead');
  const { uid } = await get('jobs/reports/a');
  await fact('webhook-id', `${uid}_dead`);
  await page.locator('pre', { hasText: `webhook-id: ${uid}_dead\n` }).waitFor();
  await page.locator('.facts').getByRole('link', { name: 'a', exact: true }).click();
  await page.getByRole('heading', { name: 'a', level: 1, exact: true }).waitFor();
  await go('/jobs?topic=reports');
  await page.getByRole('row').filter({ hasText: '.attempt_failed.1' }).getByText('Callback', { exact: true }).waitFor();
  await field('Search jobs').fill(`${uid}.attempt_failed.1`);
  await button('Search').click();
  await page.waitForURL(new RegExp(`uid=${uid}$`));
});

test('a job several places back in its order key', async () => {
  for (const [id, delay] of [['first', '1h'], ['second', '2h'], ['third', '3h']])
    await node.call('POST', '/v1/jobs', { topic: 'lined-up', id, order_key: 'k', url: `${receiver.url}/ok`, delay, timeout: '7s' });
  await go('/jobs/lined-up/third');
  await page.getByText('2 jobs of its order key go first').waitFor();
  assert.equal(await page.getByRole('timer').count(), 0);
  await fact('Timeout', '7s');
  await go('/jobs/lined-up/second');
  await page.getByRole('timer').waitFor();
});

test('what a request says of a group, a count and a schedule', async () => {
  await node.call('PUT', '/v1/groups/members', { members: [{ name: 'a', url: `${receiver.url}/ok` }] });
  await node.call('POST', '/v1/jobs', { topic: 'told', id: 'g', group: 'members', count: { target: 2 } });
  await go('/jobs/told/g:a');
  await page.locator('pre', { hasText: 'Duehook-Count: 0\nDuehook-Group: members\nDuehook-Group-Id: g' }).waitFor();
  await node.call('PUT', '/v1/schedules/told', { every: '1h', paused: true, job: { topic: 'told', url: `${receiver.url}/answer/503` } });
  const { id } = await node.call('POST', '/v1/schedules/told/run');
  await settled(node, 'told', { waiting: 1, retrying: 3 }); // two are of the receiver that reschedules
  await go(`/jobs/told/${id}`);
  const { time } = (await get(`jobs/told/${id}`)).occurrence;
  await page.locator('pre', { hasText: `Duehook-Schedule: told\nDuehook-Schedule-Time: ${time}` }).waitFor();
});

test('callbacks of the jobs of a topic', async () => {
  const headers = { 'X-Kind': 'done' };
  await node.call('PUT', '/v1/topics/heard', { callbacks: { delivered: { url: `${receiver.url}/done`, headers }, expired: { url: `${receiver.url}/late` } } });
  await go('/topics/heard/edit');
  await field('URL when dead').fill(`${receiver.url}/dead`);
  await field('URL when expired').fill('');
  await field('Retries of callbacks').fill('5');
  await button('Save').click();
  await says('The topic is saved.');
  await fact('URL when dead', '/dead');
  const { delivered, dead, expired, retry } = (await get('topics/heard')).settings.callbacks;
  assert.deepEqual([delivered.headers, delivered.url, dead.url, expired ?? null, retry.limit], [headers, `${receiver.url}/done`, `${receiver.url}/dead`, null, 5]);
});

test('order key and callbacks of the jobs of a schedule', async () => {
  const headers = { 'X-Kind': 'done' };
  const job = { url: `${receiver.url}/ok`, callbacks: { delivered: { url: `${receiver.url}/done`, headers }, retry: { limit: 5 } } };
  await node.call('PUT', '/v1/schedules/heard', { every: '1h', job });
  await go('/schedules/heard/edit');
  await field('Order key').fill('customer-8812');
  await field('URL when dead').fill('nowhere');
  await button('Save').click();
  await wrong('URL when dead');
  await field('URL when dead').fill(`${receiver.url}/dead`);
  await button('Save').click();
  await says('The schedule is saved.');
  await page.getByRole('heading', { name: 'heard', level: 1, exact: true }).waitFor();
  const { order_key: key, callbacks } = (await get('schedules/heard/registration')).job;
  const { delivered, dead, retry } = callbacks;
  assert.deepEqual([key, delivered.headers, dead.url, retry.limit], ['customer-8812', headers, `${receiver.url}/dead`, 5]);
});

test('a schedule for a group is changed and run', async () => {
  await node.call('PUT', '/v1/groups/flow', { members: ['a', 'b'].map((name) => ({ name, url: `${receiver.url}/ok` })) });
  await node.call('PUT', '/v1/schedules/fans', { every: '1h', job: { topic: 'fans', group: 'flow' } });
  await go('/schedules/fans/edit');
  assert.equal(await field('or group').inputValue(), 'flow');
  await field('or interval').fill('2h');
  await button('Save').click();
  await says('The schedule is saved.');
  const { every, job } = await get('schedules/fans/registration');
  assert.deepEqual([every, job.group, job.url ?? null], ['2h', 'flow', null]);
  await button('Run now').click();
  await says('Registered, and due now.');
  await settled(node, 'fans', { delivered: 2 });
});

test('a schedule whose jobs have none of the callbacks of their topic', async () => {
  await node.call('PUT', '/v1/schedules/silent', { every: '1h', job: { url: `${receiver.url}/ok`, callbacks: {} } });
  await go('/schedules/silent/edit');
  await field('or interval').fill('2h');
  await button('Save').click();
  await says('The schedule is saved.');
  assert.deepEqual((await get('schedules/silent/registration')).job.callbacks, {});
});

test('jobs of an order key', async () => {
  await go('/topics/ordered/edit');
  await field('Order key with a dead letter').selectOption('stop');
  await button('Save').click();
  await says('The topic is saved.');
  await fact('Order key with a dead letter', 'Stop its other jobs');
  await node.call('POST', '/v1/jobs', { topic: 'ordered', id: 'a', order_key: 'k', url: `${receiver.url}/answer/410` });
  await settled(node, 'ordered', { dead: 1 });
  await go('/register');
  await more();
  await field('URL').fill(`${receiver.url}/ok`);
  await field('Topic').fill('ordered');
  await field('Id').fill('b');
  await field('Order key').fill('k');
  await button('Register').click();
  await says('The job is registered.');
  const stopped = 'The dead letter a stops its order key k until it is replayed or discarded.';
  await page.locator('.reasons', { hasText: stopped }).waitFor();
  await page.locator('.ladder .step.next', { hasText: 'Waiting' }).waitFor();
  assert.equal(await page.locator('.ladder .step', { hasText: 'Attempt' }).count(), 0);
  await accessible(page, 'a job that waits for another');
  await link('k').click();
  await link('a').waitFor();
  assert.equal(await field('Search jobs').inputValue(), 'topic:ordered order_key:k');
  await link('b').click();
  await page.getByRole('link', { name: 'Open a' }).click();
  await button('Discard').click();
  await page.getByRole('dialog').getByRole('button', { name: 'Discard' }).click();
  await says('The dead letter is discarded.');
  await settled(node, 'ordered', { delivered: 1 });
});

const counted = (text) => page.locator('.count strong', { hasText: text }).waitFor();

test('a job that fires at a count', async () => {
  await go('/register');
  await more();
  await field('URL').fill(`${receiver.url}/ok`);
  await field('Topic').fill('counted');
  await field('Id').fill('a');
  await field('or at the count').fill('none');
  await button('Register').click();
  await wrong('or at the count');
  await field('or at the count').fill('3');
  await field('If the count is not reached').selectOption('expire');
  await button('Register').click();
  await says('The job is registered.');
  await counted('0 of 3');
  await page.getByText('Expires at its due time').waitFor();
  await page.getByText('It waits for 3 more counts. Without them it expires').waitFor();
  await node.call('POST', '/v1/jobs/counted/a/count', { add: 1 });
  await counted('1 of 3');
  await accessible(page, 'a count');
  await go('/jobs?topic=counted');
  await page.getByRole('row').getByText('1 of 3').waitFor();
  await link('a').click();
  await button('Add 1').click();
  await says('Counted.');
  await counted('2 of 3');
  await button('Add 1').click();
  await settled(node, 'counted', { delivered: 1 });
  await page.locator('.count').getByText('has fired').waitFor();
  await button('Add 1').waitFor({ state: 'detached' });
});

test('a preview counts the other jobs due then', async () => {
  const day = new Date(Date.now() + 30 * 86_400_000).toISOString().slice(0, 10);
  await node.call('POST', '/v1/jobs', { topic: 'coming', url: 'https://coming.example/a', at: `${day}T09:00:00Z` });
  await node.call('POST', '/v1/jobs', { topic: 'coming', url: 'https://coming.example/b', at: `${day}T09:00:30Z` });
  await go('/register');
  await field('URL').fill('https://coming.example/c');
  await field('or at').fill(`${day}T09:00:00`);
  await button('Preview').click();
  await page.getByText('in the same second: 1, in the same minute: 2.').waitFor();
});

test('deliveries and failures of the last hour and day: of all jobs, a topic and an endpoint', async () => {
  await node.call('POST', '/v1/jobs', { topic: 'charted', id: 'a', url: `${receiver.url}/ok` });
  await node.call('POST', '/v1/jobs', { topic: 'charted', id: 'b', url: `${receiver.url}/answer/410` });
  await settled(node, 'charted', { delivered: 1, dead: 1 });
  const card = page.locator('#activity');
  const shows = async (window, about) => {
    const chart = card.getByRole('img', { name: new RegExp(`^${window}: ${about}`) });
    for (const kind of ['delivered', 'failed']) assert.ok(Number(await chart.locator(`rect.${kind}`).last().getAttribute('height')) > 0);
  };
  await go('/');
  await shows('Last hour', '.*attempts delivered');
  await go('/topics/charted');
  await shows('Last hour', '1 attempts delivered, 1 failed.');
  await card.getByText('1 jobs became dead letters.').waitFor();
  await button('Last day').click();
  await shows('Last day', '1 attempts delivered, 1 failed.');
  await card.getByText('As a table').click();
  await card.getByText(/1 delivered, 1 failed/).last().waitFor();
  await go('/endpoints');
  await page.getByRole('link', { name: new URL(receiver.url).host }).click();
  await page.getByRole('heading', { name: receiver.url, level: 1 }).waitFor();
  await shows('Last hour', '.*attempts delivered');
  await link('All jobs for this endpoint').click();
  await link('b').first().waitFor();
});

test('the nodes, and what is wrong with them', async () => {
  await go('/nodes');
  await page.getByRole('row').filter({ hasText: 'embedded' }).getByText('Running').waitFor();
  const { data } = await node.call('GET', '/v1/nodes');
  const others = [
    { ...data[0], id: 'old', version: '0.0.9', state: 'silent' },
    { ...data[0], id: 'wrong', clock_ahead_ms: -4000 },
  ];
  await page.route('**/v1/nodes?*', (route) => route.fulfill({ json: { data: [...data, ...others], next_cursor: null } }));
  await page.reload();
  await page.getByText('The nodes have 2 versions.').waitFor();
  await page.getByRole('row').filter({ hasText: 'old' }).getByText('Silent').waitFor();
  await page.getByRole('row').filter({ hasText: 'wrong' }).getByText('4s behind').waitFor();
  await accessible(page, 'nodes');
  await page.unroute('**/v1/nodes?*');
});

test('inboxes, and what becomes of their failed rows', async () => {
  const inbox = { name: 'shop', database: 'postgres', topics: [], reading: true, fresh: 3, waiting: 1, failed: 10_000, error: null };
  const at = new Date().toISOString();
  const row = (id, more) => ({ id, key: 'k', request: '{"topic":"t"}', created_at: at, failed_at: null, error: null, waits_for: null, ...more });
  let failed = [17, 18].map((id) => row(id, { failed_at: at, error: `invalid_request: /url of ${id}` }));
  const asked = [];
  const pageOf = (data) => ({ json: { data, next_cursor: null } });
  await page.route('**/v1/inboxes?*', (route) => route.fulfill(pageOf([inbox, { ...inbox, name: 'bank', database: 'mysql', failed: 0, error: 'connection refused' }])));
  await page.route('**/v1/inboxes/shop/**', (route) => {
    const request = route.request();
    if (request.method() === 'GET') return route.fulfill(pageOf(request.url().includes('state=waiting') ? [row(9, { waits_for: 'full-topic' })] : failed));
    const which = request.postDataJSON();
    asked.push([new URL(request.url()).pathname, which]);
    failed = which.all ? [] : failed.filter(({ id }) => !which.ids.includes(id));
    return route.fulfill({ json: { rows: 1 } });
  });
  await go('/inboxes');
  await page.getByRole('row').filter({ hasText: 'bank' }).getByText('connection refused').waitFor();
  await page.getByRole('row').filter({ hasText: 'shop' }).getByText('10,000+').waitFor();
  await accessible(page, 'inboxes');
  await fits(page, 'inboxes');
  await link('shop').click();
  const card = (id) => page.locator('.card', { hasText: `Row ${id}` });
  await card(9).getByText('It waits for full-topic.').waitFor();
  await card(17).getByText('invalid_request: /url of 17').waitFor();
  await accessible(page, 'an inbox');
  await page.setViewportSize(narrow);
  await fits(page, 'an inbox');
  await page.setViewportSize(wide);
  await card(17).getByRole('button', { name: 'Retry', exact: true }).click();
  await says('Failed rows are read again.');
  await card(17).waitFor({ state: 'detached' });
  await button('Drop all').click();
  await page.getByRole('dialog').getByText('They never become jobs.').waitFor();
  await page.getByRole('dialog').getByRole('button', { name: 'Drop', exact: true }).click();
  await page.getByText('No row has failed.').waitFor();
  assert.deepEqual(asked, [
    ['/v1/inboxes/shop/retry', { ids: [17] }],
    ['/v1/inboxes/shop/drop', { all: true }],
  ]);
  await page.unrouteAll();
});
