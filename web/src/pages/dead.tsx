import { useState } from 'preact/hooks';
import { address, type Query } from '../address';
import { api, ApiError, type Job } from '../api';
import { Dialog } from '../components/dialog';
import { JobTable } from '../components/job-table';
import { Empty, Loading } from '../components/marks';
import { notify, notifyError } from '../components/notices';
import { ProblemNote } from '../components/problem';
import { refresh, useResource } from '../live';
import { place } from '../router';
import { count, t } from '../text';

const perPage = '50';

export function DeadPage() {
  const cursor = place.value.query.get('cursor');
  const query: Query = cursor ? [['cursor', cursor]] : [];
  const name = address(['dead'], query);
  const page = useResource(name, (abort) => api.jobs([['state', 'dead'], ['limit', perPage], ...query], abort));
  return (
    <>
      <h1>{t('nav.dead')}</h1>
      {page.error && <ProblemNote error={page.error} />}
      {page.data ? <Letters key={name} jobs={page.data.data} next={page.data.next_cursor} /> : !page.error && <Loading />}
    </>
  );
}

function Letters({ jobs, next }: { jobs: Job[]; next: string | null }) {
  const [chosen, choose] = useState<ReadonlySet<string>>(new Set());
  const [asking, ask] = useState(false);
  const picked = jobs.filter((job) => chosen.has(job.uid));
  const toggle = (uid: string) => {
    const changed = new Set(chosen);
    if (!changed.delete(uid)) changed.add(uid);
    choose(changed);
  };
  if (jobs.length === 0) return <Empty text={t('dead.none')} />;
  const all = picked.length === jobs.length;
  return (
    <>
      <div class="actions">
        <button class="primary" disabled={picked.length === 0} onClick={() => ask(true)}>
          {t('dead.replay', { n: count(picked.length) })}
        </button>
      </div>
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
          <a class="button" href={address(['dead'], [['cursor', next]])} data-page>
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
