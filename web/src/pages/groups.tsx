import { address, type Query } from '../address';
import { api, mayChange, type Group } from '../api';
import { Empty, Loading } from '../components/marks';
import { ProblemNote } from '../components/problem';
import { useResource } from '../live';
import { place } from '../router';
import { count, endpointOf, t } from '../text';

/** The answer has all members of each group, so a page is short. */
const perPage = '20';

/** The most endpoints named in a row. */
const mostEndpoints = 3;

export function GroupsPage() {
  const cursor = place.value.query.get('cursor');
  const from: Query = cursor ? [['cursor', cursor]] : [];
  const groups = useResource(address(['groups'], from), (abort) => api.groups([...from, ['limit', perPage]], abort));
  const next = groups.data?.next_cursor;
  return (
    <>
      <h1>{t('nav.groups')}</h1>
      {mayChange.value && (
        <div class="actions">
          <a class="button" href="/groups?new" data-page>
            {t('group.new')}
          </a>
        </div>
      )}
      {groups.error && <ProblemNote error={groups.error} />}
      {groups.data ? <List groups={groups.data.data} /> : !groups.error && <Loading />}
      {(cursor || next) && (
        <nav class="pager" aria-label={t('jobs.pages')}>
          {cursor && (
            <a class="button" href="/groups" data-page>
              {t('jobs.first')}
            </a>
          )}
          {next && (
            <a class="button" href={address(['groups'], [['cursor', next]])} data-page>
              {t('jobs.next')}
            </a>
          )}
        </nav>
      )}
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
