import { useState } from 'preact/hooks';
import { api, type BackfillDraft } from '../api';
import { useResource } from '../live';
import { navigate } from '../router';
import { count, t } from '../text';
import { Dialog } from './dialog';
import { Zone } from './form';
import { notify, notifyError } from './notices';
import { describe } from './problem';

const instant = (typed: string): string => (typed ? new Date(typed).toISOString() : '');

/** A dialog that registers past occurrences of a schedule, after a dry run that counts them. */
export function BackfillDialog({ name, onClose }: { name: string; onClose: () => void }) {
  const [from, setFrom] = useState('');
  const [to, setTo] = useState('');
  const [rate, setRate] = useState('100');
  const draft: BackfillDraft = { from: instant(from), to: instant(to) };
  const complete = from !== '' && to !== '';
  const dry = useResource(`backfill ${name} ${from} ${to}`, async (abort) => (complete ? api.countBackfill(name, draft, abort) : undefined), true);
  const submit = async () => {
    try {
      await api.backfill(name, { ...draft, rate: Number(rate) });
      notify(t('bulk.begun'));
      navigate('/operations');
    } catch (error) {
      notifyError(error);
    }
  };
  return (
    <Dialog
      title={t('backfill.title', { schedule: name })}
      action={t('backfill.start')}
      disabled={!dry.data?.matched}
      onSubmit={() => void submit()}
      onClose={onClose}
    >
      <p>{t('backfill.explain')}</p>
      <label class="field">
        <span>{t('backfill.from')}</span>
        <input type="datetime-local" step="1" required value={from} onInput={(e) => setFrom(e.currentTarget.value)} />
      </label>
      <label class="field">
        <span>{t('backfill.to')}</span>
        <input type="datetime-local" step="1" required value={to} onInput={(e) => setTo(e.currentTarget.value)} />
      </label>
      <Zone />
      <label class="field">
        <span>{t('bulk.rate')}</span>
        <input type="number" required min="1" max="1000" value={rate} onInput={(e) => setRate(e.currentTarget.value)} />
      </label>
      <p class="big" role="status">
        {dry.error && describe(dry.error)}
        {dry.data && t('bulk.matched', { n: count(dry.data.matched) })}
      </p>
    </Dialog>
  );
}
