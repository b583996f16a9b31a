import type { Attempt, Job } from '../api';
import { clock, span, t, word, type Key } from '../text';
import { Result } from './job-table';
import { Empty } from './marks';

/** The attempts, latest first; the latest is open. */
export function AttemptList({ job, attempts }: { job: Job; attempts: Attempt[] }) {
  if (attempts.length === 0) return <Empty text={t('attempts.none')} />;
  return (
    <div class="attempts">
      {attempts.toReversed().map((attempt, i) => (
        <details key={attempt.started_at} class="card" open={i === 0}>
          <summary>
            <strong>{t('attempt.number', { n: attempt.number })}</strong>
            <Result attempt={attempt} />
            <span class="muted">
              {clock(Date.parse(attempt.started_at))} · {span(attempt.duration_ms)}
            </span>
          </summary>
          <AttemptBody job={job} attempt={attempt} />
        </details>
      ))}
    </div>
  );
}

function AttemptBody({ job, attempt }: { job: Job; attempt: Attempt }) {
  return (
    <>
      {attempt.error && !attempt.error.startsWith('http_') && <p>{word('error', attempt.error)}</p>}
      <Timings attempt={attempt} />
      <h3>{t('attempt.request')}</h3>
      <pre>{requestLines(job, attempt)}</pre>
      <Answer attempt={attempt} />
      {attempt.reason && (
        <p class="why">
          {word('reason', attempt.reason)}
          {attempt.next_at && ` → ${clock(Date.parse(attempt.next_at))}`}
        </p>
      )}
    </>
  );
}

function Answer({ attempt: { response_body: body } }: { attempt: Attempt }) {
  return (
    <>
      <h3>{t('attempt.response')}</h3>
      {body === null ? <p class="muted">{t('attempt.noBody')}</p> : <pre tabIndex={0}>{body}</pre>}
    </>
  );
}

/** How an attempt went, without what was sent. */
export function AttemptAnswer({ attempt }: { attempt: Attempt }) {
  return (
    <>
      <Timings attempt={attempt} />
      <Answer attempt={attempt} />
    </>
  );
}

/** What identifies the request to its receiver. */
function requestLines(job: Job, attempt: Attempt): string {
  return [
    `${job.method} ${job.url}`,
    `webhook-id: ${job.uid}`,
    `Duehook-Topic: ${job.topic}`,
    `Duehook-Job-Id: ${job.id}`,
    `Duehook-Attempt: ${attempt.number}`,
  ].join('\n');
}

const phases: [keyof Attempt & `${string}_ms`, Key][] = [
  ['dns_ms', 'phase.dns'],
  ['connect_ms', 'phase.connect'],
  ['tls_ms', 'phase.tls'],
  ['first_byte_ms', 'phase.firstByte'],
];

/** How the attempt's time was spent. The phases are cut to whole ms, and need not add up. */
function Timings({ attempt }: { attempt: Attempt }) {
  const spent = phases.map(([field, label]) => ({ field, label, ms: Number(attempt[field] ?? 0), known: attempt[field] !== null }));
  const total = Math.max(1, attempt.duration_ms, spent.reduce((sum, { ms }) => sum + ms, 0));
  return (
    <div class="timings">
      <div class="track" aria-hidden="true">
        {spent.map(({ field, ms }) => (
          <i key={field} class={field} style={{ width: `${(100 * ms) / total}%` }} />
        ))}
      </div>
      <dl>
        {spent
          .filter(({ known }) => known)
          .map(({ field, label, ms }) => (
            <div key={field}>
              <dt>
                <i class={`dot ${field}`} aria-hidden="true" />
                {t(label)}
              </dt>
              <dd>{span(ms)}</dd>
            </div>
          ))}
        <div>
          <dt>{t('phase.total')}</dt>
          <dd>{span(attempt.duration_ms)}</dd>
        </div>
      </dl>
      {attempt.connection_reused && <p class="muted">{t('phase.reused')}</p>}
    </div>
  );
}
