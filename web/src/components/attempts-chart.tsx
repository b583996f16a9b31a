import type { Overview } from '../api';
import { count, hour, t } from '../text';

const height = 90;
const step = 10;

/** Attempts by minute of the last hour: those that delivered, and on top of them those that failed. */
export function AttemptsChart({ recent: { from, step_ms: stepMs, delivered, failed } }: { recent: Overview['recent'] }) {
  const most = Math.max(1, ...delivered.map((n, minute) => n + (failed[minute] ?? 0)));
  const high = (n: number) => (height * n) / most;
  const sum = (counts: number[]) => count(counts.reduce((all, n) => all + n, 0));
  return (
    <>
      <p class="readout">{t('heat.total', { delivered: sum(delivered), failed: sum(failed) })}</p>
      <svg class="minutes" viewBox={`0 0 ${delivered.length * step} ${height}`} preserveAspectRatio="none" role="img" aria-label={t('overview.attempts')}>
        {delivered.map((good, minute) => {
          const bad = failed[minute] ?? 0;
          if (good + bad === 0) return null;
          const at = { x: minute * step, width: step - 2 };
          return (
            <g key={minute}>
              <title>{t('attempts.minute', { at: hour(Date.parse(from) + minute * stepMs), delivered: count(good), failed: count(bad) })}</title>
              <rect class="delivered" {...at} y={height - high(good)} height={high(good)} />
              <rect class="failed" {...at} y={height - high(good + bad)} height={high(bad)} />
            </g>
          );
        })}
      </svg>
      <p class="hint">{t('attempts.most', { n: count(most) })}</p>
    </>
  );
}
