import type { ComponentChildren } from 'preact';
import { address } from '../address';
import { api, usualPriority, type Attempt, type Job } from '../api';
import { now, useResource } from '../live';
import { count, said, t, word } from '../text';
import { EndpointLink, StateMark, When } from './marks';

interface Props {
  jobs: Job[];
  /** Jobs that stay visible although they no longer match, by uid. */
  gone?: ReadonlySet<string>;
  /** A cell before the others, such as a checkbox. */
  lead?: (job: Job) => ComponentChildren;
  leadHead?: ComponentChildren;
}

export function JobTable({ jobs, gone, lead, leadHead }: Props) {
  return (
    <table class="jobs">
      <thead>
        <tr>
          {lead && <th class="lead">{leadHead}</th>}
          <th>{t('job.job')}</th>
          <th>{t('job.state')}</th>
          <th>{t('job.when')}</th>
          <th>{t('job.endpoint')}</th>
          <th class="number">{t('job.attempts')}</th>
          <th>{t('job.last')}</th>
        </tr>
      </thead>
      <tbody>
        {jobs.map((job) => (
          <tr key={job.uid} class={gone?.has(job.uid) ? 'gone' : undefined}>
            {lead && <td class="lead">{lead(job)}</td>}
            <td class="name">
              <a href={address(['jobs', job.topic, job.id])} data-page>
                {job.id}
              </a>
              <PriorityMark job={job} />
              {job.count && <span class="tag">{t('count.of', { n: count(job.count.count), target: count(job.count.target) })}</span>}
              {job.callback_of && <span class="tag">{t('callback.tag')}</span>}
              <span class="muted">
                {job.topic}
                {job.biz_key && ` · ${job.biz_key}`}
              </span>
            </td>
            <td data-label={t('job.state')}>
              <StateMark state={job.state} />
            </td>
            <td data-label={t('job.when')}>
              <span>
                <When at={job.next_at ?? job.ended_at ?? job.due_at} />
                {overdue(job) && <Blocked job={job} />}
              </span>
            </td>
            <td data-label={t('job.endpoint')}>
              <EndpointLink url={job.url} />
            </td>
            <td data-label={t('job.attempts')} class="number">
              <span>
                {job.attempts}
                <span class="muted"> / {job.max_attempts}</span>
              </span>
            </td>
            <td data-label={t('job.last')}>{job.last_attempt ? <Result attempt={job.last_attempt} /> : <span class="muted">–</span>}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** A job that is not carried within this time may be blocked. */
const patienceMs = 2000;

const overdue = ({ state, next_at: next }: Job): boolean =>
  (state === 'waiting' || state === 'retrying') && next !== null && Date.parse(next) + patienceMs < now.value;

/** The server explains a blocked job again after this time, and when the job has changed. */
const explainedMs = 15_000;

/** The first reason why an overdue job waits. */
function Blocked({ job }: { job: Job }) {
  const moment = Math.floor(now.value / explainedMs) + job.version;
  const told = useResource(`why ${job.uid}`, (abort) => api.explain(job, abort), moment).data;
  const [reason] = told?.job.state === job.state ? told.reasons : [];
  if (!reason) return null;
  return (
    <span class="tag blocked" title={said(reason.sentences) ?? reason.detail}>
      {word('why', reason.code).replace(/[.。]$/, '')}
    </span>
  );
}

/** The priority of a job, if it is not the default. */
function PriorityMark({ job: { priority } }: { job: Job }) {
  if (priority === usualPriority) return null;
  return <span class="tag">{t('job.priorityOf', { n: priority })}</span>;
}

/** The outcome of an attempt in a few words. */
export function Result({ attempt }: { attempt: Pick<Attempt, 'status' | 'error' | 'reason'> }) {
  if (attempt.status !== null && (attempt.error === null || attempt.error.startsWith('http_'))) {
    return <span class={attempt.error === null ? 'result good' : 'result bad'}>HTTP {attempt.status}</span>;
  }
  if (attempt.reason === 'delivered') return <span class="result good">{t('attempt.acknowledged')}</span>;
  return <span class="result bad worded">{attempt.error ? word('error', attempt.error) : t('attempt.noAnswer')}</span>;
}
