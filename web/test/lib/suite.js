/** What most files of tests begin with: a node, a receiver, and a page in a browser. */
import { after, afterEach } from 'node:test';
import { launch, openPage } from './browser.js';
import { startNode } from './node.js';
import { startReceiver } from './receiver.js';

/** Starts all of it, until the tests of the file have ended. Each test must leave the page without complaints. */
export async function startSuite(settings) {
  const [node, receiver, browser] = await Promise.all([startNode(settings), startReceiver(), launch()]);
  after(async () => {
    await browser.close();
    await Promise.all([node.stop(), receiver.stop()]);
  });
  const opened = await openPage(browser, node.base);
  afterEach(() => opened.check());
  return { node, receiver, browser, ...opened };
}
