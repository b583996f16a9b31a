import { useState } from 'preact/hooks';
import { address } from '../address';
import { api, type Sink, type SinkAnswer, type SinkRequest } from '../api';
import { Area, Form, Group, Input, useForm } from '../components/form';
import { Empty, Verbatim, When } from '../components/marks';
import { act, notify } from '../components/notices';
import { Crumb, Loaded, Parts } from '../components/page';
import { refresh, useBeat, useResource } from '../live';
import { navigate } from '../router';
import { count, t } from '../text';

/** Requests of sinks cause no event of their own. */
const askedMs = 2000;

/** The receivers in the process of `duehook dev`. */
export function SinksPage() {
  useBeat(askedMs);
  const sinks = useResource('sinks', api.sinks);
  return (
    <>
      <h1>{t('nav.sinks')}</h1>
      <p class="muted">{t('sink.explain')}</p>
      <Loaded of={sinks}>{(all) => (all.length > 0 ? <Parts rows={all}>{(rows) => <List sinks={rows} />}</Parts> : <Empty text={t('sink.none')} />)}</Loaded>
      <Answers />
    </>
  );
}

function List({ sinks }: { sinks: Sink[] }) {
  return (
    <table>
      <thead>
        <tr>
          <th>{t('sink.sink')}</th>
          <th>{t('register.url')}</th>
          <th>{t('sink.answers')}</th>
          <th class="number">{t('sink.requests')}</th>
        </tr>
      </thead>
      <tbody>
        {sinks.map((sink) => (
          <tr key={sink.name}>
            <td class="name">
              <a href={address(['sinks', sink.name])} data-page>
                {sink.name}
              </a>
            </td>
            <td data-label={t('register.url')} class="mono">
              {sink.url}
            </td>
            <td data-label={t('sink.answers')}>{statuses(sink)}</td>
            <td data-label={t('sink.requests')} class="number">
              {count(sink.total)}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** The statuses that a sink answers, in their order. */
const statuses = ({ answers }: Sink): string => answers.map(({ status }) => status).join(', ') || '200';

/** One sink: its answers and the requests that it got. */
export function SinkPage({ name }: { name: string }) {
  useBeat(askedMs);
  const sink = useResource(`sink ${name}`, (abort) => api.sink(name, abort));
  const remove = async () => {
    await api.deleteSink(name);
    navigate('/sinks');
  };
  return (
    <>
      <Crumb to="/sinks">{t('nav.sinks')}</Crumb>
      <h1>{name}</h1>
      <Loaded of={sink}>
        {(found) => (
          <>
            <div class="toolbar">
              <span class="mono">{found.url}</span>
              <button class="grave" onClick={() => void act(remove, 'sink.deleted')}>
                {t('action.delete')}
              </button>
            </div>
            <Answers key={JSON.stringify(found.answers)} of={found} />
            <h2>
              {t('sink.requests')} <span class="muted">{count(found.total)}</span>
            </h2>
            {found.requests.length > 0 ? <Parts rows={found.requests.toReversed()}>{(rows) => <Requests requests={rows} />}</Parts> : <Empty text={t('sink.noRequests')} />}
          </>
        )}
      </Loaded>
    </>
  );
}

/** Sets the answers of a sink, or makes one. */
function Answers({ of }: { of?: Sink }) {
  const form = useForm({ name: of?.name ?? '', answers: of && of.answers.length > 0 ? JSON.stringify(of.answers.map(short), null, 1) : '' });
  const [unread, blame] = useState<string>();
  const submit = () =>
    form.ask(async () => {
      const answers = parsed(form.draft.answers);
      blame(answers ? undefined : t('sink.json'));
      if (!answers) return;
      await api.putSink(form.draft.name.trim(), answers);
      notify(t('sink.saved'));
      refresh();
      if (!of) navigate(address(['sinks', form.draft.name.trim()]));
    });
  const answers = form.field('answers', '/answers', t('sink.answersInOrder'));
  return (
    <Form error={form.error} onSubmit={() => void submit()}>
      <Group title={t(of ? 'sink.answers' : 'sink.new')} hint={t('sink.hint')}>
        {!of && <Input {...form.field('name', '/sink', t('setting.name'))} required placeholder="shop" />}
        <Area {...answers} rows={8} wrong={unread ? [unread] : answers.wrong} placeholder={'[{"status": 503}, {"status": 200, "body": "success", "delay": "2s"}]'} />
        <div class="actions">
          <button class="primary">{t('action.save')}</button>
        </div>
      </Group>
    </Form>
  );
}

/** An answer without what it has by default. */
const short = ({ status, body, headers, delay }: SinkAnswer): Partial<SinkAnswer> => ({
  status,
  ...(body && { body }),
  ...(headers && Object.keys(headers).length > 0 && { headers }),
  ...(delay !== '0s' && { delay }),
});

/** The answers as typed; undefined if they are no JSON. */
function parsed(typed: string): unknown[] | undefined {
  try {
    const value = JSON.parse(typed.trim() || '[]') as unknown;
    return Array.isArray(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Requests of a sink. */
const Requests = ({ requests }: { requests: SinkRequest[] }) =>
  requests.map((request) => (
    <section class="card" key={`${request.at} ${request.path}`}>
      <p>
        <strong class="mono">
          {request.method} {request.path}
        </strong>{' '}
        <When at={request.at} /> <span class={request.signature === 'invalid' ? 'result bad' : 'result good'}>{t(`signature.${request.signature}`)}</span>
      </p>
      <details>
        <summary>{t('sink.request')}</summary>
        <Verbatim
          text={[
            ...Object.entries(request.headers)
              .toSorted()
              .map(([name, value]) => `${name}: ${value}`),
            '',
            request.body_base64 ?? request.body,
          ].join('\n')}
        />
      </details>
    </section>
  ));
