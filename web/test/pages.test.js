/** Every page, in both themes and both languages: accessible, nothing refused by the policy, and as wide as a phone. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { accessible, fits, launch, narrow, openPage, wide } from './lib/browser.js';
import { startNode } from './lib/node.js';
import { hostileBody, startReceiver } from './lib/receiver.js';
import { settled } from './lib/wait.js';

let node, receiver, browser;
before(async () => {
  [node, receiver, browser] = await Promise.all([startNode(['--retry-steps', '1h,2h']), startReceiver(), launch()]);
  const jobs = [
    { topic: 'order-timeout', id: 'order-8812', biz_key: '8812', priority: 9, url: 'https://shop.example/hooks/timeout', delay: '30m' },
    { topic: 'payment-notify', id: 'paid-1', url: `${receiver.url}/ok` },
    { topic: 'payment-notify', id: 'paid-2', url: `${receiver.url}/answer/503`, headers: { 'x-tenant': 'acme' }, body: { paid: [true], note: 'x'.repeat(5000) } },
    { topic: 'reported', id: 'r', url: `${receiver.url}/answer/503`, callbacks: { attempt_failed: { url: `${receiver.url}/ok` } } },
    { topic: 'payment-notify', id: 'paid-3', url: `${receiver.url}/hostile`, retry: { limit: 0 } },
  ];
  await node.call('POST', '/v1/jobs/batch', { jobs });
  await node.call('POST', '/v1/jobs', { topic: 'prints', id: 'print-1', pull: true });
  const { jobs: [leased] } = await node.call('POST', '/v1/topics/prints/pull');
  await node.call('POST', '/v1/pull/nack', { receipts: [{ receipt: leased.receipt, error: 'no paper', dead: true }] });
  await node.call('PUT', '/v1/alerts/rules/down', { metric: 'open_circuits', url: `${receiver.url}/ok` });
  await node.call('PUT', '/v1/topics/payment-notify', { rate: 50 });
  await node.call('PUT', '/v1/alerts/rules/lost', { metric: 'dead_letters', topic: 'payment-notify', above: 0, url: `${receiver.url}/ok` });
  await node.call('POST', '/v1/operations', { action: 'reschedule', delay: '2h', filter: { topic: 'order-timeout' } });
  const job = { topic: 'reports', url: 'https://shop.example/hooks/report' };
  await node.call('PUT', '/v1/schedules/nightly', { cron: '30 2 * * *', timezone: 'America/New_York', jitter: '10m', job });
  await node.call('PUT', '/v1/schedules/poll', { every: '90s', paused: true, note: 'until Monday', job });
  const members = ['mail', 'crm', 'm'.repeat(90)].map((name) => ({ name, url: `${receiver.url}/ok`, filter_label: name.slice(0, 64), headers: { 'x-member': name } }));
  await node.call('PUT', '/v1/groups/order-events', { members });
  await node.call('POST', '/v1/jobs', { topic: 'events', id: 'e1', group: 'order-events', delay: '1h' });
  await settled(node, 'payment-notify', { delivered: 1, retrying: 1, dead: 1 });
  await settled(node, 'reported', { retrying: 1, delivered: 1 });
});
after(async () => {
  await browser.close();
  await Promise.all([node.stop(), receiver.stop()]);
});

/** Each page, and a text by which it is known to be complete, in both languages. */
const pages = [
  ['/', 'en:Due in the next 24 hours', 'zh:未来 24 小时到期'],
  ['/jobs', 'order-8812'],
  ['/jobs?topic=order-timeout&state=waiting&order=-due', 'order-8812'],
  ['/jobs/payment-notify/paid-2', 'en:(HTTP 503). By the retry ladder', 'zh:（HTTP 503）。按重试阶梯'],
  ['/jobs/order-timeout/order-8812', 'shop.example'],
  ['/jobs/reported/r', 'en:It has made 1 callback', 'zh:这一轮已产生 1 个回调'],
  ['/topics', 'payment-notify'],
  ['/topics/payment-notify', 'en:30 days or more', 'zh:30 天以上'],
  ['/topics?new', 'en:Limits', 'zh:限制'],
  ['/topics/payment-notify/edit', 'en:Signing', 'zh:签名'],
  ['/schedules', 'America/New_York'],
  ['/schedules?state=completed', 'en:No schedule is in this state', 'zh:没有处于此状态的计划'],
  ['/schedules/nightly', 'en:Time zone data', 'zh:时区数据版本'],
  ['/schedules/poll', 'until Monday'],
  ['/schedules?new', 'en:Preview', 'zh:预览'],
  ['/schedules/nightly/edit', 'America/New_York'],
  ['/groups', 'order-events'],
  ['/groups/order-events', 'X-Member'],
  ['/groups/order-events/edit', 'en:This page does not exist', 'zh:没有这个页面'],
  ['/jobs/events/e1:crm', 'order-events'],
  ['/endpoints', 'shop.example'],
  [`/endpoints?endpoint=${encodeURIComponent('https://shop.example:443')}`, 'en:All jobs for this endpoint', 'zh:此端点的所有任务'],
  ['/nodes', 'embedded'],
  ['/inboxes', 'en:No inboxes', 'zh:没有收件表'],
  ['/endpoints?state=open', 'en:No endpoints', 'zh:没有端点'],
  ['/dead', 'payment-notify'],
  ['/dead', 'en:fetched by consumers', 'zh:由消费者拉取'],
  ['/dead?topic=payment-notify', 'paid-3'],
  ['/dead?topic=prints&endpoint=pull:&reason=rejected', 'print-1'],
  ['/jobs/prints/print-1', 'no paper'],
  ['/alerts', 'en:Dead letters', 'zh:死信'],
  ['/alerts?new', 'en:Who is notified', 'zh:通知对象'],
  ['/alerts/down', 'en:Who is notified', 'zh:通知对象'],
  ['/operations', 'topic:order-timeout'],
  ['/register', 'URL'],
  ['/nosuchpage', 'en:This page does not exist', 'zh:没有这个页面'],
  ['/jobs/a/b/c', 'en:This page does not exist', 'zh:没有这个页面'],
];

const textIn = (language, texts) => (texts.find((one) => one.startsWith(`${language}:`)) ?? `  :${texts[0]}`).slice(3);

// Colours do not depend on the language, nor texts on the theme.
for (const [language, theme] of [
  ['en', 'light'],
  ['zh', 'dark'],
]) {
  test(`every page is accessible and fits on a phone: ${language}, ${theme}`, async () => {
    const { page, go, close } = await openPage(browser, node.base, { theme, language });
    for (const [path, ...texts] of pages) {
      await page.setViewportSize(wide);
      await go(path);
      await page.locator('main').getByText(textIn(language, texts)).first().waitFor();
      await accessible(page, path);
      await page.setViewportSize(narrow);
      await fits(page, path);
    }
    await close();
  });
}

test('what an endpoint answers is shown as text', async () => {
  const { page, go, close } = await openPage(browser, node.base);
  await go('/jobs/payment-notify/paid-3');
  await page.locator('pre', { hasText: hostileBody }).waitFor();
  assert.equal(await page.locator('main img, main script').count(), 0);
  assert.notEqual(await page.title(), 'owned');
  await page.setViewportSize(narrow); // where it scrolls
  await accessible(page, 'a long answer');
  await close();
});

test('what there are no words for is shown as the API says it', async () => {
  const { page, go, close } = await openPage(browser, node.base, { language: 'zh' });
  await page.route('**/explain', async (route) => {
    const response = await route.fetch();
    const told = await response.json();
    told.reasons[0].sentences[1].code = 'of_a_newer_server';
    await route.fulfill({ response, json: told });
  });
  await go('/jobs/payment-notify/paid-2');
  await page.locator('.reasons [lang=en]', { hasText: 'Attempt 1 failed (http_503). By the retry ladder' }).waitFor();
  await close();
});

test('the key / goes to the search', async () => {
  const { page, field, go, close } = await openPage(browser, node.base);
  const box = field('Search jobs');
  const focused = () => box.evaluate((one) => one === document.activeElement);
  await go('/jobs');
  await page.getByText('order-8812').first().waitFor();
  await page.keyboard.press('/');
  assert.ok(await focused());
  await page.keyboard.type('topic:a/b');
  assert.equal(await box.inputValue(), 'topic:a/b', 'in a field it is a letter');
  await go('/endpoints'); // which has no search
  await page.getByText('shop.example').first().waitFor();
  await page.keyboard.press('/');
  await page.waitForURL('**/jobs');
  await box.waitFor();
  await page.waitForFunction(() => document.activeElement?.matches('input[type=search]'));
  await close();
});

test('one colour for what is paused, and a link to the documents', async () => {
  const { page, go, close } = await openPage(browser, node.base);
  const colours = [];
  await node.call('POST', '/v1/topics/prints/pause', {});
  for (const path of ['/schedules/poll', '/topics/prints']) {
    await go(path);
    colours.push(await page.locator('.state', { hasText: 'Paused' }).first().evaluate((mark) => getComputedStyle(mark).color));
  }
  await node.call('POST', '/v1/topics/prints/resume', {});
  assert.equal(colours[0], colours[1]);
  const documents = page.getByRole('link', { name: 'Documentation' });
  assert.match(await documents.getAttribute('href'), /^https:.*\/docs\/README\.md$/);
  await close();
});

test('no page asks for what is not there', async () => {
  const { page, go, close } = await openPage(browser, node.base);
  const refused = [];
  page.on('response', (answer) => answer.status() >= 400 && !answer.url().endsWith('/nosuchpage') && refused.push(`${answer.status()} ${answer.url()}`));
  for (const [path, text] of [...pages, ['/jobs?topic=nobody', 'en:No jobs match']]) {
    await go(path);
    await page.getByText(text.replace(/^en:/, '')).first().waitFor();
  }
  assert.deepEqual(refused, []);
  await close();
});

test('theme and language are kept', async () => {
  const { page, choice, go, close } = await openPage(browser, node.base);
  await go('/topics');
  await choice('Theme').selectOption('dark');
  await choice('Language').selectOption('zh');
  await page.reload();
  await page.getByRole('heading', { name: '主题' }).waitFor();
  const style = await page.evaluate(() => getComputedStyle(document.documentElement).colorScheme);
  assert.equal(style, 'dark');
  await close();
});
