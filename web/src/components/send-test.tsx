import { useState } from 'preact/hooks';
import { api, type TestDraft, type TestResult } from '../api';
import { refresh } from '../live';
import { span, t } from '../text';
import { AttemptAnswer } from './attempts';
import { Dialog } from './dialog';
import { Result } from './job-table';
import { notifyError } from './notices';

interface Props {
  /** The initial values of the fields. */
  first: Partial<Record<'url' | 'topic' | 'body', string>>;
  onClose: () => void;
  onResult: (result: TestResult & { url: string }) => void;
}

/** A dialog that sends a test to an endpoint. */
export function SendTest({ first, onClose, onResult }: Props) {
  const [url, setURL] = useState(first.url ?? '');
  const [topic, setTopic] = useState(first.topic ?? '');
  const [body, setBody] = useState(first.body ?? '{"test": true}');
  const submit = async () => {
    try {
      onResult({ ...(await api.sendTest(draft(url, topic, body))), url });
    } catch (error) {
      notifyError(error);
    }
    refresh();
  };
  return (
    <Dialog title={t('endpoint.sendTest')} action={t('endpoint.send')} onSubmit={() => void submit()} onClose={onClose}>
      <p class="muted">{t('endpoint.explainTest')}</p>
      <label class="field">
        <span>{t('register.url')}</span>
        <input type="url" required value={url} onInput={(e) => setURL(e.currentTarget.value)} />
      </label>
      <label class="field">
        <span>{t('register.topic')}</span>
        <input value={topic} placeholder="default" onInput={(e) => setTopic(e.currentTarget.value)} />
      </label>
      <label class="field">
        <span>{t('register.body')}</span>
        <textarea rows={4} value={body} onInput={(e) => setBody(e.currentTarget.value)} />
      </label>
    </Dialog>
  );
}

/** Sends the body as JSON if it is JSON, else as text. */
function draft(url: string, topic: string, body: string): TestDraft {
  const made: TestDraft = topic ? { url, topic } : { url };
  if (!body) return { ...made, body_text: '' };
  try {
    return { ...made, body: JSON.parse(body) as unknown };
  } catch {
    return { ...made, body_text: body };
  }
}

/** The result of a test. */
export function TestCard({ result: { attempt, url }, onClose }: { result: TestResult & { url: string }; onClose: () => void }) {
  return (
    <section class="card" role="status">
      <div class="standing">
        <h2>{t('endpoint.result')}</h2>
        <button class="quiet" onClick={onClose}>
          {t('action.close')}
        </button>
      </div>
      <p>
        <Result attempt={attempt} />{' '}
        <span class="muted">
          {url} · {span(attempt.duration_ms)}
        </span>
      </p>
      <AttemptAnswer attempt={attempt} />
    </section>
  );
}
