import type { ComponentChildren } from 'preact';
import type { Attempt, Forecast, Job } from '../api';
import { now } from '../live';
import { clock, exact, relative, t } from '../text';
import { Result } from './job-table';

/** The most steps shown; a number stands for the rest. */
const mostSteps = 12;

interface Props {
  job: Job;
  attempts: Attempt[];
  forecast: Forecast;
}

/** Past attempts, and the planned ones if all fail. */
export function Ladder({ job, attempts, forecast }: Props) {
  const blocked = job.ended_at === null && job.state !== 'running' && forecast.attempts.length === 0;
  return (
    <ol class="ladder">
      <Step mark="start" title={t('ladder.registered')} at={job.created_at} />
      {attempts.slice(-mostSteps).map((attempt) => (
        <Step
          key={attempt.started_at}
          mark={attempt.error === null ? 'good' : 'bad'}
          title={t('attempt.number', { n: attempt.number })}
          at={attempt.started_at}
        >
          <Result attempt={attempt} />
        </Step>
      ))}
      {job.state === 'running' && (
        <Step mark="next" title={t('attempt.number', { n: job.attempts + 1 })}>
          <span class="muted">{t('state.running')}</span>
        </Step>
      )}
      {blocked && <Step mark="next" title={t('standing.blocked')} />}
      <Coming forecast={forecast} next={job.state !== 'running'} />
    </ol>
  );
}

/** The planned attempts if all fail; the first may be the next one. */
export function Coming({ forecast: { attempts, dead_at: dead }, next }: { forecast: Forecast; next: boolean }) {
  const hidden = attempts.length - mostSteps;
  return (
    <>
      {attempts.slice(0, mostSteps).map(({ number, earliest_at, latest_at }, i) => (
        <Step key={number} mark={next && i === 0 ? 'next' : 'later'} title={t('attempt.number', { n: number })} at={earliest_at} to={latest_at} />
      ))}
      {hidden > 0 && <Step mark="later" title={t('ladder.left', { n: hidden })} />}
      {dead && <Step mark="end" title={t('ladder.dead')} at={dead.earliest_at} to={dead.latest_at} />}
    </>
  );
}

interface StepProps {
  mark: string;
  title: string;
  at?: string;
  /** The end of a span that begins at `at`. */
  to?: string;
  children?: ComponentChildren;
}

function Step({ mark, title, at, to, children }: StepProps) {
  return (
    <li class={`step ${mark}`}>
      <i class="dot" aria-hidden="true" />
      <strong>{title}</strong>
      {at && (
        <time dateTime={at} title={exact(at)}>
          {clock(Date.parse(at))}
        </time>
      )}
      {at && to && to !== at && <span class="muted">– {clock(Date.parse(to))}</span>}
      {at && <span class="muted">{relative(Date.parse(at), now.value)}</span>}
      {children}
    </li>
  );
}
