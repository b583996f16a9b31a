import { useState } from 'preact/hooks';
import type { Query } from '../address';
import { api, type BulkAction, type BulkDraft } from '../api';
import { now, useResource } from '../live';
import { navigate } from '../router';
import { asked, bulkFilter, written } from '../search';
import { count, t } from '../text';
import { Dialog } from './dialog';
import { figure, Input } from './form';
import { describe } from './problem';

interface Props {
  filter: Query;
  actions: readonly BulkAction[];
  onClose: () => void;
}

/** A dialog that changes all jobs of a filter, after a dry run that counts them. */
export function BulkDialog({ filter, actions, onClose }: Props) {
  const [action, setAction] = useState<BulkAction | undefined>(actions.length === 1 ? actions[0] : undefined);
  const all = filter.length === 0;
  const [sure, beSure] = useState(!all);
  const [rate, setRate] = useState('500');
  const [delay, setDelay] = useState('1h');
  // Relative times in the filter count from the moment of the dry run.
  const [draftFilter] = useState(() => bulkFilter(asked(filter, now.peek())));
  const draft = (action: BulkAction, later: string): BulkDraft => ({ action, filter: draftFilter, all, ...(action === 'reschedule' && { delay: later }) });
  // The count does not depend on the delay, which may be half typed.
  const dry = useResource(`dry ${action}`, async (abort) => (action ? api.dryRun(draft(action, '1h'), abort) : undefined), true);
  const submit = async () => {
    if (!action) return;
    await api.operate({ ...draft(action, delay), rate: figure(rate) });
    navigate('/operations');
  };
  return (
    <Dialog
      title={t('bulk.title')}
      action={t(action ? `bulk.${action}` : 'bulk.title')}
      grave={action === 'cancel' || action === 'discard'}
      disabled={!sure || !dry.data || dry.data.matched === 0}
      run={submit}
      done="bulk.begun"
      onClose={onClose}
    >
      <p class="mono">{written(filter) || t('bulk.everything')}</p>
      {actions.length > 1 && (
        <label class="field">
          <span>{t('bulk.action')}</span>
          <select required value={action ?? ''} onChange={(e) => setAction(e.currentTarget.value as BulkAction)}>
            {!action && <option value="">{t('bulk.choose')}</option>}
            {actions.map((one) => (
              <option key={one} value={one}>
                {t(`bulk.${one}`)}
              </option>
            ))}
          </select>
        </label>
      )}
      {action === 'reschedule' && <Input label={t('register.delay')} required value={delay} set={setDelay} />}
      <Input label={t('bulk.rate')} required value={rate} set={setRate} />
      {all && (
        <label class="check">
          <input type="checkbox" required checked={sure} onChange={(e) => beSure(e.currentTarget.checked)} />
          <span>{t('bulk.sure')}</span>
        </label>
      )}
      <p class="big" role="status">
        {dry.error && describe(dry.error)}
        {dry.data && t(dry.data.complete ? 'bulk.matched' : 'bulk.matchedAtLeast', { n: count(dry.data.matched) })}
      </p>
    </Dialog>
  );
}
