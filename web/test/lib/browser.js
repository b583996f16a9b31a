/** A real browser: Debian's Chromium, built without windows, which takes half the CPU time. CHROMIUM names another one. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { chromium } from 'playwright-core';
import { eventually } from './wait.js';

const axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

export const launch = () =>
  chromium.launch({
    timeout: 120_000,
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium-headless-shell',
    args: ['--no-sandbox', '--disable-dev-shm-usage'],
  });

export const wide = { width: 1280, height: 860 };
export const narrow = { width: 360, height: 740 };

/** Keeps the notices of a page: they show for seconds only, and the next may have the same text. */
const keepNotices = () => {
  globalThis.notices = [];
  new MutationObserver(() => {
    const shown = document.querySelector('.notice');
    if (shown && shown !== globalThis.lastNotice) globalThis.notices.push((globalThis.lastNotice = shown).textContent);
  }).observe(document, { childList: true, subtree: true });
};

/** Waits for a notice with the text, after those that were waited for before. */
const says = (page) => (text) =>
  page
    .waitForFunction((wanted) => {
      const at = globalThis.notices.findIndex((notice) => notice.includes(wanted));
      return at >= 0 && globalThis.notices.splice(0, at + 1);
    }, text)
    .catch((error) => {
      throw new Error(`waiting for the notice "${text}"`, { cause: error });
    });

/** A page that notes whatever must not happen: errors, refused code, requests that go elsewhere. */
export async function openPage(browser, base, options = {}) {
  const { theme = 'light', language = 'en', viewport = wide, key } = options;
  const context = await browser.newContext({ viewport, colorScheme: theme, locale: language === 'zh' ? 'zh-CN' : 'en-GB', timezoneId: 'UTC' });
  await context.grantPermissions(['clipboard-read', 'clipboard-write']);
  const page = await context.newPage();
  const wrong = [];
  page.on('pageerror', (error) => wrong.push(`error: ${error.message}`));
  page.on('console', (message) => {
    // The browser itself reports each answer that is an error; tests cause some on purpose.
    const refusal = message.text().startsWith('Failed to load resource');
    if (message.type() === 'error' && !refusal) wrong.push(`console: ${message.text()}`);
  });
  page.on('request', (request) => {
    if (new URL(request.url()).origin !== base) wrong.push(`request to ${request.url()}`);
  });
  if (key) await page.addInitScript((value) => sessionStorage.setItem('duehook.key', value), key);
  await page.addInitScript(keepNotices);
  page.setDefaultTimeout(120_000);
  const check = () => assert.deepEqual(wrong.splice(0), [], 'nothing unwanted happened');
  return {
    page,
    ...within(page),
    says: says(page),
    go: (path) => page.goto(base + path),
    check,
    async close() {
      await page.unrouteAll({ behavior: 'ignoreErrors' }); // the page polls, so a handler may be running
      await context.close();
      check();
    },
  };
}

/** Finds things by their whole names: what is added to a page beside them changes nothing. */
export function within(place) {
  const named = (role) => (name) => place.getByRole(role, { name, exact: true });
  return {
    button: named('button'),
    link: named('link'),
    part: named('group'),
    // The text of a label that is around a list has its options, too.
    choice: named('combobox'),
    field: (name) => place.getByLabel(name, { exact: true }),
    row: (...texts) => texts.reduce((rows, text) => rows.filter({ hasText: text }), place.getByRole('row')).waitFor(),
  };
}

/** Fails for what the automatic accessibility rules find. */
export async function accessible(page, where) {
  // The page's policy forbids code from elsewhere; the debugging protocol is not bound by it.
  await page.evaluate(axe);
  const found = await page.evaluate(async () => {
    const { violations } = await globalThis.axe.run(document, {
      runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'],
    });
    return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html, failureSummary }) => `${html} ${failureSummary}`).join('\n')}`);
  });
  assert.deepEqual(found, [], `axe on ${where}`);
}

/** Fails if the page stays wider than its window. Charts follow a change of the window a moment later. */
export async function fits(page, where) {
  const over = () => page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  await eventually(`${where} is no wider than its window`, async () => (await over()) <= 0);
}
