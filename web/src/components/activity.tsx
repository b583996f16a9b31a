import { useState } from 'preact/hooks';
import type { Query } from '../address';
import { api, windows, type Activity } from '../api';
import { now, useResource } from '../live';
import { count, hour, t } from '../text';
import { ProblemNote } from './problem';

const height = 90;
const step = 10;
/** The counts change slowly, and an overview of them is large. */
const everyMs = 15_000;
/** The steps between two labels of the axis. */
const labelled = { '1h': 15, '24h': 24 };

/** Attempts of the last hour or day: of all jobs, of a topic or of an endpoint. */
export function ActivityCard({ of }: { of: Query }) {
  const [window, show] = useState<Activity['window']>('1h');
  const query: Query = [...of, ['window', window]];
  const found = useResource(`activity ${JSON.stringify(query)}`, (abort) => api.activity(query, abort), Math.floor(now.value / everyMs));
  return (
    <section class="card" id="activity">
      <div class="standing">
        <h2>{t('activity.title')}</h2>
        <div class="tabs" role="group" aria-label={t('activity.window')}>
          {windows.map((one) => (
            <button key={one} class="quiet" aria-pressed={one === window} onClick={() => show(one)}>
              {t(`activity.${one}`)}
            </button>
          ))}
        </div>
      </div>
      {found.error && <ProblemNote error={found.error} />}
      {found.data && <Chart activity={found.data} />}
      {!found.data && !found.error && <div class="minutes" />}
    </section>
  );
}

const kinds = ['delivered', 'failed', 'dead', 'expired'] as const;

/** Attempts by step: those that delivered, and on top of them those that failed. */
function Chart({ activity }: { activity: Activity }) {
  const { window, from, step_ms: stepMs, delivered, failed, partial } = activity;
  const sums = delivered.map((n, i) => n + (failed[i] ?? 0));
  const most = Math.max(1, ...sums);
  const high = (n: number) => (height * n) / most;
  const at = (i: number) => Date.parse(from) + i * stepMs;
  const [all, bad, dead, expired] = kinds.map((kind) => activity[kind].reduce((sum, n) => sum + n, 0)) as [number, number, number, number];
  const about = t('activity.total', { delivered: count(all), failed: count(bad) });
  const said = (i: number) => t('attempts.minute', { at: hour(at(i)), delivered: count(delivered[i] ?? 0), failed: count(failed[i] ?? 0) });
  const used = sums.flatMap((n, i) => (n > 0 ? [i] : []));
  return (
    <>
      <p class="readout">
        {about}
        {dead > 0 && ` ${t('activity.dead', { n: count(dead) })}`}
        {expired > 0 && ` ${t('activity.expired', { n: count(expired) })}`}
        {used.length > 0 && ` ${t('attempts.most', { n: count(most) })}`}
      </p>
      {partial && <p class="muted">{t('activity.partial')}</p>}
      <svg class="minutes" viewBox={`0 0 ${delivered.length * step} ${height}`} preserveAspectRatio="none" role="img" aria-label={`${t(`activity.${window}`)}: ${about}`}>
        {used.map((i) => {
          const good = delivered[i] ?? 0;
          const wrong = failed[i] ?? 0;
          const place = { x: i * step, width: step - 2 };
          return (
            <g key={i}>
              <title>{said(i)}</title>
              <rect class="delivered" {...place} y={height - high(good)} height={high(good)} />
              <rect class="failed" {...place} y={height - high(good + wrong)} height={high(wrong)} />
            </g>
          );
        })}
      </svg>
      <p class="axis" aria-hidden="true">
        {delivered.flatMap((_, i) => (i % labelled[window] === 0 ? [<span key={i}>{hour(at(i))}</span>] : []))}
      </p>
      {used.length > 0 && (
        <details>
          <summary>{t('chart.table')}</summary>
          <ul class="hours">
            {used.toReversed().map((i) => (
              <li key={i}>{said(i)}</li>
            ))}
          </ul>
        </details>
      )}
    </>
  );
}
