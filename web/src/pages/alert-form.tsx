import { address } from '../address';
import { alertMetrics, api, type AlertBy, type AlertMetric, type AlertRule } from '../api';
import { Choice, figure, Form, given, Group, Input, useForm } from '../components/form';
import { notify } from '../components/notices';
import { Crumb, Loaded, Writable } from '../components/page';
import { useResource } from '../live';
import { navigate } from '../router';
import { t } from '../text';

/** The fields of each metric. */
const kinds: Record<AlertMetric, { by: AlertBy[]; topic?: true; endpoint?: true; window?: true; share?: true }> = {
  failures: { by: ['total', 'topic', 'endpoint'], topic: true, endpoint: true, window: true },
  failure_rate: { by: ['total', 'topic', 'endpoint'], topic: true, endpoint: true, window: true, share: true },
  dead_letters: { by: ['total', 'topic', 'endpoint'], topic: true, endpoint: true, window: true },
  oldest_due: { by: ['total', 'topic'], topic: true },
  backlog: { by: ['total', 'topic'], topic: true },
  open_circuits: { by: ['endpoint', 'total'], endpoint: true },
};

/** The fields of the form, as typed. */
const blank = {
  name: '',
  metric: 'open_circuits',
  above: '',
  by: '',
  topic: '',
  endpoint: '',
  window: '',
  min_attempts: '',
  for: '',
  keep_firing_for: '',
  repeat: '',
  url: '',
};
type Draft = typeof blank;

/** Creates or changes an alert rule. */
export function AlertFormPage({ rule }: { rule?: string }) {
  return (
    <>
      <Crumb to="/alerts">{t('nav.alerts')}</Crumb>
      <Writable>{rule === undefined ? <RuleForm /> : <Stored rule={rule} />}</Writable>
    </>
  );
}

/** Loaded once, so that later changes do not overwrite the input. */
function Stored({ rule }: { rule: string }) {
  const found = useResource(address(['alert rule', rule]), (abort) => api.ruleToEdit(rule, abort), true);
  return <Loaded of={found}>{({ content, version }) => <RuleForm rule={content} version={version} />}</Loaded>;
}

function RuleForm({ rule, version }: { rule?: AlertRule; version?: string | undefined }) {
  const form = useForm(typed(rule));
  const kind = kinds[form.draft.metric as AlertMetric];
  const field = (name: keyof Draft) => form.field(name, name === 'name' ? '/rule' : `/${name}`, t(`setting.${name}`));
  const submit = () =>
    form.ask(async () => {
      await api.putRule(rule?.name ?? form.draft.name.trim(), asked(form.draft), version);
      notify(t('alert.saved'));
      navigate('/alerts');
    });
  return (
    <Form title={rule?.name ?? t('alert.new')} error={form.error} onSubmit={() => void submit()}>
      <Group title={t('alert.when')}>
        {!rule && <Input {...field('name')} required wide placeholder="endpoint-down" />}
        <Choice {...field('metric')} options={alertMetrics} show={(metric) => t(`metric.${metric as AlertMetric}`)} required />
        <Input {...field('above')} placeholder={kind.share ? '0.5' : '0'} />
        <Choice {...field('by')} options={kind.by} show={(by) => t(`alert.by_${by as AlertBy}`)} />
        {kind.topic && <Input {...field('topic')} placeholder={t('alert.everyTopic')} />}
        {kind.endpoint && <Input {...field('endpoint')} placeholder="https://shop.example" />}
        {kind.window && <Input {...field('window')} placeholder="5m" />}
        {kind.share && <Input {...field('min_attempts')} placeholder="10" />}
        <Input {...field('for')} placeholder="1m" />
      </Group>
      <Group title={t('alert.who')} hint={t('alert.whoHint')}>
        <Input {...field('url')} wide placeholder="https://ops.example/alerts" />
        <Input {...field('repeat')} placeholder="4h" />
        <Input {...field('keep_firing_for')} placeholder="1m" />
      </Group>
      <div class="actions">
        <button class="primary">{t('action.save')}</button>
      </div>
    </Form>
  );
}

/** A rule as form fields. */
const typed = (rule: AlertRule | undefined): Draft =>
  rule === undefined ? blank : (Object.fromEntries(Object.keys(blank).map((name) => [name, String(rule[name as keyof AlertRule] ?? '')])) as Draft);

/** The request of the form, without empty fields and fields of other metrics. */
function asked({ name: _, above, topic, endpoint, window, min_attempts, by, ...texts }: Draft): Record<string, unknown> {
  const kind = kinds[texts.metric as AlertMetric];
  return {
    ...given(texts),
    ...(above.trim() ? { above: figure(above) } : {}),
    ...(kind.by.includes(by as AlertBy) ? { by } : {}),
    ...given({ ...(kind.topic && { topic }), ...(kind.endpoint && { endpoint }), ...(kind.window && { window }) }),
    ...(kind.share && min_attempts.trim() ? { min_attempts: figure(min_attempts) } : {}),
  };
}
