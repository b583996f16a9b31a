/** The page of the API, on a node with keys. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { after, before, test } from 'node:test';
import { accessible, fits, launch, narrow, openPage } from './lib/browser.js';
import { binary, startNode } from './lib/node.js';

let node, browser;
before(async () => {
  const printed = execFileSync(binary, ['apikey', 'new', '--scope', 'read', '--name', 'reader'], { encoding: 'utf8' });
  [node, browser] = await Promise.all([startNode(['--api-keys', /^line\s+(.*)$/m.exec(printed)[1]]), launch()]);
});
after(async () => {
  await browser.close();
  await node.stop();
});

test('the dashboard leads to the API, which needs no key to be read', async () => {
  const { page, go, link, close } = await openPage(browser, node.base);
  await go('/topics');
  await link('API reference').click();
  await page.getByRole('heading', { name: 'API', exact: true }).waitFor();
  const { paths } = await (await fetch(`${node.base}/openapi.json`)).json();
  const calls = Object.values(paths).flatMap((path) => Object.entries(path).filter(([method]) => method !== 'parameters'));
  assert.ok(calls.length > 60);
  const shown = await page.locator('nav section a').allTextContents();
  assert.deepEqual(shown.slice(0, 2), ['POST Register a job', 'GET List jobs'], 'registering comes first');
  assert.deepEqual(shown.sort(), calls.map(([method, { summary }]) => `${method.toUpperCase()} ${summary}`).sort());
  await close();
});

test('a call shows its parameters, fields, examples and answers', async () => {
  const { page, go, link, close } = await openPage(browser, node.base);
  await go('/docs');
  await page.getByRole('searchbox', { name: 'Search the calls' }).fill('register a job');
  await link('POST Register a job').click();
  await page.getByRole('heading', { name: 'Register a job', exact: true }).waitFor();
  await page.getByText('dry_run', { exact: true }).first().waitFor();
  await page.getByText('An API key needs the scope write.').waitFor();
  const example = page.locator('details', { hasText: 'Example: Close an order that was not paid in 30 minutes' });
  await example.locator('summary').click();
  await example.getByText('"order_id": 8812').waitFor();
  const request = page.locator('section', { has: page.getByRole('heading', { name: 'Request, application/json' }) });
  await request.getByText('Fields of retry', { exact: true }).first().click();
  await request.locator('.fields .fields').getByText('steps', { exact: true }).first().waitFor();
  for (const status of [200, 201, 409, 422]) await page.getByRole('heading', { name: `Answer ${status}` }).waitFor();
  await close();
});

for (const theme of ['light', 'dark']) {
  test(`accessible and as wide as a phone, ${theme}`, async () => {
    const { page, go, close } = await openPage(browser, node.base, { theme });
    for (const hash of ['', '#listJobs']) {
      await go(`/docs${hash}`);
      await page.getByRole('heading', { level: 1 }).waitFor();
      await accessible(page, `/docs${hash}`);
      await page.setViewportSize(narrow);
      await fits(page, `/docs${hash}`);
    }
    await close();
  });
}
