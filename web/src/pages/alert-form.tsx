import { address } from '../address';
import { alertFormats, alertMetrics, api, type AlertMetric, type AlertRule } from '../api';
import { Choice, figure, Form, given, givenOf, Group, Input, useForm } from '../components/form';
import { notify } from '../components/notices';
import { Crumb, Loaded, Writable } from '../components/page';
import { useResource } from '../live';
import { navigate } from '../router';
import { t } from '../text';

/** The fields of each metric, besides its name and who is notified. */
const kinds: Record<AlertMetric, readonly (keyof Draft)[]> = {
  failures: ['above', 'window', 'topic', 'endpoint'],
  dead_letters: ['above', 'window', 'topic', 'endpoint'],
  backlog: ['above', 'topic'],
  oldest_due: ['above', 'topic'],
  open_circuits: ['endpoint'],
  silent_nodes: [],
  server_trouble: [],
  inbox_trouble: [],
};

/** The fields of the form, as typed. */
const blank = { name: '', metric: 'open_circuits', above: '', topic: '', endpoint: '', window: '', url: '', format: 'json' };
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
        {kind.includes('above') && <Input {...field('above')} placeholder="0" />}
        {kind.includes('window') && <Input {...field('window')} placeholder="5m" />}
        {kind.includes('topic') && <Input {...field('topic')} placeholder={t('alert.everyTopic')} />}
        {kind.includes('endpoint') && <Input {...field('endpoint')} placeholder="https://shop.example" />}
      </Group>
      <Group title={t('alert.who')} hint={t('alert.whoHint')}>
        <Input {...field('url')} wide placeholder="https://ops.example/alerts" />
        <Choice {...field('format')} options={alertFormats} show={(format) => t(`alert.${format as (typeof alertFormats)[number]}`)} required />
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
function asked({ metric, url, format, ...draft }: Draft): Record<string, unknown> {
  const { above, ...texts } = givenOf(draft, kinds[metric as AlertMetric] as (keyof typeof draft)[]);
  return { metric, ...given({ url, format }), ...texts, ...(above === undefined ? {} : { above: figure(above) }) };
}
