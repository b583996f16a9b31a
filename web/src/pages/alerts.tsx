import { useState } from 'preact/hooks';
import { address } from '../address';
import { api, mayChange, type Alert, type AlertMetric, type AlertRule, type TestResult } from '../api';
import { Dialog } from '../components/dialog';
import { Empty, Loading, More, mostRows, Target, When } from '../components/marks';
import { notify, notifyError } from '../components/notices';
import { ProblemNote } from '../components/problem';
import { SendTest, TestCard } from '../components/send-test';
import { refresh, useBeat, useResource } from '../live';
import { count, percent, span, t } from '../text';

/** The topic of alert webhooks. */
const webhooks = 'duehook-alerts';

/** The server evaluates rules at this interval, without an event. */
const evaluatedMs = 5000;

export function AlertsPage() {
  useBeat(evaluatedMs);
  const alerts = useResource('alerts', api.alerts);
  const rules = useResource('alert rules', api.rules);
  const error = alerts.error ?? rules.error;
  return (
    <>
      <h1>{t('nav.alerts')}</h1>
      {mayChange.value && (
        <div class="actions">
          <a class="button primary" href="/alerts?new" data-page>
            {t('alert.new')}
          </a>
        </div>
      )}
      {error && <ProblemNote error={error} />}
      {alerts.data && rules.data ? (
        <>
          <Standing title={t('alert.now')} alerts={alerts.data.filter(({ state }) => state === 'firing')} none={t('alert.quiet')} />
          <Standing title={t('alert.pendingTitle')} alerts={alerts.data.filter(({ state }) => state === 'pending')} />
          <section>
            <h2>{t('alert.rules')}</h2>
            {rules.data.length > 0 ? <Rules rules={rules.data.slice(0, mostRows)} alerts={alerts.data} /> : <Empty text={t('alert.none')} />}
            <More of={rules.data.length} />
          </section>
        </>
      ) : (
        !error && <Loading />
      )}
    </>
  );
}

/** A value in words. */
function figureOf(metric: AlertMetric, value: number): string {
  if (metric === 'failure_rate') return percent(value);
  return metric === 'oldest_due' ? span(value * 1000) : count(value);
}

/** The address of a rule's form. */
const placeOf = (rule: string, setIn: string | null): string =>
  setIn === null ? address(['alerts', rule]) : `${setIn.replace('/v1', '')}/edit`;

/** The alerts in one state. */
function Standing({ title, alerts, none }: { title: string; alerts: Alert[]; none?: string }) {
  if (alerts.length === 0 && none === undefined) return null;
  return (
    <section>
      <h2>{title}</h2>
      {alerts.length > 0 ? <Table alerts={alerts.slice(0, mostRows)} /> : <Empty text={none ?? ''} />}
      <More of={alerts.length} />
    </section>
  );
}

function Table({ alerts }: { alerts: Alert[] }) {
  return (
    <table class="alerts">
      <thead>
        <tr>
          <th>{t('alert.rule')}</th>
          <th>{t('job.state')}</th>
          <th>{t('alert.subject')}</th>
          <th class="number">{t('alert.value')}</th>
          <th>{t('alert.since')}</th>
          <th>{t('alert.told')}</th>
        </tr>
      </thead>
      <tbody>
        {alerts.map((alert) => (
          <tr key={`${alert.rule} ${alert.subject.topic ?? ''} ${alert.subject.endpoint ?? ''}`}>
            <td class="name">
              <a href={placeOf(alert.rule, alert.set_in)} data-page>
                {alert.rule}
              </a>
              <span class="muted">{t(`metric.${alert.metric}`)}</span>
            </td>
            <td data-label={t('job.state')}>
              <span class={`state alert-${alert.state}`}>
                <i class="dot" aria-hidden="true" />
                {t(`alert.${alert.state}`)}
              </span>
            </td>
            <td data-label={t('alert.subject')}>
              <Subject alert={alert} />
            </td>
            <td data-label={t('alert.value')} class="number">
              <span>
                {figureOf(alert.metric, alert.value)}
                <span class="muted"> / {figureOf(alert.metric, alert.threshold)}</span>
              </span>
            </td>
            <td data-label={t('alert.since')}>
              <When at={alert.since} />
            </td>
            <td data-label={t('alert.told')}>
              {alert.told_at && alert.id ? (
                <a href={address(['jobs'], [['topic', webhooks], ['biz_key', alert.id]])} data-page>
                  <When at={alert.told_at} />
                </a>
              ) : (
                <span class="muted">–</span>
              )}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Subject({ alert: { subject } }: { alert: Alert }) {
  if (subject.endpoint) {
    return (
      <a href={address(['jobs'], [['endpoint', subject.endpoint]])} data-page>
        <Target url={subject.endpoint} />
      </a>
    );
  }
  if (!subject.topic) return <span class="muted">{t('alert.everything')}</span>;
  return (
    <a href={address(['topics', subject.topic])} data-page>
      {subject.topic}
    </a>
  );
}

function Rules({ rules, alerts }: { rules: AlertRule[]; alerts: Alert[] }) {
  const [testing, test] = useState<AlertRule>();
  const [deleting, remove] = useState<AlertRule>();
  const [result, setResult] = useState<TestResult & { url: string }>();
  return (
    <>
      {result && <TestCard result={result} onClose={() => setResult(undefined)} />}
      <table class="alerts">
        <thead>
          <tr>
            <th>{t('alert.rule')}</th>
            <th>{t('alert.watches')}</th>
            <th>{t('alert.above')}</th>
            <th>{t('alert.for')}</th>
            <th>{t('alert.url')}</th>
            <th class="number">{t('alert.firing')}</th>
            {mayChange.value && <th>{t('endpoint.actions')}</th>}
          </tr>
        </thead>
        <tbody>
          {rules.map((rule) => (
            <Row key={rule.name} rule={rule} alerts={alerts} onTest={test} onDelete={remove} />
          ))}
        </tbody>
      </table>
      {testing && (
        <SendTest
          first={{ url: testing.url ?? '', topic: webhooks, body: JSON.stringify(sample(testing), null, 2) }}
          onClose={() => test(undefined)}
          onResult={setResult}
        />
      )}
      {deleting && <Delete rule={deleting} onClose={() => remove(undefined)} />}
    </>
  );
}

interface RowProps {
  rule: AlertRule;
  alerts: Alert[];
  onTest: (rule: AlertRule) => void;
  onDelete: (rule: AlertRule) => void;
}

function Row({ rule, alerts, onTest, onDelete }: RowProps) {
  const firing = alerts.filter((one) => one.rule === rule.name && one.state === 'firing').length;
  return (
    <tr>
      <td class="name">
        <a href={placeOf(rule.name, rule.set_in)} data-page>
          {rule.name}
        </a>
        {rule.set_in && <span class="muted">{t('alert.ofTopic')}</span>}
      </td>
      <td data-label={t('alert.watches')}>
        <span>
          {t(`metric.${rule.metric}`)}
          <span class="muted">{scope(rule)}</span>
        </span>
      </td>
      <td data-label={t('alert.above')}>
        <span>
          &gt;{'\u202f'}
          {figureOf(rule.metric, rule.above)}
          {rule.window && <span class="muted"> / {rule.window}</span>}
        </span>
      </td>
      <td data-label={t('alert.for')}>{rule.for}</td>
      <td data-label={t('alert.url')}>{rule.url ? <Target url={rule.url} /> : <span class="muted">{t('alert.metricOnly')}</span>}</td>
      <td data-label={t('alert.firing')} class={firing > 0 ? 'number bad' : 'number'}>
        {count(firing)}
      </td>
      {mayChange.value && (
        <td>
          <div class="actions row">
            {rule.url && (
              <button onClick={() => onTest(rule)} aria-label={t('alert.testOf', { rule: rule.name })}>
                {t('endpoint.test')}
              </button>
            )}
            {mayChange.value && rule.set_in === null && (
              <button class="grave" onClick={() => onDelete(rule)} aria-label={t('alert.deleteOf', { rule: rule.name })}>
                {t('action.delete')}
              </button>
            )}
          </div>
        </td>
      )}
    </tr>
  );
}

/** The subject of a rule, and how its values are grouped. */
function scope({ topic, endpoint, by, metric }: AlertRule): string {
  const narrowed = [topic, endpoint?.replace(/^https?:\/\//, '')].filter(Boolean).map((one) => ` · ${one}`);
  const usual = metric === 'open_circuits' ? 'endpoint' : 'total';
  return narrowed.join('') + (by === usual ? '' : ` · ${t(`alert.by_${by}`)}`);
}

/** An example webhook of the rule. */
function sample({ name, metric, topic, endpoint, above }: AlertRule) {
  const at = new Date().toISOString();
  return {
    version: '1',
    alert: 'test',
    status: 'firing',
    rule: name,
    metric,
    subject: { topic, endpoint },
    value: above,
    threshold: above,
    since: at,
    fired_at: at,
    resolved_at: null,
    repeat: 0,
    text: `[TEST] ${name}`,
  };
}

function Delete({ rule, onClose }: { rule: AlertRule; onClose: () => void }) {
  const submit = async () => {
    try {
      await api.deleteRule(rule.name);
      notify(t('alert.deleted'));
    } catch (error) {
      notifyError(error);
    }
    refresh();
  };
  return (
    <Dialog title={t('alert.deleteOf', { rule: rule.name })} action={t('action.delete')} grave onSubmit={() => void submit()} onClose={onClose}>
      <p>{t('alert.deleteExplain')}</p>
    </Dialog>
  );
}
