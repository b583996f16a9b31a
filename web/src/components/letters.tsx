import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { address, type Query } from '../address';
import { api, mayChange, type Job, type JobPage } from '../api';
import { useResource } from '../live';
import { count, t } from '../text';
import { Dialog } from './dialog';
import { JobTable } from './job-table';
import { Empty } from './marks';
import { notify } from './notices';
import { Loaded, Pager } from './page';

const perPage = '50';

interface Props {
  group: Query;
  cursor: string | null;
  /** Shown beside the button that replays the selected jobs. */
  children: ComponentChildren;
}

/** The dead letters of a group, with a checkbox each. */
export function Letters({ group, cursor, children }: Props) {
  // Those of all topics may be in too many groups to sort.
  const order: Query = group.some(([key]) => key === 'topic') ? [['order', '-ended']] : [];
  const query: Query = [['state', 'dead'], ...group, ...order, ...(cursor ? [['cursor', cursor] as const] : [])];
  const name = address(['dead'], query);
  const page = useResource(name, (abort) => api.jobs([...query, ['limit', perPage]], abort));
  return (
    <Loaded of={page}>
      {(data) => (
        <Page key={name} page={data} group={group} cursor={cursor}>
          {children}
        </Page>
      )}
    </Loaded>
  );
}

function Page({ page: { data: jobs, next_cursor: next }, group, cursor, children }: Props & { page: JobPage }) {
  const [chosen, choose] = useState<ReadonlySet<string>>(new Set());
  const [asking, ask] = useState(false);
  const picked = jobs.filter((job) => chosen.has(job.uid));
  const all = picked.length === jobs.length;
  const toggle = (uid: string) => {
    const changed = new Set(chosen);
    if (!changed.delete(uid)) changed.add(uid);
    choose(changed);
  };
  if (jobs.length === 0) return <Empty text={t('dead.none')} />;
  return (
    <>
      {mayChange.value && (
        <div class="actions end">
          <button class="primary" disabled={picked.length === 0} onClick={() => ask(true)}>
            {t('dead.replay', { n: count(picked.length) })}
          </button>
          {children}
        </div>
      )}
      <JobTable
        jobs={jobs}
        leadHead={
          <input
            type="checkbox"
            aria-label={t('dead.chooseAll')}
            checked={all}
            onChange={() => choose(new Set(all ? [] : jobs.map(({ uid }) => uid)))}
          />
        }
        lead={(job) => (
          <input type="checkbox" aria-label={t('dead.choose', { id: job.id })} checked={chosen.has(job.uid)} onChange={() => toggle(job.uid)} />
        )}
      />
      <Pager first={cursor && address(['dead'], group)} next={next && address(['dead'], [...group, ['cursor', next]])} />
      {asking && (
        <Dialog
          title={t('dead.replay', { n: count(picked.length) })}
          action={t('action.replay')}
          onClose={() => ask(false)}
          run={async () => {
            await replay(picked);
            choose(new Set());
          }}
        >
          <p>{t('dead.explain', { n: count(picked.length) })}</p>
        </Dialog>
      )}
    </>
  );
}

async function replay(jobs: Job[]): Promise<void> {
  const results = await Promise.allSettled(jobs.map((job) => api.replay(job)));
  const failed = results.find((result) => result.status === 'rejected');
  if (failed) throw failed.reason;
  notify(t('dead.replayed', { n: count(jobs.length) }));
}
