/** Groups: list, one group and its members; jobs of a fan-out. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, within } from './lib/browser.js';
import { startSuite } from './lib/suite.js';
import { settled } from './lib/wait.js';

const { node, receiver, page, go, button, link, field, says, row } = await startSuite();

const put = (name, ...members) => node.call('PUT', `/v1/groups/${name}`, { members });
const get = (name) => node.call('GET', `/v1/groups/${name}`);
const list = 'One member per line: name, URL and perhaps a filter label';
const member = (name, more = {}) => ({ name, url: `${receiver.url}/${name}`, ...more });

const dialog = page.getByRole('dialog');
const save = () => dialog.getByRole('button', { name: 'Save' }).click();

test('a group is made from a list, and never over another one', async () => {
  await go('/groups');
  await button('New group').click();
  await within(dialog).field('Name').fill('events');
  await within(dialog).field(list).fill(`mail ${receiver.url}/mail\n\ncrm\tnowhere\teu`);
  await dialog.getByText('2 added, 0 changed, 0 removed.').waitFor();
  await accessible(page, 'a new group');
  await save();
  await dialog.getByRole('alert').getByText('crm/url').waitFor();
  await within(dialog).field(list).fill(`mail ${receiver.url}/mail\ncrm ${receiver.url}/crm eu`);
  await save();
  await says('The group is saved.');
  await page.getByRole('heading', { name: 'events', level: 1, exact: true }).waitFor();
  await row('mail', '/mail');
  await row('crm', '/crm', 'eu');
  const { members } = await get('events');
  assert.deepEqual(members, [member('mail', { headers: {}, filter_label: null }), member('crm', { headers: {}, filter_label: 'eu' })]);
  await go('/groups');
  await button('New group').click();
  await within(dialog).field('Name').fill('events');
  await save();
  await dialog.getByText('This name is taken.').waitFor();
  await page.keyboard.press('Escape');
  assert.equal((await get('events')).members.length, 2);
});

test('members are added, changed and removed, but not over the changes of somebody else', async () => {
  await put('changed', member('a'), member('b', { headers: { 'x-b': '1' } }));
  await go('/groups/changed');
  await button('Add a member').click();
  await within(dialog).field('Name').fill('c');
  await within(dialog).field('URL').fill('nowhere');
  await within(dialog).field('Headers, one per line').fill('x-tenant: acme');
  await save();
  await dialog.getByRole('alert').getByText('c/url').waitFor();
  await within(dialog).field('URL').fill(`${receiver.url}/c`);
  await save();
  await row('c', 'X-Tenant');
  await button('Edit b').click();
  await within(dialog).field('Filter label').fill('eu');
  await save();
  await row('b', 'eu', 'X-B');
  await button('Remove a').click();
  await dialog.getByRole('button', { name: 'Remove' }).click();
  await button('Remove a').waitFor({ state: 'detached' });
  const now = [member('b', { headers: { 'X-B': '1' }, filter_label: 'eu' }), member('c', { headers: { 'X-Tenant': 'acme' }, filter_label: null })];
  assert.deepEqual((await get('changed')).members, now);

  await button('Remove b').click();
  await dialog.waitFor();
  await put('changed', member('z'));
  await dialog.getByRole('button', { name: 'Remove' }).click();
  await dialog.getByRole('alert').filter({ hasText: 'Someone else changed this meanwhile' }).waitFor();
  assert.deepEqual((await get('changed')).members.map(({ name }) => name), ['z']);
});

test('a large group has parts, a search, and takes a list', async () => {
  await put('large', ...Array.from({ length: 1000 }, (_, n) => member(`m${n}`, n === 777 ? { headers: { 'x-m': '1' } } : {})));
  await go('/groups/large');
  await row('m142');
  assert.equal(await page.getByRole('row').count(), 51);
  await button('Next page').click();
  await row('m143');
  await button('Previous page').click();
  await row('m142');
  await field('Find a member').fill('m777');
  await row('m777');
  assert.equal(await page.getByRole('row').count(), 2);
  await field('Find a member').fill('nobody');
  await page.getByText('No member matches.').waitFor();
  await button('Paste a list…').click();
  await within(dialog).field(list).fill(`m777 ${receiver.url}/new\nm1 ${receiver.url}/m1\nextra ${receiver.url}/extra`);
  await dialog.getByText('1 added, 1 changed, 0 removed.').waitFor();
  await save();
  await dialog.getByRole('alert').getByText('must have at most 1000 members').waitFor();
  await within(dialog).field('Remove members that are not in the list').check();
  await dialog.getByText('1 added, 1 changed, 998 removed.').waitFor();
  await save();
  await says('The group is saved.');
  await field('Find a member').fill('');
  await row('extra', '/extra');
  assert.equal(await page.getByRole('row').count(), 4);
  const { members } = await get('large');
  assert.deepEqual(members.map(({ name, url, headers }) => [name, url, headers]), [
    ['m1', `${receiver.url}/m1`, {}],
    ['m777', `${receiver.url}/new`, { 'X-M': '1' }],
    ['extra', `${receiver.url}/extra`, {}],
  ]);
});

test('delete', async () => {
  await put('short', member('a'));
  await go('/groups/short');
  await button('Delete').click();
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
  for (const name of ['Add a member', 'Paste a list…', 'Edit mail', 'Delete']) assert.equal(await button(name).count(), 0);
  await page.unrouteAll({ behavior: 'wait' });
});
