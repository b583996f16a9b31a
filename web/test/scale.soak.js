/** 100,000 jobs do not make the pages slow or large. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { launch, openPage } from './lib/browser.js';
import { startNode } from './lib/node.js';
import { eventually } from './lib/wait.js';

const jobs = 100_000;
const perBatch = 1000;

let node, browser;
before(async () => {
  [node, browser] = await Promise.all([startNode(), launch()]);
  const batch = (at) =>
    node.call('POST', '/v1/jobs/batch', {
      jobs: Array.from({ length: perBatch }, (_, i) => ({
        topic: `topic-${i % 120}`,
        id: `job-${at + i}`,
        url: `https://shop-${i % 50}.example/hooks`,
        delay: 3600 + ((at + i) % 86_400),
      })),
    });
  for (let at = 0; at < jobs; at += 4 * perBatch) await Promise.all([0, 1, 2, 3].map((n) => batch(at + n * perBatch)));
});
after(async () => {
  await browser.close();
  await node.stop();
});

for (const path of ['/', '/jobs', '/topics', '/jobs?state=waiting&due_to=2h']) {
  test(`${path} is painted within a second, with few rows`, async (t) => {
    // The machine is shared: the best of a few tries is what the page needs.
    const tries = [];
    while (tries.length < 5 && !tries.some(({ painted }) => painted < 1000)) tries.push(await load(path));
    const best = tries.toSorted((a, b) => a.painted - b.painted)[0];
    t.diagnostic(`${path}: painted after ${Math.round(best.painted)} ms, complete after ${Math.round(best.complete)} ms, ${best.rows} rows`);
    assert.ok(best.painted < 1000, `${path}: painted after ${best.painted} ms`);
    assert.ok(best.rows < 200, `${path}: ${best.rows} rows`);
  });
}

test('of many topics, one is found by its name', async () => {
  const { page, go, close } = await openPage(browser, node.base);
  const rows = (n) => eventually(`${n} topics`, async () => (await page.locator('tbody tr').count()) === n);
  await go('/topics');
  await rows(100);
  await page.getByRole('link', { name: 'Next page' }).click();
  await rows(20);
  await page.getByRole('link', { name: 'First page' }).click();
  await rows(100);
  const find = page.getByLabel('Find a topic', { exact: true });
  await find.fill('Topic-11');
  await rows(11);
  assert.ok(await find.evaluate((input) => input === document.activeElement)); // and stays where one types
  await page.goBack();
  await rows(100);
  await find.fill('nowhere');
  await page.getByText('No topic name contains this text.').waitFor();
  await close();
});

async function load(path) {
  const { page, go, close } = await openPage(browser, node.base);
  await go(path);
  await page.locator('.figure, tbody tr').first().waitFor();
  const measured = await page.evaluate(() => ({
    painted: performance.getEntriesByName('first-contentful-paint')[0].startTime,
    complete: performance.now(),
    rows: document.querySelectorAll('tr, li').length,
  }));
  await close();
  return measured;
}
