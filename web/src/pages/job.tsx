import { address } from '../address';
import { api, mayChange, type Attempt, type Count, type Explanation, type Job, type Stored } from '../api';
import { AttemptList } from '../components/attempts';
import { callbackFacts } from '../components/callbacks';
import { JobActions } from '../components/job-actions';
import { Ladder } from '../components/ladder';
import { EndpointLink, Loading, StateMark, When } from '../components/marks';
import { Crumb, Facts, lines, Loaded, type Fact } from '../components/page';
import { messageId } from '../components/request';
import { Named, Why } from '../components/why';
import { now, useResource, type Resource } from '../live';
import { asValue } from '../search';
import { clock, count, localTimes, said, span, t, word } from '../text';

export function JobPage({ topic, id }: { topic: string; id: string }) {
  const name = { topic, id };
  const told = useResource(address(['explain', topic, id]), (abort) => api.explain(name, abort));
  const attempts = useResource(address(['attempts', topic, id]), (abort) => api.attempts(name, abort));
  return (
    <>
      <Crumb to={address(['topics', topic])}>{topic}</Crumb>
      <h1>{id}</h1>
      <Loaded of={told}>{(found) => <Details told={found} attempts={attempts.data} />}</Loaded>
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
              <Why topic={job.topic} reason={reason} open={job.ended_at === null} />
            </li>
          ))}
          {notes.map((note) => (
            <li key={note.code} class="muted">
              {said([note]) ?? <span lang="en">{localTimes(note.detail)}</span>}
              <Named topic={job.topic} of={[note]} />
            </li>
          ))}
        </ul>
      </section>
      <section class="card">
        <h2>{t('ladder.title')}</h2>
        {attempts ? <Ladder job={job} attempts={attempts} forecast={ladder} /> : <Loading />}
      </section>
      <div class="columns">
        <section>
          <h2>{t('job.attempts')}</h2>
          <AttemptList job={job} stored={stored} attempts={attempts} />
        </section>
        <Registered told={told} />
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
  if (reasons.some((r) => r.code === 'awaits_consumer')) return <p class="big">{word('why', 'awaits_consumer').replace(/[.。]$/, '')}</p>;
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

/** A time from now, and by the clock. */
const Then = ({ at }: { at: string }) => (
  <>
    <When at={at} /> <span class="muted">{clock(Date.parse(at))}</span>
  </>
);

/** A link to the jobs of a filter. */
const JobsOf = ({ topic, name, value }: { topic?: string; name: string; value: string }) => (
  <a href={address(['jobs'], [...(topic === undefined ? [] : [['topic', topic] as const]), [name, name === 'labels' ? asValue(value) : value]])} data-page>
    {value}
  </a>
);

function Registered({ told: { job, ladder } }: { told: Explanation }) {
  const { topic } = job;
  const facts: Fact[] = [
    [t('job.request'), job.url === null ? t('job.pull') : <span class="mono">{`${job.method} ${job.url}`}</span>, true],
    [t('job.endpoint'), job.url !== null && <EndpointLink url={job.url} />],
    [t('job.topic'), <JobsOf name="topic" value={topic} />],
    [t('job.created'), <Then at={job.created_at} />],
    [t('job.due'), <Then at={job.due_at} />],
    [t('job.spread'), job.spread && t('job.spreadOver', { span: job.spread })],
    [t('job.attempts'), t('job.attemptsOf', { n: job.attempts, max: job.max_attempts })],
    [t('register.steps'), job.retry?.steps && <span class="mono">{job.retry.steps.join(' ')}</span>],
    [t('register.timeout'), job.timeout],
    [t('register.expect'), job.expect && <span class="mono">{job.expect.body}</span>],
    [t('job.priority'), job.priority],
    [t('job.expires'), ladder.expires_at && <Then at={ladder.expires_at} />],
    [
      t('schedule.schedule'),
      job.schedule && (
        <a href={address(['schedules', job.schedule])} data-page>
          {job.schedule}
        </a>
      ),
    ],
    ...callbackFacts(job),
    [
      t('group.group'),
      job.group && job.group_id && (
        <>
          <a href={address(['groups', job.group])} data-page>
            {job.group}
          </a>{' '}
          <a href={address(['jobs'], [['topic', topic], ['group_id', job.group_id]])} data-page>
            {t('group.jobs')}
          </a>
        </>
      ),
    ],
    [t('job.orderKey'), job.order_key && <JobsOf topic={topic} name="order_key" value={job.order_key} />],
    [t('job.bizKey'), job.biz_key && <JobsOf name="biz_key" value={job.biz_key} />],
    [
      t('job.labels'),
      lines(
        Object.entries(job.labels ?? {}).map(([name, value]) => `${name}:${value}`),
        (pair) => <JobsOf name="labels" value={pair} />,
      ),
    ],
    ['webhook-id', <span class="mono">{messageId(job)}</span>, true],
  ];
  return (
    <section class="card facts">
      <h2>{t('job.facts')}</h2>
      <Facts facts={facts} />
    </section>
  );
}
