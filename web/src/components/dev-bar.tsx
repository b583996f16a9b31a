import { useState } from 'preact/hooks';
import { devClock } from '../api';
import { turn } from '../dev';
import { now } from '../live';
import { clock, count, relative, t } from '../text';
import { act, notify } from './notices';

const speeds = [1, 10, 60, 240, 3600];
const steps = ['1m', '1h'];

/** The clock of `duehook dev`, with what turns it. */
export function DevBar() {
  const [busy, work] = useState(false);
  const held = devClock.value;
  if (!held) return null;
  const next = held.next === null || Date.parse(held.next) <= now.value ? null : held.next;
  const change = async (to: Parameters<typeof turn>[0], moves: boolean) => {
    work(true);
    await act(async () => {
      const attempts = await turn(to);
      if (moves) notify(t('dev.turned', { n: count(attempts) }));
    });
    work(false);
  };
  const rates = speeds.includes(held.speed) ? speeds : [held.speed, ...speeds];
  return (
    <section class="dev" aria-label={t('dev.clock')}>
      <strong>{t('dev.clock')}</strong>
      <time dateTime={new Date(now.value).toISOString()}>{clock(now.value)}</time>
      <label>
        <span class="hidden">{t('dev.speed')}</span>
        <select
          value={held.frozen ? '' : held.speed}
          onChange={(e) => void change(e.currentTarget.value ? { speed: Number(e.currentTarget.value) } : { frozen: true }, false)}
        >
          <option value="">{t('dev.frozen')}</option>
          {rates.map((rate) => (
            <option key={rate} value={rate}>
              {t('dev.times', { n: count(rate) })}
            </option>
          ))}
        </select>
      </label>
      {steps.map((by) => (
        <button key={by} disabled={busy} onClick={() => void change({ advance: by }, true)}>
          +{by}
        </button>
      ))}
      <button disabled={busy || next === null} onClick={() => next && void change({ to: next }, true)}>
        {t('dev.next')}
        {next && ` · ${relative(Date.parse(next), now.value)}`}
      </button>
    </section>
  );
}
