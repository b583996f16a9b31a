import type { ComponentChildren } from 'preact';
import type { Attempt, Job } from '../api';
import { now } from '../live';
import { clock, exact, relative, t } from '../text';
import { Result } from './job-table';

/** The attempts that were made, and those that may follow. */
export function Ladder({ job, attempts }: { job: Job; attempts: Attempt[] }) {
  const left = job.next_at === null ? 0 : job.max_attempts - job.attempts;
  return (
    <ol class="ladder">
      <Step mark="start" title={t('ladder.registered')} at={job.created_at} />
      {attempts.map((attempt) => (
        <Step
          key={attempt.started_at}
          mark={attempt.error === null ? 'good' : 'bad'}
          title={t('attempt.number', { n: attempt.number })}
          at={attempt.started_at}
        >
          <Result attempt={attempt} />
        </Step>
      ))}
      {job.next_at !== null && (
        <Step mark="next" title={t('attempt.number', { n: job.attempts + 1 })} at={job.next_at}>
          <span class="muted">{t(job.state === 'running' ? 'state.running' : 'ladder.next')}</span>
        </Step>
      )}
      {left > 1 && (
        <li class="step later">
          <i class="dot" aria-hidden="true" />
          <span class="muted">{t('ladder.left', { n: left - 1 })}</span>
        </li>
      )}
    </ol>
  );
}

interface StepProps {
  mark: string;
  title: string;
  at: string;
  children?: ComponentChildren;
}

function Step({ mark, title, at, children }: StepProps) {
  return (
    <li class={`step ${mark}`}>
      <i class="dot" aria-hidden="true" />
      <strong>{title}</strong>
      <time dateTime={at} title={exact(at)}>
        {clock(Date.parse(at))}
      </time>
      <span class="muted">{relative(Date.parse(at), now.value)}</span>
      {children}
    </li>
  );
}
