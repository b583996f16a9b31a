/** What the pages have for `duehook dev` only: its clock and its sinks. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { accessible, fits, launch, narrow, openPage } from './lib/browser.js';
import { startDev, startNode } from './lib/node.js';

const [node, browser] = await Promise.all([startDev(), launch()]);
const { page, go, button, choice, link, field, says, close } = await openPage(browser, node.base);
after(async () => {
  await close();
  await browser.close();
  await node.stop();
});

test('the clock is frozen, turned, and moved to what is due next', async () => {
  await node.call('POST', '/v1/jobs', { topic: 'turned', id: 'a', url: 'http://sink/shop/paid', delay: '90m' });
  await go('/jobs/turned/a');
  await choice('Speed').selectOption('Frozen');
  await page.getByRole('timer').filter({ hasText: /Next attempt in 1h (29|30)m/ }).waitFor();
  await button('+1h').click();
  await says('The clock has moved. Attempts: 0');
  await page.getByRole('timer').filter({ hasText: /Next attempt in (29|30)m/ }).waitFor();
  await button('+1m').click();
  await says('The clock has moved. Attempts: 0');
  await page.getByRole('button', { name: /^Next due · in / }).click();
  await says('The clock has moved. Attempts: 1');
  await page.getByText('Delivered').first().waitFor();
  assert.equal((await node.call('GET', '/v1/dev/clock')).frozen, true);
  await choice('Speed').selectOption('240 ×');
  await page.waitForFunction(async () => (await (await fetch('/v1/dev/clock')).json()).speed === 240);
  await accessible(page, 'a page with the clock');
});

test('what is overdue is so by the turned clock', async () => {
  await node.call('POST', '/v1/topics/held/pause');
  await node.call('POST', '/v1/jobs', { topic: 'held', id: 'c', url: 'http://sink/shop/paid', delay: '30m' });
  await node.call('POST', '/v1/dev/clock', { frozen: true });
  await node.call('POST', '/v1/dev/clock', { advance: '1h' });
  await go('/topics/held');
  await link('c').waitFor(); // with the reason
  await page.getByRole('link', { name: /^Due jobs that nobody has taken/ }).click();
  await page.getByRole('heading', { name: 'Jobs', level: 1 }).waitFor();
  await link('c').waitFor();
  const asked = [];
  const note = (request) => asked.push(new URL(request.url()).pathname);
  page.on('request', note);
  await page.reload();
  await link('c').waitFor();
  page.off('request', note);
  assert.ok(asked.indexOf('/v1/jobs') > asked.indexOf('/v1/dev/clock'), `the page knows the clock before it searches: ${asked}`);
});

test('a clock that stands still is not taken for a turned one', async () => {
  await node.call('POST', '/v1/dev/clock', { frozen: true });
  const other = await openPage(browser, node.base);
  await other.page.clock.install();
  const events = other.page.waitForResponse('**/v1/events');
  await other.go('/jobs');
  await Promise.all([other.link('c').waitFor(), events]);
  const shown = () => other.page.locator('.dev time').textContent();
  const before = await shown();
  let searches = 0;
  other.page.on('request', (request) => (searches += new URL(request.url()).pathname === '/v1/jobs'));
  for (let n = 0; n < 6; n++) {
    const read = other.page.waitForResponse('**/v1/dev/clock');
    await other.page.clock.fastForward(1500); // in all, less than the page waits between two searches
    await read;
  }
  assert.ok(searches <= 1, `${searches} searches; the stream of events begins with one`);
  assert.equal(await shown(), before);
  await other.close();
});

test('a sink is made, takes deliveries, changes and goes', async () => {
  await choice('Speed').selectOption('1 ×');
  await link('Sinks').click();
  await field('Name').fill('bank');
  await field('Answers in order, as JSON').fill('none');
  await button('Save').click();
  await page.getByText('is not a JSON list').waitFor();
  await field('Answers in order, as JSON').fill('[{"status": 99}]');
  await button('Save').click();
  await page.getByText('is from 200 to 599').waitFor();
  await field('Answers in order, as JSON').fill('[{"status": 410}]');
  await button('Save').click();
  await says('The sink is saved.');
  await page.getByRole('heading', { name: 'bank', level: 1 }).waitFor();
  assert.ok(await field('Answers in order, as JSON').evaluate((area) => area.scrollHeight <= area.clientHeight), 'one answer is seen whole');
  await node.call('POST', '/v1/jobs', { topic: 'turned', id: 'b', url: 'http://sink/bank/paid?n=1', body: { paid: true } });
  await page.getByText('POST /paid?n=1').waitFor();
  await page.getByText('Signature valid').waitFor();
  await page.getByText('Headers and body').click();
  await page.locator('pre', { hasText: '{"paid":true}' }).waitFor();
  await page.locator('pre', { hasText: 'duehook-job-id: b\n' }).waitFor();
  assert.equal((await node.call('GET', '/v1/jobs/turned/b')).state, 'dead');
  await accessible(page, 'a sink');
  await page.setViewportSize(narrow);
  await fits(page, 'a sink');
  await field('Answers in order, as JSON').fill('');
  await button('Save').click();
  await says('The sink is saved.');
  assert.deepEqual((await node.call('GET', '/v1/dev/sinks/bank')).answers, []);
  await button('Delete').click();
  await says('The sink is deleted.');
  await link('shop').waitFor();
  assert.equal(await link('bank').count(), 0);
});

test('another server has neither', async () => {
  const served = await startNode();
  const other = await openPage(browser, served.base);
  await other.go('/sinks');
  await other.page.getByText('This page does not exist').waitFor();
  assert.equal(await other.choice('Speed').count() + (await other.link('Sinks').count()), 0);
  await other.close();
  await served.stop();
});
