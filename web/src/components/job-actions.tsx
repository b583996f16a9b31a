import { useState } from 'preact/hooks';
import { api, unfinished, type Job, type Stored } from '../api';
import { curl } from '../curl';
import { isJSON, member } from '../json';
import { t } from '../text';
import { Copy } from './copy';
import { Dialog } from './dialog';
import { Area, Input, Moment } from './form';
import { act, notify } from './notices';

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

interface AskProps {
  job: Job;
  onClose: () => void;
}

/** Cancels a job or discards a dead letter, then shows the result. */
async function end(job: Job): Promise<void> {
  const { result } = await api.cancel(job);
  notify(t(`done.${result}`));
}

function Discard({ job, onClose }: AskProps) {
  return (
    <Dialog title={t('discard.title')} action={t('action.discard')} grave run={() => end(job)} onClose={onClose}>
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
    return api.replay(job, `{${changes.join(',')}}`);
  };
  return (
    <Dialog title={t('correct.title')} action={t('action.replay')} run={submit} done="done.replay" onClose={onClose}>
      <p>{t('correct.explain')}</p>
      {job.url !== null && <Input label={t('register.url')} required value={url} set={setUrl} />}
      {stored.body_base64 === undefined && <Area label={t('attempt.body')} rows={8} value={body} set={setBody} />}
    </Dialog>
  );
}

function Cancel({ job, onClose }: AskProps) {
  return (
    <Dialog title={t('cancel.title')} action={t('action.cancel')} grave run={() => end(job)} onClose={onClose}>
      <p>{t('cancel.explain', { job: `${job.topic}/${job.id}` })}</p>
    </Dialog>
  );
}

function Reschedule({ job, onClose }: AskProps) {
  const [delay, setDelay] = useState('');
  const [at, setAt] = useState('');
  const submit = () => api.reschedule(job, at ? { at: new Date(at).toISOString() } : { delay });
  return (
    <Dialog title={t('reschedule.title')} action={t('action.reschedule')} run={submit} done="done.reschedule" onClose={onClose}>
      <Input label={t('register.delay')} placeholder="30m, 1d12h" required={!at} value={delay} set={setDelay} />
      <Moment label={t('register.at')} value={at} set={setAt} />
    </Dialog>
  );
}
