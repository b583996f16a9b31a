import { useState } from 'preact/hooks';
import { address, type Query } from '../address';
import { api, mayChange, unfinished, type Alert, type AlertMetric, type AlertRule, type TestResult } from '../api';
import { Dialog } from '../components/dialog';
import { EndpointLink, Target, When } from '../components/marks';
import { Paged } from '../components/page';
import { SendTest, TestCard } from '../components/send-test';
import { useBeat } from '../live';
import { dueBy } from '../search';
import { count, span, t } from '../text';

/** The topic of alert webhooks. */
const webhooks = 'duehook-alerts';

/** The server evaluates rules at this interval, without an event. */
const evaluatedMs = 5000;

export function AlertsPage() {
  useBeat(evaluatedMs);
  return (
    <>
      <h1>{t('nav.alerts')}</h1>
      <section>
        <h2>{t('alert.now')}</h2>
        <Paged name="alerts" load={api.alerts} none={t('alert.quiet')}>
          {(alerts) => <Firing alerts={alerts} />}
        </Paged>
      </section>
      <section>
        <div class="toolbar">
          <h2>{t('alert.rules')}</h2>
          {mayChange.value && (
            <a class="button" href="/alerts?new" data-page>
              {t('alert.new')}
            </a>
          )}
        </div>
        <Paged name="alert rules" load={api.rules} none={t('alert.none')}>
          {(rules) => <Rules rules={rules} />}
        </Paged>
      </section>
    </>
  );
}

/** A value in words. */
const figureOf = (metric: AlertMetric, value: number): string => (metric === 'oldest_due' ? span(value * 1000) : count(value));

function Firing({ alerts }: { alerts: Alert[] }) {
  return (
    <table class="alerts">
      <thead>
        <tr>
          <th>{t('alert.rule')}</th>
          <th>{t('alert.subject')}</th>
          <th class="number">{t('alert.value')}</th>
          <th>{t('alert.since')}</th>
          <th>{t('alert.told')}</th>
        </tr>
      </thead>
      <tbody>
        {alerts.map((alert) => (
          <tr key={alert.id}>
            <td class="name">
              <a href={address(['alerts', alert.rule])} data-page>
                {alert.rule}
              </a>
              <span class="muted">{t(`metric.${alert.metric}`)}</span>
            </td>
            <td data-label={t('alert.subject')}>
              <Subject alert={alert} />
            </td>
            <td data-label={t('alert.value')} class="number">
              <span>
                <a href={causeOf(alert)} data-page>
                  {figureOf(alert.metric, alert.value)}
                </a>
                <span class="muted"> / {figureOf(alert.metric, alert.threshold)}</span>
              </span>
            </td>
            <td data-label={t('alert.since')}>
              <When at={alert.fired_at} />
            </td>
            <td data-label={t('alert.told')}>
              <a href={address(['jobs'], [['topic', webhooks], ['biz_key', alert.id]])} data-page>
                {t('alert.webhooks')}
              </a>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

const inStates = (...states: readonly string[]): Query => states.map((state) => ['state', state] as const);

/** The address of what the value counts. */
function causeOf({ metric, topic, endpoint }: Alert): string {
  const of: Query = [...(topic ? [['topic', topic] as const] : []), ...(endpoint ? [['endpoint', endpoint] as const] : [])];
  switch (metric) {
    case 'open_circuits':
      return address(['endpoints'], endpoint ? of : [['state', 'open']]);
    case 'dead_letters':
      return address(['dead'], of);
    case 'failures':
      return address(['jobs'], [...of, ...inStates('retrying', 'dead')]);
    case 'oldest_due':
      return address(['jobs'], [...of, ...dueBy('now')]);
    case 'backlog':
      return address(['jobs'], [...of, ...inStates(...unfinished)]);
    case 'silent_nodes':
    case 'server_trouble':
      return '/nodes';
    case 'inbox_trouble':
      return '/inboxes';
  }
}

function Subject({ alert: { topic, endpoint, node, trouble } }: { alert: Alert }) {
  if (endpoint) return <EndpointLink url={endpoint} />;
  if (!topic) return <span>{trouble ?? node}</span>;
  return (
    <a href={address(['topics', topic])} data-page>
      {topic}
    </a>
  );
}

function Rules({ rules }: { rules: AlertRule[] }) {
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
            <th>{t('alert.url')}</th>
            {mayChange.value && <th>{t('endpoint.actions')}</th>}
          </tr>
        </thead>
        <tbody>
          {rules.map((rule) => (
            <Row key={rule.name} rule={rule} onTest={test} onDelete={remove} />
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
      {deleting && (
        <Dialog
          title={t('alert.deleteOf', { rule: deleting.name })}
          action={t('action.delete')}
          grave
          run={() => api.deleteRule(deleting.name)}
          done="alert.deleted"
          onClose={() => remove(undefined)}
        >
          <p>{t('alert.deleteExplain')}</p>
        </Dialog>
      )}
    </>
  );
}

interface RowProps {
  rule: AlertRule;
  onTest: (rule: AlertRule) => void;
  onDelete: (rule: AlertRule) => void;
}

function Row({ rule, onTest, onDelete }: RowProps) {
  return (
    <tr>
      <td class="name">
        <a href={address(['alerts', rule.name])} data-page>
          {rule.name}
        </a>
      </td>
      <td data-label={t('alert.watches')}>
        <span>
          {t(`metric.${rule.metric}`)}
          <span class="muted">{[rule.topic, rule.endpoint?.replace(/^https?:\/\//, '')].filter(Boolean).map((one) => ` · ${one}`)}</span>
        </span>
      </td>
      <td data-label={t('alert.above')}>
        <span>
          {rule.above !== null && `>\u202f${figureOf(rule.metric, rule.above)}`}
          {rule.window && <span class="muted"> / {rule.window}</span>}
        </span>
      </td>
      <td data-label={t('alert.url')}>{rule.url ? <Target url={rule.url} /> : <span class="muted">{t('alert.metricOnly')}</span>}</td>
      {mayChange.value && (
        <td>
          <div class="actions row">
            {rule.url && (
              <button onClick={() => onTest(rule)} aria-label={t('alert.testOf', { rule: rule.name })}>
                {t('endpoint.test')}
              </button>
            )}
            <button class="grave" onClick={() => onDelete(rule)} aria-label={t('alert.deleteOf', { rule: rule.name })}>
              {t('action.delete')}
            </button>
          </div>
        </td>
      )}
    </tr>
  );
}

/** An example webhook of the rule. */
function sample({ name, format }: AlertRule) {
  const text = `[TEST] ${name}`;
  if (format !== 'teams') return { text };
  const content = { type: 'AdaptiveCard', version: '1.4', body: [{ type: 'TextBlock', text, wrap: true }] };
  return { type: 'message', attachments: [{ contentType: 'application/vnd.microsoft.card.adaptive', content }] };
}
