import { useState } from 'preact/hooks';
import { api, unfinished, type Job, type Stored } from '../api';
import { curl } from '../curl';
import { isJSON, member } from '../json';
import { refresh } from '../live';
import { t, type Key } from '../text';
import { Copy } from './copy';
import { Dialog } from './dialog';
import { Zone } from './form';
import { notify, notifyError } from './notices';

type Asking = 'cancel' | 'reschedule' | 'discard' | 'correct' | undefined;

/** The actions that the job's state allows. */
export function JobActions({ job, stored }: { job: Job; stored: Stored | undefined }) {
  const [asking, ask] = useState<Asking>();
  const open = unfinished.includes(job.state);
  const waiting = open && job.state !== 'running';
  return (
    <div class="actions">
      {waiting && <button onClick={() => void act(() => api.run(job), 'done.run')}>{t('action.run')}</button>}
      {waiting && job.count && !job.count.fired && <button onClick={() => void act(() => api.addCount(job), 'done.count')}>{t('action.count')}</button>}
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
      {job.state === 'dead' && stored && <button onClick={() => ask('correct')}>{t('action.correct')}</button>}
      {job.state === 'dead' && (
        <button class="grave" onClick={() => ask('discard')}>
          {t('action.discard')}
        </button>
      )}
      {stored && <Copy label={t('copy.curl')} text={curl(stored)} />}
      {asking === 'reschedule' && <Reschedule job={job} onClose={() => ask(undefined)} />}
      {asking === 'cancel' && <Cancel job={job} onClose={() => ask(undefined)} />}
      {asking === 'discard' && <Discard job={job} onClose={() => ask(undefined)} />}
      {asking === 'correct' && stored && <Correct job={job} stored={stored} onClose={() => ask(undefined)} />}
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

/** Cancels a job or discards a dead letter, then shows the result. */
async function end(job: Job): Promise<void> {
  try {
    const { result } = await api.cancel(job);
    notify(t(`done.${result}`));
  } catch (error) {
    notifyError(error);
  }
  refresh();
}

function Discard({ job, onClose }: AskProps) {
  return (
    <Dialog title={t('discard.title')} action={t('action.discard')} grave onSubmit={() => void end(job)} onClose={onClose}>
      <p>{t('discard.explain', { job: `${job.topic}/${job.id}` })}</p>
    </Dialog>
  );
}

/** Replays a dead letter with another URL or body. The request has only the changed fields. */
function Correct({ job, stored, onClose }: AskProps & { stored: Stored }) {
  const before = member(stored.text, 'body') ?? stored.body_text ?? '';
  const [url, setUrl] = useState(job.url ?? '');
  const [body, setBody] = useState(before);
  const submit = () => {
    const changes = [
      ...(url === (job.url ?? '') ? [] : [`"url":${JSON.stringify(url)}`]),
      ...(body === before ? [] : [isJSON(body) ? `"body":${body}` : `"body_text":${JSON.stringify(body)}`]),
    ];
    void act(() => api.replay(job, `{${changes.join(',')}}`), 'done.replay');
  };
  return (
    <Dialog title={t('correct.title')} action={t('action.replay')} onSubmit={submit} onClose={onClose}>
      <p>{t('correct.explain')}</p>
      {job.url !== null && (
        <label class="field">
          <span>{t('register.url')}</span>
          <input type="url" required value={url} onInput={(e) => setUrl(e.currentTarget.value)} />
        </label>
      )}
      {stored.body_base64 === undefined && (
        <label class="field">
          <span>{t('attempt.body')}</span>
          <textarea rows={8} spellcheck={false} value={body} onInput={(e) => setBody(e.currentTarget.value)} />
        </label>
      )}
    </Dialog>
  );
}

function Cancel({ job, onClose }: AskProps) {
  return (
    <Dialog title={t('cancel.title')} action={t('action.cancel')} grave onSubmit={() => void end(job)} onClose={onClose}>
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
      <Zone />
    </Dialog>
  );
}
