import { useState } from 'preact/hooks';
import { api, unfinished, type Job, type Stored } from '../api';
import { curl } from '../curl';
import { refresh } from '../live';
import { t, type Key } from '../text';
import { Copy } from './copy';
import { Dialog } from './dialog';
import { notify, notifyError } from './notices';

type Asking = 'cancel' | 'reschedule' | undefined;

/** What can be done with a job as it stands. */
export function JobActions({ job, stored }: { job: Job; stored: Stored | undefined }) {
  const [asking, ask] = useState<Asking>();
  const open = unfinished.includes(job.state);
  const waiting = open && job.state !== 'running';
  return (
    <div class="actions">
      {waiting && <button onClick={() => void act(() => api.run(job), 'done.run')}>{t('action.run')}</button>}
      {waiting && <button onClick={() => ask('reschedule')}>{t('action.reschedule')}</button>}
      {open && (
        <button class="grave" onClick={() => ask('cancel')}>
          {t('action.cancel')}
        </button>
      )}
      {!open && (
        <button class="primary" onClick={() => void act(() => api.replay(job), 'done.replay')}>
          {t('action.replay')}
        </button>
      )}
      {stored && <Copy label={t('copy.curl')} text={curl(stored)} />}
      {asking === 'reschedule' && <Reschedule job={job} onClose={() => ask(undefined)} />}
      {asking === 'cancel' && <Cancel job={job} onClose={() => ask(undefined)} />}
    </div>
  );
}

async function act(call: () => Promise<unknown>, done: Key): Promise<void> {
  try {
    await call();
    notify(t(done));
  } catch (error) {
    notifyError(error);
  }
  refresh();
}

interface AskProps {
  job: Job;
  onClose: () => void;
}

function Cancel({ job, onClose }: AskProps) {
  const submit = async () => {
    try {
      const { result } = await api.cancel(job);
      notify(t(`done.${result}`));
    } catch (error) {
      notifyError(error);
    }
    refresh();
  };
  return (
    <Dialog title={t('cancel.title')} action={t('action.cancel')} grave onSubmit={() => void submit()} onClose={onClose}>
      <p>{t('cancel.explain', { job: `${job.topic}/${job.id}` })}</p>
    </Dialog>
  );
}

function Reschedule({ job, onClose }: AskProps) {
  const [delay, setDelay] = useState('');
  const [at, setAt] = useState('');
  const submit = () => {
    const when = at ? { at: new Date(at).toISOString() } : { delay };
    void act(() => api.reschedule(job, when), 'done.reschedule');
  };
  return (
    <Dialog title={t('reschedule.title')} action={t('action.reschedule')} onSubmit={submit} onClose={onClose}>
      <label class="field">
        <span>{t('register.delay')}</span>
        <input value={delay} placeholder="30m, 1d12h" required={!at} onInput={(e) => setDelay(e.currentTarget.value)} />
      </label>
      <label class="field">
        <span>{t('register.at')}</span>
        <input type="datetime-local" step="1" value={at} onInput={(e) => setAt(e.currentTarget.value)} />
      </label>
    </Dialog>
  );
}
