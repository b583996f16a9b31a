import { freshness, paused, updatedAt } from '../live';
import { clock, t } from '../text';
import { Icon } from './icon';

/** Shows how fresh the page is, with a button to pause and resume updates. */
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
