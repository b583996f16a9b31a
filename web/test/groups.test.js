/** Groups: list, one group, form; jobs of a fan-out. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, within } from './lib/browser.js';
import { startSuite } from './lib/suite.js';
import { settled } from './lib/wait.js';

const { node, receiver, page, go, button, link, part, field, says, row } = await startSuite();

const put = (name, ...members) => node.call('PUT', `/v1/groups/${name}`, { members });
const get = (name) => node.call('GET', `/v1/groups/${name}`);
const member = (name, more = {}) => ({ name, url: `${receiver.url}/${name}`, ...more });

test('create, with errors beside fields', async () => {
  await go('/groups?new');
  await field('Name').first().fill('events');
  await within(part('Member 1')).field('Name').fill('mail');
  await within(part('Member 1')).field('URL').fill(`${receiver.url}/mail`);
  await button('Add a member').click();
  await within(part('Member 2')).field('Name').fill('crm');
  await within(part('Member 2')).field('URL').fill('nowhere');
  await within(part('Member 2')).field('Filter label').fill('eu');
  await within(part('Member 2')).field('Headers, one per line').fill('x-tenant: acme');
  await button('Save').click();
  await part('Member 2').locator('.field', { hasText: 'URL' }).locator('.wrong').waitFor();
  assert.equal(await page.locator('.field .wrong').count(), 1);
  await within(part('Member 2')).field('URL').fill(`${receiver.url}/crm`);
  await button('Save').click();
  await says('The group is saved.');
  await page.getByRole('heading', { name: 'events', level: 1, exact: true }).waitFor();
  await row('mail', '/mail');
  await row('crm', '/crm', 'eu', 'X-Tenant');
  const { members } = await get('events');
  assert.deepEqual(members, [member('mail', { headers: {}, filter_label: null }), member('crm', { headers: { 'X-Tenant': 'acme' }, filter_label: 'eu' })]);
});

test('change members, but not over the changes of somebody else', async () => {
  await put('changed', member('a'), member('b', { headers: { 'x-b': '1' } }), member('c'));
  await go('/groups/changed');
  await link('Edit').click();
  await button('Remove member 1').click();
  await button('Add a member').click();
  await within(part('Member 3')).field('Name').fill('d');
  await within(part('Member 3')).field('URL').fill(`${receiver.url}/d`);
  await put('changed', member('z'));
  await button('Save').click();
  await page.getByRole('alert').filter({ hasText: 'Someone else changed this meanwhile' }).waitFor();
  assert.deepEqual((await get('changed')).members.map(({ name }) => name), ['z']);

  await put('changed', member('a'), member('b', { headers: { 'x-b': '1' } }), member('c'));
  await page.reload();
  await button('Remove member 1').click();
  await button('Edit member 1').click();
  await field('Filter label').first().fill('eu');
  await button('Save').click();
  await says('The group is saved.');
  const { members } = await get('changed');
  assert.deepEqual(members, [member('b', { headers: { 'X-B': '1' }, filter_label: 'eu' }), member('c', { headers: {}, filter_label: null })]);
});

test('find a member', async () => {
  await put('large', ...Array.from({ length: 120 }, (_, n) => member(`m${n}`)));
  await go('/groups/large');
  await page.getByText('Members: 120').waitFor();
  await page.getByText('20 more are not shown.').waitFor();
  await field('Find a member').fill('m119');
  await row('m119');
  assert.equal(await page.getByRole('row').count(), 2);
  await field('Find a member').fill('nobody');
  await page.getByText('No member matches.').waitFor();
});

test('a large group is edited by the line', async () => {
  await put('thousand', ...Array.from({ length: 1000 }, (_, n) => member(`m${n}`)));
  await go('/groups/thousand/edit');
  await page.getByText('900 more are not shown.').waitFor();
  assert.equal(await page.getByRole('group', { name: /^Member/ }).count(), 0);
  await field('Find a member').fill('m777');
  await button('Edit member 778').click();
  await within(part('Member 778')).field('URL').fill('nowhere');
  await field('Find a member').fill('');
  await button('Save').click();
  await part('Member 778').locator('.wrong').waitFor();
  await within(part('Member 778')).field('URL').fill(`${receiver.url}/new`);
  await button('Save').click();
  await says('The group is saved.');
  const { members } = await get('thousand');
  assert.deepEqual([members.length, members[776].url, members[777].url], [1000, `${receiver.url}/m776`, `${receiver.url}/new`]);
});

test('delete', async () => {
  await put('short', member('a'));
  await go('/groups/short');
  await button('Delete').click();
  const dialog = page.getByRole('dialog');
  await accessible(page, 'the question');
  await dialog.getByRole('button', { name: 'Delete' }).click();
  await says('The group is deleted.');
  await page.getByRole('heading', { name: 'Groups', level: 1, exact: true }).waitFor();
  await link('events').waitFor();
  await link('short').waitFor({ state: 'detached' });
  await assert.rejects(get('short'), /group_not_found/);
});

test('a list longer than a page continues on the next one', async () => {
  for (let n = 10; n <= 35; n++) await put(`z${n}`, member('a'));
  await go('/groups');
  await link('z10').waitFor();
  assert.equal(await link('z35').count(), 0);
  await link('Next page').click();
  await link('z35').waitFor();
  await link('First page').click();
  await link('z10').waitFor();
});

test('register for a group, then cancel the jobs of the fan-out', async () => {
  await put('fan', member('a'), member('b', { filter_label: 'eu' }), member('c', { filter_label: 'eu' }));
  await go('/groups/fan');
  await link('Register for this group').click();
  await field('Topic').fill('fan');
  await field('Id').fill('one');
  await field('Delay').fill('1h');
  await field('Only members with the label').fill('eu');
  await button('Register').click();
  await says('Jobs registered: 2');
  await link('one:b').waitFor();
  await node.call('POST', '/v1/jobs', { topic: 'fan', id: 'two', group: 'fan', delay: '1h' });
  await link('one:c').click();
  await link('fan').first().waitFor();
  await link('all jobs of this fan-out').click();
  await link('one:b').waitFor();
  assert.equal(await page.getByRole('row').count(), 3);
  await button('Change all of these…').click();
  const dialog = page.getByRole('dialog');
  await dialog.getByText('group_id:one').waitFor();
  await within(dialog).choice('Action').selectOption('cancel');
  await dialog.getByText('2 jobs').waitFor();
  await dialog.getByRole('button', { name: 'Cancel jobs' }).click();
  await settled(node, 'fan', { cancelled: 2, waiting: 3 });
});

test('a key that may only read sees members, and no actions', async () => {
  await page.route('**/v1/whoami', (route) => route.fulfill({ json: { key_id: null, key_name: null, scope: 'read' } }));
  await go('/groups/events');
  await row('mail', '/mail');
  assert.equal(await link('Edit').count(), 0);
  assert.equal(await button('Delete').count(), 0);
  await page.unrouteAll({ behavior: 'wait' });
});
