import { freshness, paused, updatedAt } from '../live';
import { clock, t } from '../text';
import { Icon } from './icon';

/** Says how fresh the page is, and stops and restarts that. */
export function Live() {
  const state = freshness.value;
  return (
    <div class={`live ${state}`}>
      <span role="status">
        <i class="dot" aria-hidden="true" />
        {t(`live.${state}`)}
        {state !== 'live' && <time> · {t('live.since', { time: clock(updatedAt.value) })}</time>}
      </span>
      <button
        class="quiet"
        aria-pressed={paused.value}
        onClick={() => (paused.value = !paused.value)}
      >
        <Icon name={paused.value ? 'play' : 'pause'} />
        {t(paused.value ? 'live.resume' : 'live.pause')}
      </button>
    </div>
  );
}
