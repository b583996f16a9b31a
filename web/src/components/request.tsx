import { useState } from 'preact/hooks';
import { caller, mayChange, type Attempt, type Job, type Stored } from '../api';
import { indented, member } from '../json';
import { count, t } from '../text';
import { Verbatim } from './marks';

/** The most characters shown of a body. */
const mostShown = 4000;

interface Props {
  job: Job;
  /** Headers and body; undefined if the key may not read them. */
  stored: Stored | undefined;
  /** The attempt that sent the request; undefined for a planned one. */
  attempt?: Attempt;
}

/** The request to the receiver. */
export function Request({ job, stored, attempt }: Props) {
  return (
    <>
      <h3>{t('attempt.request')}</h3>
      <Verbatim text={head(job, stored, attempt)} />
      {stored && <Body stored={stored} />}
      {stored && job.url !== null && <p class="muted">{t('attempt.asNow')}</p>}
      {caller.value && !mayChange.value && <p class="muted">{t('attempt.secret')}</p>}
    </>
  );
}

/** The webhook-id of a job. That of a callback names the job and the event. */
export const messageId = (job: Job): string => (job.callback_of ? job.id.replaceAll('.', '_') : job.uid);

function head(job: Job, stored: Stored | undefined, attempt: Attempt | undefined): string {
  const headers: Record<string, string | number> = { ...stored?.headers };
  if (stored?.content_type) headers['Content-Type'] = stored.content_type;
  if (job.url === null) return [t('job.pull'), ...lines(headers)].join('\n');
  headers['webhook-id'] = messageId(job);
  if (attempt) headers['webhook-timestamp'] = Math.floor(Date.parse(attempt.started_at) / 1000);
  headers['Duehook-Topic'] = encodeURI(job.topic); // leaves the same characters of a name as the server
  headers['Duehook-Job-Id'] = encodeURI(job.id);
  if (attempt) headers['Duehook-Attempt'] = attempt.number;
  if (job.schedule) {
    headers['Duehook-Schedule'] = encodeURI(job.schedule);
    headers['Duehook-Schedule-Time'] = job.occurrence?.time ?? '';
  }
  if (job.count) headers['Duehook-Count'] = job.count.count;
  if (job.group && job.group_id) {
    headers['Duehook-Group'] = encodeURI(job.group);
    headers['Duehook-Group-Id'] = encodeURI(job.group_id);
  }
  return [`${job.method} ${sent(job.url)}`, ...lines(headers)].join('\n');
}

/** The URL as the server sends it: what RFC 3986 has no place for is percent-encoded, and nothing else changes. */
const sent = (url: string): string => url.replace(/["<>\\^`{|}]/g, (c) => '%' + c.charCodeAt(0).toString(16).toUpperCase());

const lines = (headers: Record<string, string | number>): string[] => Object.entries(headers).map(([name, value]) => `${name}: ${value}`);

/** Shows a body as text, whatever its content type. */
function Body({ stored }: { stored: Stored }) {
  const [indent, setIndent] = useState(false);
  const json = member(stored.text, 'body');
  const body = json ?? stored.body_text ?? stored.body_base64;
  if (!body) return null;
  const text = indent && json ? indented(json, mostShown) : body;
  return (
    <>
      <div class="body-head">
        <h3>{t(stored.body_base64 ? 'attempt.base64' : 'attempt.body')}</h3>
        {json && /[[{]/.test(json) && (
          <button aria-pressed={indent} onClick={() => setIndent(!indent)}>
            {t('attempt.indent')}
          </button>
        )}
      </div>
      <Verbatim text={text.slice(0, mostShown)} />
      {text.length > mostShown && <p class="muted">{t('attempt.cut', { shown: count(mostShown), n: count(body.length) })}</p>}
    </>
  );
}
