import { address } from '../address';
import { api, mayChange, type Attempt, type Count, type Explanation, type Job, type Sentence, type Stored } from '../api';
import { AttemptList } from '../components/attempts';
import { CallbackFacts } from '../components/callbacks';
import { JobActions } from '../components/job-actions';
import { Ladder } from '../components/ladder';
import { Loading, StateMark, When } from '../components/marks';
import { ProblemNote } from '../components/problem';
import { messageId } from '../components/request';
import { now, useResource, type Resource } from '../live';
import { asValue } from '../search';
import { clock, count, localTimes, said, span, t, word } from '../text';

export function JobPage({ topic, id }: { topic: string; id: string }) {
  const name = { topic, id };
  const told = useResource(address(['explain', topic, id]), (abort) => api.explain(name, abort));
  const attempts = useResource(address(['attempts', topic, id]), (abort) => api.attempts(name, abort));
  return (
    <>
      <p class="crumb">
        <a href={address(['jobs'], [['topic', topic]])} data-page>
          {topic}
        </a>
      </p>
      <h1>{id}</h1>
      {told.error && <ProblemNote error={told.error} />}
      {told.data ? <Details told={told.data} attempts={attempts.data} /> : !told.error && <Loading />}
    </>
  );
}

function Details({ told, attempts }: { told: Explanation; attempts: Attempt[] | undefined }) {
  const { job, reasons, notes, ladder } = told;
  const stored = useStored(job).data;
  return (
    <>
      <section class="card">
        <div class="standing">
          <div>
            <StateMark state={job.state} />
            <Standing told={told} />
          </div>
          {mayChange.value && <JobActions job={job} stored={stored} />}
        </div>
        {job.count && <Progress of={job.count} />}
        <ul class="reasons">
          {reasons.map((reason) => (
            <li key={reason.code}>
              {job.ended_at === null && <strong>{word('why', reason.code)} </strong>}
              {said(reason.sentences) ?? <span lang="en">{localTimes(reason.detail)}</span>}
              <Others topic={job.topic} of={reason.sentences} />
            </li>
          ))}
          {notes.map((note) => (
            <li key={note.code} class="muted">
              {said([note]) ?? <span lang="en">{localTimes(note.detail)}</span>}
              <Others topic={job.topic} of={[note]} />
            </li>
          ))}
        </ul>
      </section>
      <section class="card">
        <h2>{t('ladder.title')}</h2>
        {attempts ? <Ladder job={job} attempts={attempts} forecast={ladder} reasons={reasons} /> : <Loading />}
      </section>
      <div class="columns">
        <section>
          <h2>{t('job.attempts')}</h2>
          <AttemptList job={job} stored={stored} attempts={attempts} />
        </section>
        <Facts told={told} />
      </div>
    </>
  );
}

/** The count of a job that fires at a count. */
function Progress({ of: { count: n, target, at_deadline: deadline, fired } }: { of: Count }) {
  return (
    <div class="count">
      <p>
        <strong>{t('count.of', { n: count(n), target: count(target) })}</strong>{' '}
        <span class="muted">{t(fired ? 'count.fired' : `deadline.${deadline}`)}</span>
      </p>
      <progress aria-label={t('count.title')} max={target} value={Math.min(n, target)} />
    </div>
  );
}

/** Links to the jobs of the topic that sentences name. */
function Others({ topic, of }: { topic: string; of: Sentence[] }) {
  const ids = new Set(of.flatMap(({ params }) => (params['job'] === undefined ? [] : [String(params['job'])])));
  return [...ids].map((id) => (
    <span key={id}>
      {' '}
      <a href={address(['jobs', topic, id])} data-page>
        {t('job.open', { id })}
      </a>
    </span>
  ));
}

/** The headers and the body, loaded whenever the job has changed; undefined if the key may not read them. */
function useStored(job: Job): Resource<Stored | undefined> {
  const may = mayChange.value;
  const name = address(['registration', job.topic, job.id, String(may)]);
  return useResource(name, async (abort) => (may ? api.stored(job, abort) : undefined), job.version);
}

/** The reason why the job waits, or how it ended. */
function Standing({ told: { job, reasons, expected_at: expected } }: { told: Explanation }) {
  if (job.state === 'running') return <p class="big">{t('standing.running')}</p>;
  if (expected !== null) {
    const left = Date.parse(expected) - now.value;
    return (
      <p class="big" role="timer">
        {left > 0 ? t('standing.next', { span: span(Math.max(1000, left)) }) : t('standing.due')}
        <span class="muted">{clock(Date.parse(expected))}</span>
      </p>
    );
  }
  const behind = reasons.flatMap((r) => r.sentences).find((s) => s.code === 'order_key_behind');
  if (behind) return <p class="big">{t('standing.behind', { count: String(behind.params.count) })}</p>;
  if (reasons.some((r) => r.code === 'awaits_consumer')) return <p class="big">{word('why', 'awaits_consumer')}</p>;
  if (job.ended_at === null) return <p class="big">{t('standing.blocked')}</p>;
  return (
    <p class="big">
      {job.reason && word('reason', job.reason)}
      <span class="muted">
        <When at={job.ended_at} />
      </span>
    </p>
  );
}

function Facts({ told: { job, ladder } }: { told: Explanation }) {
  return (
    <section class="card facts">
      <h2>{t('job.facts')}</h2>
      <dl>
        <dt>{t('job.request')}</dt>
        {job.url === null ? (
          <dd>{t('job.pull')}</dd>
        ) : (
          <dd class="mono">
            {job.method} {job.url}
          </dd>
        )}
        <dt>{t('job.due')}</dt>
        <dd>
          <When at={job.due_at} /> <span class="muted">{clock(Date.parse(job.due_at))}</span>
        </dd>
        {job.spread && (
          <>
            <dt>{t('job.spread')}</dt>
            <dd>{t('job.spreadOver', { span: job.spread })}</dd>
          </>
        )}
        <dt>{t('job.created')}</dt>
        <dd>
          <When at={job.created_at} /> <span class="muted">{clock(Date.parse(job.created_at))}</span>
        </dd>
        <dt>{t('job.attempts')}</dt>
        <dd>{t('job.attemptsOf', { n: job.attempts, max: job.max_attempts })}</dd>
        {job.rounds && (
          <>
            <dt>{t('job.rounds')}</dt>
            <dd>{count(job.rounds)}</dd>
          </>
        )}
        {job.retry?.steps && (
          <>
            <dt>{t('register.steps')}</dt>
            <dd class="mono">{job.retry.steps.join(' ')}</dd>
          </>
        )}
        {job.timeout && (
          <>
            <dt>{t('register.timeout')}</dt>
            <dd>{job.timeout}</dd>
          </>
        )}
        {job.expect && (
          <>
            <dt>{t('register.expect')}</dt>
            <dd class="mono">{job.expect.body}</dd>
          </>
        )}
        <dt>{t('job.priority')}</dt>
        <dd>{job.priority}</dd>
        {ladder.expires_at && (
          <>
            <dt>{t('job.expires')}</dt>
            <dd>
              <When at={ladder.expires_at} />
            </dd>
          </>
        )}
        {job.schedule && (
          <>
            <dt>{t('schedule.schedule')}</dt>
            <dd>
              <a href={address(['schedules', job.schedule])} data-page>
                {job.schedule}
              </a>
            </dd>
          </>
        )}
        <CallbackFacts job={job} />
        {job.group && job.group_id && (
          <>
            <dt>{t('group.group')}</dt>
            <dd>
              <a href={address(['groups', job.group])} data-page>
                {job.group}
              </a>{' '}
              <a href={address(['jobs'], [['topic', job.topic], ['group_id', job.group_id]])} data-page>
                {t('group.jobs')}
              </a>
            </dd>
          </>
        )}
        {job.order_key && (
          <>
            <dt>{t('job.orderKey')}</dt>
            <dd>
              <a href={address(['jobs'], [['topic', job.topic], ['order_key', job.order_key]])} data-page>
                {job.order_key}
              </a>
            </dd>
          </>
        )}
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
        <Labels labels={job.labels ?? {}} />
        <dt>webhook-id</dt>
        <dd class="mono">{messageId(job)}</dd>
      </dl>
    </section>
  );
}

function Labels({ labels }: { labels: Record<string, string> }) {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}:${value}`);
  if (pairs.length === 0) return null;
  return (
    <>
      <dt>{t('job.labels')}</dt>
      {pairs.map((pair) => (
        <dd key={pair}>
          <a href={address(['jobs'], [['labels', asValue(pair)]])} data-page>
            {pair}
          </a>
        </dd>
      ))}
    </>
  );
}
