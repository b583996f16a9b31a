import { useState } from 'preact/hooks';
import { address, type Query } from '../address';
import { api, mayChange, type DeadGroup } from '../api';
import { BulkDialog } from '../components/bulk-dialog';
import { Letters } from '../components/letters';
import { Empty, EndpointLink, When } from '../components/marks';
import { Crumb, Loaded, Pager } from '../components/page';
import { useResource } from '../live';
import { place } from '../router';
import { filterOf } from '../search';
import { count, pullQueue, t, word } from '../text';

/** The groups of dead letters, or the dead letters of the group in the address. */
export function DeadPage() {
  const { query } = place.value;
  const group = filterOf(query);
  if (group.length === 0) return <Groups cursor={query.get('cursor')} />;
  return (
    <>
      <Crumb to="/dead">{t('nav.dead')}</Crumb>
      <h1>{group.map(([name, value]) => (name === 'reason' ? word('reason', value) : value === pullQueue ? t('job.pull') : value)).join(' · ')}</h1>
      <Letters group={group} cursor={query.get('cursor')}>
        <AllOf filter={group} />
      </Letters>
    </>
  );
}

function Groups({ cursor }: { cursor: string | null }) {
  const query: Query = cursor ? [['cursor', cursor]] : [];
  const groups = useResource(address(['dead groups'], query), (abort) => api.dead(query, abort));
  return (
    <>
      <h1>{t('nav.dead')}</h1>
      <Loaded of={groups}>{({ data }) => <GroupTable groups={data} />}</Loaded>
      <Pager first={cursor && '/dead'} next={groups.data?.next_cursor && address(['dead'], [['cursor', groups.data.next_cursor]])} />
    </>
  );
}

function GroupTable({ groups }: { groups: DeadGroup[] }) {
  if (groups.length === 0) return <Empty text={t('dead.none')} />;
  return (
    <>
      <div class="actions end">
        <AllOf filter={[]} />
      </div>
      <table>
        <thead>
          <tr>
            <th>{t('dead.reason')}</th>
            <th>{t('job.topic')}</th>
            <th>{t('job.endpoint')}</th>
            <th class="number">{t('dead.count')}</th>
            <th>{t('dead.oldest')}</th>
            <th>{t('dead.newest')}</th>
          </tr>
        </thead>
        <tbody>
          {groups.map((group) => (
            <Group key={`${group.topic} ${group.endpoint} ${group.reason}`} group={group} />
          ))}
        </tbody>
      </table>
    </>
  );
}

function Group({ group: { topic, endpoint, reason, count: n, oldest_at, newest_at } }: { group: DeadGroup }) {
  return (
    <tr>
      <td class="name">
        <a href={address(['dead'], [['topic', topic], ['endpoint', endpoint], ['reason', reason]])} data-page>
          {word('reason', reason)}
        </a>
      </td>
      <td data-label={t('job.topic')}>
        <a href={address(['topics', topic])} data-page>
          {topic}
        </a>
      </td>
      <td data-label={t('job.endpoint')}>
        <EndpointLink url={endpoint} />
      </td>
      <td data-label={t('dead.count')} class="number">
        {count(n)}
      </td>
      <td data-label={t('dead.oldest')}>
        <When at={oldest_at} />
      </td>
      <td data-label={t('dead.newest')}>
        <When at={newest_at} />
      </td>
    </tr>
  );
}

function AllOf({ filter }: { filter: Query }) {
  const [asked, ask] = useState<'replay' | 'discard'>();
  if (!mayChange.value) return null;
  return (
    <>
      <button onClick={() => ask('replay')}>{t('dead.replayAll')}</button>
      <button class="grave" onClick={() => ask('discard')}>
        {t('dead.discardAll')}
      </button>
      {asked && <BulkDialog filter={[['state', 'dead'], ...filter]} actions={[asked]} onClose={() => ask(undefined)} />}
    </>
  );
}
