import { address } from '../address';
import { api, dueRanges, states, type Topic } from '../api';
import { Bars } from '../components/bars';
import { Loading, StateMark } from '../components/marks';
import { ProblemNote } from '../components/problem';
import { useResource } from '../live';
import { t } from '../text';
import { CountLink } from './topics';

export function TopicPage({ topic: name }: { topic: string }) {
  const topic = useResource(name, (abort) => api.topic(name, abort));
  return (
    <>
      <p class="crumb">
        <a href="/topics" data-page>
          {t('nav.topics')}
        </a>
      </p>
      <h1>{name}</h1>
      {topic.error && <ProblemNote error={topic.error} />}
      {topic.data ? <Details topic={topic.data} /> : !topic.error && <Loading />}
    </>
  );
}

function Details({ topic }: { topic: Topic }) {
  return (
    <>
      <section class="card">
        <h2>{t('topic.states')}</h2>
        <ul class="statelist">
          {states.map((state) => (
            <li key={state}>
              <StateMark state={state} />
              <CountLink topic={topic} state={state} />
            </li>
          ))}
        </ul>
        <p>
          <a href={address(['jobs'], [['topic', topic.topic]])} data-page>
            {t('topic.jobs')}
          </a>
        </p>
      </section>
      <section class="card">
        <h2>{t('topic.due')}</h2>
        <Bars bars={dueRanges.map((range) => ({ label: t(`due.${range}`), n: topic.due_in[range] }))} />
      </section>
    </>
  );
}
