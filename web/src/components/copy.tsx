import { t } from '../text';
import { Icon } from './icon';
import { notify } from './notices';

/** Copies a text. Browsers allow this only over HTTPS or on localhost. */
export function Copy({ text, label }: { text: string; label: string }) {
  if (!navigator.clipboard) return null;
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    notify(t('copy.done'));
  };
  return (
    <button onClick={() => void copy()}>
      <Icon name="copy" />
      {label}
    </button>
  );
}
