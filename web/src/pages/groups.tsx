import { useState } from 'preact/hooks';
import { address, type Query } from '../address';
import { api, mayChange, type Group } from '../api';
import { Empty } from '../components/marks';
import { EditList } from '../components/members';
import { Loaded, Pager } from '../components/page';
import { now, useResource } from '../live';
import { navigate, place } from '../router';
import { count, endpointOf, t } from '../text';

/** The answer has all members of each group, so a page is short, and loads rarely. */
const perPage = '20';
const everyMs = 30_000;

/** The most endpoints named in a row. */
const mostEndpoints = 3;

export function GroupsPage() {
  const cursor = place.value.query.get('cursor');
  const from: Query = cursor ? [['cursor', cursor]] : [];
  const groups = useResource(address(['groups'], from), (abort) => api.groups([...from, ['limit', perPage]], abort), Math.floor(now.value / everyMs));
  const [making, make] = useState(false);
  const next = groups.data?.next_cursor;
  return (
    <>
      <h1>{t('nav.groups')}</h1>
      {mayChange.value && (
        <div class="actions end">
          <button onClick={() => make(true)}>{t('group.new')}</button>
        </div>
      )}
      <Loaded of={groups}>{({ data }) => <List groups={data} />}</Loaded>
      {making && <EditList group={{ members: [] }} onClose={() => make(false)} onSaved={(name) => navigate(address(['groups', name]))} />}
      <Pager first={cursor && '/groups'} next={next && address(['groups'], [['cursor', next]])} />
    </>
  );
}

function List({ groups }: { groups: Group[] }) {
  if (groups.length === 0) return <Empty text={t('group.none')} />;
  return (
    <table>
      <thead>
        <tr>
          <th>{t('group.group')}</th>
          <th class="number">{t('group.members')}</th>
          <th>{t('nav.endpoints')}</th>
        </tr>
      </thead>
      <tbody>
        {groups.map(({ name: group, members }) => (
          <tr key={group}>
            <td class="name">
              <a href={address(['groups', group])} data-page>
                {group}
              </a>
            </td>
            <td class="number" data-label={t('group.members')}>
              {count(members.length)}
            </td>
            <td data-label={t('nav.endpoints')}>{endpointsOf(members)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** The first endpoints of the members, in words. */
function endpointsOf(members: Group['members']): string {
  const all = [...new Set(members.map(({ url }) => endpointOf(url).replace(/^https?:\/\//, '')))];
  const named = all.slice(0, mostEndpoints).join(', ');
  return all.length > mostEndpoints ? `${named}, …` : named || '–';
}
