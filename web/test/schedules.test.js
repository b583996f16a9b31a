/** Recurring schedules: list, one schedule, form with preview. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, fits, narrow, wide, within } from './lib/browser.js';
import { startSuite } from './lib/suite.js';
import { eventually } from './lib/wait.js';

const { node, receiver, page, go, button, link, field, says, row } = await startSuite();

const put = (name, schedule) => node.call('PUT', `/v1/schedules/${name}`, { job: { url: `${receiver.url}/ok` }, ...schedule });
const more = () => page.getByText('More options', { exact: true }).click();
const get = (name) => node.call('GET', `/v1/schedules/${name}`);
const delivered = (name, n) =>
  eventually(`${n} jobs of ${name} are delivered`, async () => {
    const { data } = await node.call('GET', `/v1/jobs?schedule=${name}`);
    return data.length === n && data.every(({ state }) => state === 'delivered');
  });

test('pages of schedules load when first shown, also after a failed attempt', async () => {
  const pages = /schedule-pages-.*\.js$/;
  const loaded = () => page.evaluate((name) => performance.getEntriesByType('resource').some((one) => new RegExp(name).test(one.name)), pages.source);
  await go('/jobs');
  assert.equal(await loaded(), false);
  let refused = 0;
  await page.route(pages, (route) => (refused++ ? route.continue() : route.fulfill({ status: 503, body: '' })));
  await page.getByRole('link', { name: 'Schedules' }).click();
  await page.getByRole('heading', { name: 'Schedules' }).waitFor();
  await page.unrouteAll({ behavior: 'wait' });
  assert.ok(refused >= 2);
  assert.equal(await page.title(), 'Schedules · duehook');
});

test('the list shows schedules by state, with their next occurrences', async () => {
  await put('nightly', { cron: '30 2 * * *', timezone: 'America/New_York' });
  await put('poll', { every: '7d', paused: true, note: 'until Monday' });
  await put('once', { every: '1h', end_at: '2020-01-01T00:00:00Z' });
  await go('/schedules');
  await row('nightly', '30 2 * * *', 'America/New_York', 'Active');
  await row('poll', 'every 7d', 'Paused');
  await row('once', 'Completed');
  await page.getByRole('row').filter({ hasText: 'nightly' }).getByRole('img', { name: 'Next 10 occurrences' }).waitFor();
  await link('Paused').click();
  await link('nightly').waitFor({ state: 'detached' });
  await row('poll');
  await link('poll').click();
  await page.getByText('until Monday').waitFor();
});

test('a list longer than a page continues on the next one', async () => {
  for (let n = 10; n <= 30; n++) await put(`z${n}`, { every: '1d', paused: true });
  await go('/schedules?state=paused');
  await link('z10').waitFor();
  assert.equal(await link('z30').count(), 0);
  await link('Next page').click();
  await link('z30').waitFor();
  await link('First page').click();
  await link('z10').waitFor();
});

test('pause with a note, resume, run now, delete', async () => {
  await put('steered', { cron: '0 4 * * *', job: { topic: 'moves', url: `${receiver.url}/ok` } });
  await go('/schedules/steered');
  await button('Pause schedule').click();
  const dialog = page.getByRole('dialog');
  await within(dialog).field('Note').fill('the receiver moves');
  await dialog.getByRole('button', { name: 'Pause schedule' }).click();
  await says('The schedule is paused.');
  await page.getByText('the receiver moves').waitFor();
  assert.equal((await get('steered')).paused.note, 'the receiver moves');
  await button('Run now').click(); // in a pause, too
  await says('Registered, and due now');
  await delivered('steered', 1);
  await button('Resume schedule').click();
  await says('continues with its next occurrence');
  await button('Pause schedule').waitFor();
  assert.equal((await get('steered')).state, 'active');
  await link('All jobs of this schedule').click();
  await page.getByRole('link', { name: /^steered@now-/ }).click();
  await link('steered').click(); // on the page of the job
  await button('Delete').click();
  await dialog.getByRole('button', { name: 'Delete' }).click();
  await says('The schedule is deleted.');
  await page.getByRole('heading', { name: 'Schedules', level: 1, exact: true }).waitFor();
  await assert.rejects(get('steered'), /schedule_not_found/);
});

test('dates that a schedule leaves out, and skipped occurrences', async () => {
  const dialog = page.getByRole('dialog');
  await put('daily', { cron: '0 9 * * *', start_at: '2099-12-24T00:00:00Z', except: { dates: ['2099-12-26'] } });
  await go('/schedules/daily/edit');
  await field('Except dates').fill('2099-12-25, 2099-12-26, 2099-12-31/2100-01-01');
  await row('2099-12-27 09:00:00+00:00'); // of the preview
  await button('Save').click();
  await says('The schedule is saved.');
  assert.deepEqual((await get('daily')).except, { dates: ['2099-12-25', '2099-12-26', '2099-12-31/2100-01-01'] });
  await page.locator('dd .whole').nth(2).waitFor();
  const lines = (dates) => dates.map((one) => ((one.closest('dd').style.width = '1em'), one.getClientRects().length));
  assert.deepEqual(await page.locator('dd .whole').evaluateAll(lines), [1, 1, 1]); // none breaks at a hyphen
  await page.getByText('2099-12-26 is excepted.', { exact: true }).waitFor();
  await button('Skip: 2099-12-24T09:00:00+00:00').click();
  await says('The occurrence will be skipped.');
  await row('2099-12-24 09:00:00', 'Skipped');
  await accessible(page, 'a schedule with exceptions');
  await button('Do not skip: 2099-12-24T09:00:00+00:00').click();
  await says('The occurrence will fire.');
  await button('Skip: 2099-12-24T09:00:00+00:00').waitFor();
  await button('Pause schedule').click();
  await within(dialog).field('Until').fill('2099-06-01T00:00:00');
  await dialog.getByRole('button', { name: 'Pause schedule' }).click();
  await says('The schedule is paused.');
  assert.match((await get('daily')).paused.until, /^2099-0[56]/);
});

test('the preview names the effects of a change of the clock', async () => {
  await go('/schedules?new');
  await field('Cron expression').fill('30 2 * * *');
  await field('Time zone').fill('America/New_York');
  await field('Preview from').fill('2026-03-07T12:00:00');
  await row('2026-03-08 03:30:00-04:00', '2026-03-08 07:30:00Z', 'shifted: 02:30 does not exist that day');
  await more();
  await field('Local times that do not exist').selectOption('skip');
  await page.getByText('2026-03-08 02:30:00 does not exist and is left out.').waitFor();
  await row('2026-03-09 02:30:00-04:00', '2026-03-09 06:30:00Z');
  await field('Cron expression').fill('30 1 * * *');
  await field('Preview from').fill('2026-10-31T12:00:00');
  await field('Local times that come twice').selectOption('both');
  await row('2026-11-01 01:30:00-04:00', 'first of two: 01:30 comes twice that day');
  await row('2026-11-01 01:30:00-05:00', 'second of two: 01:30 comes twice that day');
  await accessible(page, 'a preview');
  await page.setViewportSize(narrow);
  await fits(page, 'a preview');
  await page.setViewportSize(wide);
});

test('the preview shows what is wrong beside its field', async () => {
  await go('/schedules?new');
  await field('Time zone').fill('America/Nowhere');
  await field('Cron expression').fill('30 2 * * *');
  await page.locator('.field', { hasText: 'Time zone' }).locator('.wrong').waitFor();
  await field('Time zone').fill('Europe/Berlin');
  await page.getByRole('columnheader', { name: 'Europe/Berlin' }).waitFor();
  assert.equal(await page.locator('.field .wrong').count(), 0);
});

const exactBody = '{ "n": 12345678901234567890 }';

test('create, with errors beside fields, and change', async () => {
  await go('/schedules?new');
  await field('Name').fill('made');
  await field('Cron expression').fill('0 9 * * MON-FRI');
  await field('Time zone').fill('Europe/Berlin');
  await more();
  await field('If an earlier job has not ended').selectOption('skip');
  await field('URL').fill('nowhere');
  await button('Save').click();
  await page.locator('.field', { hasText: 'URL' }).locator('.wrong').waitFor();
  await field('URL').fill(`${receiver.url}/ok`);
  await field('Body (JSON or text)').fill(exactBody);
  await field('Headers, one per line').fill('x-tenant: acme');
  await button('Save').click();
  await says('The schedule is saved.');
  await page.getByRole('heading', { name: 'made', level: 1, exact: true }).waitFor();
  const made = await get('made');
  assert.deepEqual([made.cron, made.timezone, made.overlap, made.version === Date.parse(made.created_at)], ['0 9 * * MON-FRI', 'Europe/Berlin', 'skip', true]);

  // What the form does not show stays, and the body keeps its digits.
  const stored = await text('made');
  assert.ok(stored.includes(exactBody), stored);
  const labelled = stored.replace('"job":{', '"job":{"labels":{"region":"eu"},');
  assert.equal((await putText('made', labelled)).status, 200);
  const before = await text('made');
  await link('Edit').click();
  await field('Jitter').fill('5m');
  await button('Save').click();
  await says('The schedule is saved.');
  await page.getByRole('heading', { name: 'made', level: 1, exact: true }).waitFor();
  const after = await text('made');
  assert.ok(after.includes(exactBody), after);
  assert.deepEqual(JSON.parse(after), { ...JSON.parse(before), jitter: '5m' });
});

test('a new schedule does not replace one of its name', async () => {
  await put('taken', { every: '3h' });
  await go('/schedules?new');
  await field('Name').fill('taken');
  await field('or interval').fill('2h');
  await field('URL').fill(`${receiver.url}/ok`);
  await button('Save').click();
  await page.getByRole('alert').filter({ hasText: 'This name is taken.' }).waitFor();
  assert.equal((await get('taken')).every, '3h');
});

test('a form does not overwrite the change of somebody else', async () => {
  await put('shared', { every: '1h' });
  await go('/schedules/shared/edit');
  await field('or interval').fill('2h');
  await put('shared', { every: '3h' });
  await button('Save').click();
  await page.getByRole('alert').filter({ hasText: 'Someone else changed this meanwhile' }).waitFor();
  assert.equal((await get('shared')).every, '3h');
});

const text = async (name) => (await fetch(`${node.base}/v1/schedules/${name}/registration`)).text();
const putText = (name, body) => fetch(`${node.base}/v1/schedules/${name}`, { method: 'PUT', headers: { 'Content-Type': 'application/json' }, body });

test('the last runs of a schedule', async () => {
  await put('ran', { every: '1000h', job: { topic: 'ran', url: `${receiver.url}/answer/410` } });
  await go('/schedules/ran');
  await page.getByText('No run has ended yet.').waitFor();
  await button('Run now').click();
  await page.getByRole('img', { name: '0 of the last 1 runs delivered' }).waitFor();
  await put('ran', { every: '1000h', job: { topic: 'ran', url: `${receiver.url}/ok` } });
  await node.call('POST', '/v1/schedules/ran/run');
  await page.getByRole('img', { name: '1 of the last 2 runs delivered' }).waitFor();
  await row('Run now', 'Delivered', 'HTTP 200');
  await row('Run now', 'Dead', 'HTTP 410');
  await accessible(page, 'runs');
  await page.setViewportSize(narrow);
  await fits(page, 'runs');
  await page.setViewportSize(wide);
});
