import { useState } from 'preact/hooks';
import { api, type BackfillDraft } from '../api';
import { useResource } from '../live';
import { navigate } from '../router';
import { count, t } from '../text';
import { Dialog } from './dialog';
import { figure, Input, Moment } from './form';
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
    await api.backfill(name, { ...draft, rate: figure(rate) });
    navigate('/operations');
  };
  return (
    <Dialog
      title={t('backfill.title', { schedule: name })}
      action={t('backfill.start')}
      disabled={!dry.data?.matched}
      run={submit}
      done="bulk.begun"
      onClose={onClose}
    >
      <p>{t('backfill.explain')}</p>
      <Moment label={t('backfill.from')} required value={from} set={setFrom} />
      <Moment label={t('backfill.to')} required value={to} set={setTo} />
      <Input label={t('bulk.rate')} required value={rate} set={setRate} />
      <p class="big" role="status">
        {dry.error && describe(dry.error)}
        {dry.data && t('bulk.matched', { n: count(dry.data.matched) })}
      </p>
    </Dialog>
  );
}
