/** Takes the pictures in docs/images. Run by web/test/screenshots, which gives the receivers their names. */
import { once } from 'node:events';
import { mkdir } from 'node:fs/promises';
import { createServer } from 'node:http';
import { launch } from './lib/browser.js';
import { startNode } from './lib/node.js';
import { eventually } from './lib/wait.js';

const images = new URL('../../docs/images/', import.meta.url).pathname;

/** How the receivers answer, by host; the others take everything. */
const answers = {
  'hooks.merchant.example': ({ headers, url }) =>
    url.includes('closed') ? [410, 'this merchant has closed its shop'] : Number(headers['duehook-attempt']) < 4 ? [503, '{"error":"maintenance until 06:00"}'] : [200, 'success'],
  'crm.example': ({ url }) => (url.includes('legacy') ? [500, '{"error":"column \\"email\\" does not exist","trace":"9f2c1e"}'] : [200, 'ok']),
};

function startReceivers() {
  const server = createServer(async (request, response) => {
    request.resume();
    await once(request, 'end');
    const [status, body] = answers[request.headers.host]?.(request) ?? [200, 'ok'];
    setTimeout(() => response.writeHead(status).end(body), 20 + Math.random() * 120);
  });
  server.listen(80, '127.0.0.1');
  return once(server, 'listening').then(() => server);
}

/** The same on every run, so that pictures change when pages do. */
function random(seed) {
  let state = seed;
  return () => ((state = (state * 1_103_515_245 + 12_345) % 2 ** 31) / 2 ** 31);
}

const some = random(7);
const between = (low, high) => Math.floor(low + some() * (high - low));
const many = (n, make) => Array.from({ length: n }, (_, i) => make(i));
const soon = { steps: ['1s', '2s', '4m', '10m', '30m', '1h'] };

/** Seconds from now within a day, more of them in some hours than in others. */
function inADay() {
  for (;;) {
    const at = some() * 86_400;
    if (some() < 0.25 + 0.75 * Math.sin((Math.PI * at) / 86_400) ** 2) return Math.floor(at);
  }
}

const shop = [
  ...many(180, (i) => ({ topic: 'order-timeout', id: `order-${8800 + i}`, biz_key: String(8800 + i), url: 'http://shop.example/hooks/timeout', delay: between(20, 1800) })),
  ...many(900, (i) => ({ topic: 'trial-reminder', id: `trial-${2400 + i}`, url: 'http://mail.example/send', delay: inADay(), labels: { plan: 'team' } })),
  ...many(1200, (i) => ({ topic: 'invoice-overdue', id: `inv-2026-${1100 + i}`, url: 'http://books.example/overdue', delay: inADay() })),
  ...many(600, (i) => ({ topic: 'cart-abandoned', id: `cart-${51_000 + i}`, url: 'http://mail.example/send', delay: inADay() })),
  ...many(420, (i) => ({ topic: 'payment-notify', id: `pay-${70_100 + i}`, biz_key: String(8100 + i), url: 'http://shop.example/paid', body: { paid: true } })),
  ...many(260, (i) => ({ topic: 'crm-sync', id: `contact-${300 + i}`, url: 'http://crm.example/sync', delay: between(0, 8) })),
  ...many(9, (i) => ({ topic: 'payment-notify', id: `pay-${71_200 + i}`, biz_key: String(9200 + i), url: 'http://hooks.merchant.example/paid', body: { payment: 71_200 + i }, priority: 8, retry: soon })),
  ...many(6, (i) => ({ topic: 'payment-notify', id: `pay-${71_300 + i}`, url: 'http://hooks.merchant.example/closed', body: {} })),
  ...many(14, (i) => ({ topic: 'crm-sync', id: `contact-${900 + i}`, url: 'http://crm.example/legacy', retry: { steps: ['1s', '1s'] } })),
  ...many(3, (i) => ({ topic: 'invoice-overdue', id: `inv-2025-${90 + i}`, url: 'http://127.0.0.2:81/overdue', retry: { steps: ['1s'] } })),
];

/** A warehouse that is down: its jobs fail until its circuit opens, then wait. */
const warehouse = many(64, (i) => ({ topic: 'stock-sync', id: `sku-${4400 + i}`, url: 'http://warehouse.example:82/stock', retry: { steps: ['9m', '30m'] } }));

/** How late attempts of a minute began, by the bounds of an overview, if all is well or if something is busy. */
function minute(at, bounds) {
  const busy = Math.max(0, 1 - Math.abs(at - 24) / 5);
  const n = Math.round(60 + 40 * Math.sin(at / 7) + 160 * busy + some() * 30);
  const middle = 1.2 + 4.5 * busy;
  return Array.from({ length: bounds + 1 }, (_, i) => Math.round(n * Math.exp(-(((i - middle) / (1 + busy)) ** 2)) * (0.4 + some() * 0.6)));
}

/** Nobody can wait for an hour of attempts, so those of the past minutes are made up, in both charts. */
async function withAnHour(page) {
  let past;
  await page.route('**/v1/overview', async (route) => {
    const answer = await route.fetch();
    const overview = await answer.json();
    const { delivered, failed, lateness } = overview.recent;
    past ??= lateness.counts.map((_, at) => minute(at, lateness.bounds_ms.length));
    lateness.counts = lateness.counts.map((counts, at) => (counts.some(Boolean) ? counts : past[at]));
    lateness.counts.forEach((counts, at) => {
      if (delivered[at] + failed[at] === 0) delivered[at] = counts.reduce((sum, n) => sum + n, 0);
    });
    const all = delivered.reduce((sum, n) => sum + n, 0);
    overview.success_rate = all / (all + failed.reduce((sum, n) => sum + n, 0));
    await route.fulfill({ response: answer, json: overview });
  });
  let earlier;
  await page.route('**/v1/activity?**', async (route) => {
    const answer = await route.fetch();
    const activity = await answer.json();
    const { delivered, failed } = activity;
    earlier ??= delivered.map((_, at) => Math.round(90 + 40 * Math.sin(at / 6) + some() * 30));
    delivered.forEach((n, at) => {
      if (n + failed[at] > 0) return;
      delivered[at] = earlier[at];
      failed[at] = Math.round(earlier[at] * (at % 17 === 5 ? 0.3 : 0.02));
    });
    await route.fulfill({ response: answer, json: activity });
  });
}

/** What the shop wants of its topics, and wants to be told. */
const told = 'http://ops.example/alerts';
const wishes = [
  ['/v1/topics/payment-notify', { capacity: 100_000, concurrency: 256, timeout: '5s', headers: { 'X-Tenant': 'acme' } }],
  ['/v1/alerts/rules/lost', { metric: 'dead_letters', topic: 'payment-notify', above: 0, url: told }],
  ['/v1/alerts/rules/endpoint-down', { metric: 'open_circuits', url: told }],
  ['/v1/alerts/rules/failing', { metric: 'failures', above: 1000, url: told, format: 'slack' }],
  ['/v1/alerts/rules/late', { metric: 'oldest_due', above: 300, url: told }],
];

const pages = {
  overview: '/',
  endpoints: '/endpoints',
  jobs: '/jobs?topic=payment-notify',
  job: '/jobs/payment-notify/pay-71204',
  alerts: '/alerts',
  topic: '/topics/payment-notify',
};

const receivers = await startReceivers();
const node = await startNode(['--retry-jitter', '0', '--breaker-failures', '40', '--breaker-open', '5m']);
const browser = await launch();
try {
  for (const [path, wish] of wishes) await node.call('PUT', path, wish);
  for (let at = 0; at < shop.length; at += 1000) await node.call('POST', '/v1/jobs/batch', { jobs: shop.slice(at, at + 1000) });
  await eventually('the payments were tried three times', async () => (await node.call('GET', '/v1/jobs/payment-notify/pay-71204')).attempts >= 3);
  await eventually('all letters are dead', async () => (await node.call('GET', '/v1/dead')).data.reduce((sum, group) => sum + group.count, 0) === 23);
  await node.call('POST', '/v1/jobs/batch', { jobs: warehouse });
  await eventually('the circuit of the warehouse opens', async () => (await node.call('GET', '/v1/overview')).open_circuits === 1);
  await eventually('two alerts fire', async () => (await node.call('GET', '/v1/alerts')).data.length === 2);
  await mkdir(images, { recursive: true });
  for (const colorScheme of ['light', 'dark']) {
    const context = await browser.newContext({ viewport: { width: 1280, height: 840 }, deviceScaleFactor: 1.5, colorScheme, locale: 'en-GB' });
    const page = await context.newPage();
    await withAnHour(page);
    for (const [name, path] of Object.entries(pages)) {
      await page.goto(node.base + path, { waitUntil: 'load' });
      await page.locator(name === 'overview' ? '#lateness canvas' : 'tbody tr, .attempts, .settings').first().waitFor();
      if (name === 'overview' || name === 'topic') await page.locator('#activity svg').waitFor();
      await page.waitForTimeout(300); // until the charts are painted
      await page.screenshot({ path: `${images}${name}-${colorScheme}.png` });
    }
    await context.close();
  }
} finally {
  await browser.close();
  await node.stop();
  receivers.closeAllConnections();
  receivers.close();
}
