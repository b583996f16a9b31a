import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { address, type Query } from '../address';
import { api, ApiError, mayChange, type Job, type JobPage } from '../api';
import { refresh, useResource } from '../live';
import { count, t } from '../text';
import { Dialog } from './dialog';
import { JobTable } from './job-table';
import { Empty, Loading } from './marks';
import { notify, notifyError } from './notices';
import { ProblemNote } from './problem';

const perPage = '50';

interface Props {
  group: Query;
  cursor: string | null;
  /** Shown beside the button that replays the selected jobs. */
  children: ComponentChildren;
}

/** The dead letters of a group, with a checkbox each. */
export function Letters({ group, cursor, children }: Props) {
  const query: Query = [['state', 'dead'], ...group, ...(cursor ? [['cursor', cursor] as const] : [])];
  const name = address(['dead'], query);
  const page = useResource(name, (abort) => api.jobs([...query, ['limit', perPage]], abort));
  if (!page.data) return page.error ? <ProblemNote error={page.error} /> : <Loading />;
  return (
    <Page key={name} page={page.data} group={group}>
      {children}
    </Page>
  );
}

function Page({ page: { data: jobs, next_cursor: next }, group, children }: Omit<Props, 'cursor'> & { page: JobPage }) {
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
        <div class="actions">
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
      {next && (
        <nav class="pager" aria-label={t('jobs.pages')}>
          <a class="button" href={address(['dead'], [...group, ['cursor', next]])} data-page>
            {t('jobs.next')}
          </a>
        </nav>
      )}
      {asking && (
        <Dialog
          title={t('dead.replay', { n: count(picked.length) })}
          action={t('action.replay')}
          onClose={() => ask(false)}
          onSubmit={() => {
            choose(new Set());
            void replay(picked);
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
  if (failed?.reason instanceof ApiError) notifyError(failed.reason);
  else notify(t('dead.replayed', { n: count(jobs.length) }));
  refresh();
}
