/** Why a job waits, and links to what its reasons name. */
import { address } from '../address';
import { api, restricted, type Job, type Reason, type Sentence } from '../api';
import { useResource } from '../live';
import { localTimes, said, t, word } from '../text';

/** A reason in words, with links to the job, the endpoint or the topic that holds the job up. */
export function Why({ topic, reason: { code, sentences, detail }, open, at = '' }: { topic: string; reason: Reason; open: boolean; at?: string }) {
  return (
    <>
      {open && <strong>{word('why', code)} </strong>}
      {said(sentences) ?? <span lang="en">{localTimes(detail)}</span>}
      <Named topic={topic} of={sentences} at={at} />
    </>
  );
}

/** Links to what sentences name, except to the page at which they are shown. */
export function Named({ topic, of, at = '' }: { topic: string; of: Sentence[]; at?: string }) {
  const links = new Map<string, string>();
  for (const { params } of of) {
    const { job, endpoint, topic: held } = params;
    if (job !== undefined) links.set(String(job), address(['jobs', topic, String(job)]));
    if (endpoint !== undefined && !restricted.value) links.set(String(endpoint), address(['endpoints'], [['endpoint', String(endpoint)]]));
    if (held !== undefined) links.set(String(held), address(['topics', String(held)]));
  }
  return [...links].filter(([, to]) => to !== at).map(([name, to]) => (
    <span key={to}>
      {' '}
      <a href={to} data-page>
        {t('job.open', { id: name })}
      </a>
    </span>
  ));
}

/** The first reason of one of the waiting jobs of a topic, on its page. */
export function WhyLine({ job }: { job: Job }) {
  const told = useResource(`why ${job.uid}`, (abort) => api.explain(job, abort)).data;
  const [reason] = told?.job.ended_at === null ? told.reasons : [];
  if (!reason) return null;
  return (
    <p class="muted">
      <a href={address(['jobs', job.topic, job.id])} data-page>
        {job.id}
      </a>
      {': '}
      <Why topic={job.topic} reason={reason} open at={address(['topics', job.topic])} />
    </p>
  );
}
