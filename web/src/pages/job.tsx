import { address } from '../address';
import { api, mayChange, type Attempt, type Job } from '../api';
import { AttemptList } from '../components/attempts';
import { JobActions } from '../components/job-actions';
import { Ladder } from '../components/ladder';
import { Loading, StateMark, When } from '../components/marks';
import { ProblemNote } from '../components/problem';
import { now, useResource } from '../live';
import { clock, span, t, word } from '../text';

export function JobPage({ topic, id }: { topic: string; id: string }) {
  const name = { topic, id };
  const job = useResource(address(['job', topic, id]), (abort) => api.job(name, abort));
  const attempts = useResource(address(['attempts', topic, id]), (abort) => api.attempts(name, abort));
  return (
    <>
      <p class="crumb">
        <a href={address(['jobs'], [['topic', topic]])} data-page>
          {topic}
        </a>
      </p>
      <h1>{id}</h1>
      {job.error && <ProblemNote error={job.error} />}
      {job.data ? <Details job={job.data} attempts={attempts.data ?? []} /> : !job.error && <Loading />}
    </>
  );
}

function Details({ job, attempts }: { job: Job; attempts: Attempt[] }) {
  return (
    <>
      <section class="card standing">
        <div>
          <StateMark state={job.state} />
          <Standing job={job} />
        </div>
        {mayChange.value && <JobActions job={job} />}
      </section>
      <section class="card">
        <h2>{t('ladder.title')}</h2>
        <Ladder job={job} attempts={attempts} />
      </section>
      <div class="columns">
        <section>
          <h2>{t('job.attempts')}</h2>
          <AttemptList job={job} attempts={attempts} />
        </section>
        <Facts job={job} />
      </div>
    </>
  );
}

/** What the job waits for, or how it ended. */
function Standing({ job }: { job: Job }) {
  if (job.state === 'running') return <p class="big">{t('standing.running')}</p>;
  if (job.next_at !== null) {
    const left = Date.parse(job.next_at) - now.value;
    return (
      <p class="big" role="timer">
        {left > 0 ? t('standing.next', { span: span(Math.max(1000, left)) }) : t('standing.due')}
        <span class="muted">{clock(Date.parse(job.next_at))}</span>
      </p>
    );
  }
  return (
    <p class="big">
      {job.reason && word('reason', job.reason)}
      {job.ended_at && (
        <span class="muted">
          <When at={job.ended_at} />
        </span>
      )}
    </p>
  );
}

function Facts({ job }: { job: Job }) {
  return (
    <section class="card facts">
      <h2>{t('job.facts')}</h2>
      <dl>
        <dt>{t('job.request')}</dt>
        <dd class="mono">
          {job.method} {job.url}
        </dd>
        <dt>{t('job.due')}</dt>
        <dd>
          <When at={job.due_at} /> <span class="muted">{clock(Date.parse(job.due_at))}</span>
        </dd>
        <dt>{t('job.created')}</dt>
        <dd>
          <When at={job.created_at} /> <span class="muted">{clock(Date.parse(job.created_at))}</span>
        </dd>
        <dt>{t('job.attempts')}</dt>
        <dd>{t('job.attemptsOf', { n: job.attempts, max: job.max_attempts })}</dd>
        {job.biz_key && (
          <>
            <dt>{t('job.bizKey')}</dt>
            <dd>
              <a href={address(['jobs'], [['biz_key', job.biz_key]])} data-page>
                {job.biz_key}
              </a>
            </dd>
          </>
        )}
        <dt>webhook-id</dt>
        <dd class="mono">{job.uid}</dd>
      </dl>
    </section>
  );
}
