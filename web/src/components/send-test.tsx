import { useState } from 'preact/hooks';
import { api, type TestDraft, type TestResult } from '../api';
import { span, t } from '../text';
import { AttemptAnswer } from './attempts';
import { Dialog } from './dialog';
import { Area, Input } from './form';
import { Result } from './job-table';

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
  const submit = async () => onResult({ ...(await api.sendTest(draft(url, topic, body))), url });
  return (
    <Dialog title={t('endpoint.sendTest')} action={t('endpoint.send')} run={submit} onClose={onClose}>
      <p class="muted">{t('endpoint.explainTest')}</p>
      <Input label={t('register.url')} required value={url} set={setURL} />
      <Input label={t('register.topic')} value={topic} set={setTopic} placeholder="default" />
      <Area label={t('register.body')} rows={4} value={body} set={setBody} />
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
    <section class="card answer" role="status">
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
