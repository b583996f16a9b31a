import { useState } from 'preact/hooks';
import type { Attempt, Job, Stored } from '../api';
import { clock, span, t, word, type Key } from '../text';
import { Result } from './job-table';
import { Loading, Verbatim } from './marks';
import { Request } from './request';

interface ListProps {
  job: Job;
  stored: Stored | undefined;
  /** Undefined while loading. */
  attempts: Attempt[] | undefined;
}

/** The attempts, latest first; the latest is expanded. Before the first attempt, the request that it will send. */
export function AttemptList({ job, stored, attempts }: ListProps) {
  if (!attempts) return <Loading />;
  return (
    <div class="attempts">
      {attempts.toReversed().map((attempt, i) => (
        <AttemptCard key={attempt.started_at} job={job} stored={stored} attempt={attempt} latest={i === 0} />
      ))}
      {attempts.length === 0 && (
        <div class="card">
          <p class="muted">{t('attempts.none')}</p>
          <Request job={job} stored={stored} />
        </div>
      )}
    </div>
  );
}

interface CardProps {
  job: Job;
  stored: Stored | undefined;
  attempt: Attempt;
}

/** Renders its content only when open: there may be many, with long bodies. */
function AttemptCard({ latest, ...shown }: CardProps & { latest: boolean }) {
  const { attempt } = shown;
  const [open, setOpen] = useState(latest);
  return (
    <details class="card" open={latest} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <strong>{t('attempt.number', { n: attempt.number })}</strong>
        <Result attempt={attempt} />
        <span class="muted">
          {clock(Date.parse(attempt.started_at))} · {span(attempt.duration_ms)}
        </span>
      </summary>
      {open && <AttemptBody {...shown} />}
    </details>
  );
}

function AttemptBody({ job, stored, attempt }: CardProps) {
  return (
    <>
      {attempt.status !== null && attempt.error && !attempt.error.startsWith('http_') && <p>HTTP {attempt.status}</p>}
      <Timings attempt={attempt} />
      <Request job={job} stored={stored} attempt={attempt} />
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

function Answer({ attempt }: { attempt: Attempt }) {
  const { response_body: body, response_headers: headers } = attempt;
  const head = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  return (
    <>
      <h3>{t('attempt.response')}</h3>
      {head.length > 0 && <Verbatim text={head.join('\n')} />}
      {body === null ? <p class="muted">{t(missing(attempt))}</p> : <Verbatim text={body} />}
    </>
  );
}

/** What an answer without a body was. */
function missing({ status, error, reason }: Attempt): Key {
  if (error === 'nacked') return 'attempt.noReason';
  if (status !== null) return 'attempt.noBody';
  return reason === 'delivered' ? 'attempt.acknowledged' : 'attempt.noAnswer';
}

/** The outcome of an attempt, without its request. */
export function AttemptAnswer({ attempt }: { attempt: Attempt }) {
  return (
    <>
      <Timings attempt={attempt} />
      <Answer attempt={attempt} />
    </>
  );
}

const phases: [keyof Attempt & `${string}_ms`, Key][] = [
  ['dns_ms', 'phase.dns'],
  ['connect_ms', 'phase.connect'],
  ['tls_ms', 'phase.tls'],
  ['first_byte_ms', 'phase.firstByte'],
];

/** The phases of the attempt. They are cut to whole ms, so they need not add up. */
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
      {attempt.connect_retries && <p class="muted">{t('phase.retries', { n: attempt.connect_retries })}</p>}
      {attempt.resent && <p class="muted">{t('phase.resent')}</p>}
    </div>
  );
}
