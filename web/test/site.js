/** The site that `make docs` built: every page in a browser, its links, and its search. */
import assert from 'node:assert/strict';
import { readFile, readdir } from 'node:fs/promises';
import { createServer } from 'node:http';
import { after, before, test } from 'node:test';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { chinese, english, linksOf } from '../../docs/.vitepress/pages.js';
import { fits, launch, narrow, openPage } from './lib/browser.js';

const root = fileURLToPath(new URL('../../build/site', import.meta.url));
const types = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml', '.json': 'application/json' };

let server, base, browser;
before(async () => {
  server = createServer(async (request, response) => {
    const path = decodeURIComponent(new URL(request.url, 'http://site').pathname).replace(/\/$/, '/index');
    const file = extname(path) ? path : `${path}.html`;
    const content = await readFile(join(root, file)).catch(() => undefined);
    response.writeHead(content ? 200 : 404, { 'Content-Type': types[extname(file)] ?? 'application/octet-stream' }).end(content);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  base = `http://127.0.0.1:${server.address().port}`;
  browser = await launch();
});
after(async () => {
  await browser.close();
  server.closeAllConnections();
  server.close();
});

const links = linksOf([...english, ...chinese]);

test('every page of the sidebar shows', async () => {
  const { page, go, check, close } = await openPage(browser, base);
  page.on('response', (answer) => assert.ok(answer.status() < 400, `${answer.status()} ${answer.url()}`));
  assert.ok(english.length <= 7, 'a reader sees the whole top of the sidebar at a glance');
  for (const link of new Set(links)) {
    await go(link);
    await page.locator('h1').first().waitFor();
    check();
  }
  await close();
});

test('every link and anchor of every page leads somewhere', async () => {
  const names = (await readdir(root, { recursive: true })).filter((name) => name.endsWith('.html') && !['404.html', 'docs.html'].includes(name));
  const pages = Object.fromEntries(await Promise.all(names.map(async (name) => [`/${name}`, await readFile(join(root, name), 'utf8')])));
  let found = 0;
  for (const [name, text] of Object.entries(pages)) {
    for (const [, href] of text.matchAll(/<a [^>]*href="([^"]*)"/g)) {
      const { origin, pathname, hash } = new URL(href.replaceAll('&amp;', '&'), `http://site${name}`);
      if (origin !== 'http://site' || pathname === '/docs.html') continue;
      const target = pages[pathname.replace(/\/$/, '/index') + (extname(pathname) ? '' : '.html')];
      assert.ok(target, `${name} links to ${href}`);
      assert.ok(!hash || target.includes(`id="${decodeURIComponent(hash.slice(1))}"`), `${name} links to ${href}, which has no such heading`);
      found++;
    }
  }
  assert.ok(found > 1000, `only ${found} links`);
});

test('search, in both languages', async () => {
  const { page, go, close } = await openPage(browser, base);
  for (const [start, button, words, want] of [
    ['/', 'Search', 'FOR UPDATE SKIP LOCKED', 'Register after your transaction commits'],
    ['/zh/quickstart', '搜索', '死信', '概念'],
  ]) {
    await go(start);
    await page.getByRole('button', { name: button }).first().click();
    await page.locator('#localsearch-input').fill(words);
    await page.locator('.VPLocalSearchBox .result', { hasText: want }).first().waitFor();
    await page.keyboard.press('Escape');
  }
  // Decisions have their own list.
  await go('/');
  await page.getByRole('button', { name: 'Search' }).first().click();
  await page.locator('#localsearch-input').fill('Plan in Go which due jobs go next');
  await page.locator('.VPLocalSearchBox .result').first().waitFor();
  assert.equal(await page.locator('.VPLocalSearchBox .result[href*="/adr/0"]').count(), 0);
  await close();
});

// A reader asks in his own words. The answer is one of the first three pages of the results, and the start page links to it.
const questions = [
  ['how much may a body have', '/limits'],
  ['what happens if Redis loses its data', '/storage'],
  ['how do I stop being called', '/howto/stop'],
  ['test a 30-minute timeout in CI', '/testing'],
  ['what does it cost to keep a million jobs', '/sizing'],
  ['why is my job late', '/howto/late'],
  ['move from a polled table', '/migrate/polling'],
  ['which key may my service have', '/access'],
  ['what do I back up', '/backup'],
  ['is it exactly once', '/concepts'],
];

test('ten questions are answered by one search, and from the home page', async () => {
  const { page, go, close } = await openPage(browser, base);
  await go('/');
  const linked = (await page.locator('main a').all()).map(async (one) => new URL(await one.getAttribute('href'), `${base}/`).pathname);
  const home = new Set(await Promise.all(linked));
  for (const [, answer] of questions) assert.ok(home.has(`${answer}.html`), `the home page does not link to ${answer}`);
  await page.getByRole('button', { name: 'Search' }).first().click();
  for (const [question, answer] of questions) {
    await page.locator('#localsearch-input').fill(question);
    // A page has a result for each of its headings.
    const first = (answer) => {
      const links = [...document.querySelectorAll('.VPLocalSearchBox .result')].map((one) => one.getAttribute('href').split(/[.#]/)[0]);
      return [...new Set(links)].slice(0, 3).includes(answer);
    };
    await page.waitForFunction(first, answer).catch(() => assert.fail(`a search for "${question}" does not show ${answer} among the first three pages`));
  }
  await close();
});

test('the home page says what duehook is', async () => {
  const { page, go, link, close } = await openPage(browser, base);
  await go('/');
  await page.getByRole('heading', { name: 'duehook', level: 1 }).waitFor();
  await page.getByText('duehook sends webhooks at a later time.').waitFor();
  await page.locator('main').getByRole('link', { name: 'quick start' }).first().click();
  await page.getByRole('heading', { name: 'Quick start', level: 1 }).waitFor();
  await close();
});

test('diagrams are drawn, whole, also on a phone and in the dark', async () => {
  for (const options of [{}, { viewport: narrow, theme: 'dark' }]) {
    const { page, go, close } = await openPage(browser, base, options);
    for (const [link, text] of [['/concepts', 'snooze'], ['/zh/concepts', '响应'], ['/lifecycle', 'retrying'], ['/tutorial', 'order-timeout/1']]) {
      await go(link);
      await page.locator('.diagram svg', { hasText: text }).waitFor();
      assert.equal(await page.getByText(/flowchart LR|sequenceDiagram/).count(), 0);
      for (const diagram of await page.locator('.diagram').all()) {
        await diagram.locator('svg').waitFor();
        const cut = await diagram.evaluate((box) => box.scrollWidth - box.clientWidth);
        assert.ok(cut <= 0, `${link} cuts ${cut} px of its diagram`);
        const labels = await diagram.locator('svg').evaluate((svg) => {
          const whole = svg.getBoundingClientRect();
          const outside = ({ left, right, top, bottom }) => left < whole.left - 1 || right > whole.right + 1 || top < whole.top - 1 || bottom > whole.bottom + 1;
          const texts = [...svg.querySelectorAll('text')];
          return { html: svg.querySelectorAll('foreignObject').length, texts: texts.length, outside: texts.filter((one) => outside(one.getBoundingClientRect())).map((one) => one.textContent) };
        });
        assert.ok(labels.texts > 3 && labels.html === 0, `${link} has labels that the styles of the page may cut`);
        assert.deepEqual(labels.outside, [], link);
      }
      await fits(page, link);
    }
    await close();
  }
});

test('the API reference and a phone', async () => {
  const { page, go, close } = await openPage(browser, base, { viewport: narrow });
  for (const link of ['/', '/quickstart', '/zh/concepts']) {
    await go(link);
    await page.locator('h1').first().waitFor();
    await fits(page, link);
  }
  await go('/docs.html#registerJob');
  await page.getByRole('heading', { name: 'Register a job', exact: true }).waitFor();
  await close();
});
