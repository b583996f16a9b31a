import { useMemo, useRef, useState } from 'preact/hooks';
import { address } from '../address';
import { api, mayChange, type ApiError, type Group, type Member } from '../api';
import { Area, Form, given, Group as Fields, headersOf, headersText, Input, useForm, wrongAt } from '../components/form';
import { Empty, Loading, More, mostRows } from '../components/marks';
import { notify } from '../components/notices';
import { ProblemNote } from '../components/problem';
import { useResource } from '../live';
import { navigate } from '../router';
import { t } from '../text';

/** A member as typed. */
interface Draft {
  name: string;
  url: string;
  filter_label: string;
  headers: string;
}

const blank: Draft = { name: '', url: '', filter_label: '', headers: '' };

/** Creates or changes a group. */
export function GroupFormPage({ name }: { name?: string | undefined }) {
  return (
    <>
      <p class="crumb">
        <a href={name ? address(['groups', name]) : '/groups'} data-page>
          {name ?? t('nav.groups')}
        </a>
      </p>
      <Allowed name={name} />
    </>
  );
}

function Allowed({ name }: { name: string | undefined }) {
  if (!mayChange.value) return <Empty text={t('write.only')} />;
  return name === undefined ? <GroupForm /> : <Stored name={name} />;
}

/** Loaded once, so that later changes do not overwrite the input. */
function Stored({ name }: { name: string }) {
  const found = useResource(`edit group ${name}`, (abort) => api.groupToEdit(name, abort), true);
  if (found.error) return <ProblemNote error={found.error} />;
  return found.data ? <GroupForm group={found.data.content} version={found.data.version} /> : <Loading />;
}

/** A member with the number that identifies its fields. Closed, it takes a line. */
interface Row {
  row: number;
  draft: Draft;
  open: boolean;
}

function GroupForm({ group, version }: { group?: Group; version?: string | undefined }) {
  const form = useForm({ name: '' });
  const [rows, setRows] = useState<Row[]>(() => (group?.members.map(typed) ?? [blank]).map((draft, row) => ({ row, draft, open: !group })));
  const [find, setFind] = useState('');
  const used = useRef(rows.length);
  const add = () => setRows([...rows, { row: used.current++, draft: blank, open: true }]);
  const wrong = useMemo(() => wrongMembers(form.error), [form.error]);
  const shown = rows
    .map((one, at) => ({ ...one, at, open: one.open || wrong.has(at) }))
    .filter(({ draft, open }) => open || [draft.name, draft.url, draft.filter_label].some((text) => text.includes(find.trim())));
  const closed = shown.filter(({ open }) => !open);
  const last = closed[mostRows - 1]?.at ?? rows.length;
  const submit = () =>
    form.ask(async () => {
      const name = group?.name ?? form.draft.name.trim();
      await api.putGroup(name, { members: rows.map(({ draft }) => asked(draft)) }, version);
      notify(t('group.saved'));
      navigate(address(['groups', name]));
    });
  return (
    <Form title={group ? t('group.edit', { group: group.name }) : t('group.new')} error={form.error} onSubmit={() => void submit()}>
      <Fields title={t('group.group')} hint={t('group.hint')} wrong={ofMembers(form.error)}>
        {!group && <Input {...form.field('name', '/group', t('setting.name'))} required wide placeholder="order-events" />}
      </Fields>
      {rows.length > fewRows && (
        <input type="search" class="find" aria-label={t('group.find')} placeholder={t('group.find')} value={find} onInput={(e) => setFind(e.currentTarget.value)} />
      )}
      {shown
        .filter(({ at, open }) => open || at <= last)
        .map(({ row, at, draft, open }) => {
          const change = (to: Partial<Row>) => setRows((all) => all.map((other) => (other.row === row ? { ...other, ...to } : other)));
          const remove = () => setRows((all) => all.filter((other) => other.row !== row));
          if (!open) return <MemberLine key={row} at={at} draft={draft} edit={() => change({ open: true })} remove={remove} />;
          return <MemberFields key={row} at={at} draft={draft} error={wrong.has(at) ? form.error : undefined} set={(to) => change({ draft: to, open: true })} remove={remove} />;
        })}
      <More of={closed.length} />
      <div class="actions">
        <button class="primary">{t('action.save')}</button>
        <button type="button" onClick={add}>
          {t('group.add')}
        </button>
      </div>
    </Form>
  );
}

/** The error of the members as a whole. */
const ofMembers = (error: ApiError | undefined): string[] | undefined =>
  error?.problem.errors.filter(({ pointer }) => pointer === '/members').map(({ message }) => message);

/** The positions of the members with errors. */
function wrongMembers(error: ApiError | undefined): Set<number> {
  const pointers = error?.problem.errors.map(({ pointer }) => /^\/members\/(\d+)/.exec(pointer)?.[1]) ?? [];
  return new Set(pointers.filter((at) => at !== undefined).map(Number));
}

/** From more members on, the form has a search. */
const fewRows = 10;

interface LineProps {
  at: number;
  draft: Draft;
  edit: () => void;
  remove: () => void;
}

/** A member that is not being edited. */
function MemberLine({ at, draft, edit, remove }: LineProps) {
  return useMemo(
    () => (
      <div class="card member">
        <strong>{draft.name}</strong>
        <span class="mono">{draft.url}</span>
        {draft.filter_label && <span class="muted">{draft.filter_label}</span>}
        <div class="actions">
          <button type="button" class="quiet" aria-label={t('group.changeOf', { n: at + 1 })} onClick={edit}>
            {t('group.change')}
          </button>
          <button type="button" class="quiet" aria-label={t('group.removeOf', { n: at + 1 })} onClick={remove}>
            {t('group.remove')}
          </button>
        </div>
      </div>
    ),
    [at, draft, t('group.remove')], // the language, too
  );
}

interface MemberProps {
  at: number;
  draft: Draft;
  error: ApiError | undefined;
  set: (draft: Draft) => void;
  remove: () => void;
}

/** The fields of a member. Only the changed ones render again. */
function MemberFields({ at, draft, error, set, remove }: MemberProps) {
  const field = (name: keyof Draft, label: string) => ({
    label,
    value: draft[name],
    set: (value: string) => set({ ...draft, [name]: value }),
    wrong: wrongAt(error, `/members/${at}/${name}`),
  });
  return useMemo(
    () => (
      <Fields title={t('group.memberOf', { n: at + 1 })}>
        <Input {...field('name', t('setting.name'))} required placeholder="mail" />
        <Input {...field('filter_label', t('group.filter_label'))} />
        <Input {...field('url', t('register.url'))} required wide placeholder="https://mail.example/hooks" />
        <Area {...field('headers', t('register.headers'))} placeholder="x-tenant: acme" />
        <div class="actions">
          <button type="button" class="quiet" aria-label={t('group.removeOf', { n: at + 1 })} onClick={remove}>
            {t('group.remove')}
          </button>
        </div>
      </Fields>
    ),
    [at, draft, error, t('group.remove')], // the language, too
  );
}

const typed = ({ name, url, filter_label: label, headers }: Member): Draft => ({ name, url, filter_label: label ?? '', headers: headersText(headers) });

/** A member for the API, without empty fields. */
const asked = ({ name, url, filter_label, headers }: Draft): Record<string, unknown> => ({
  ...given({ name: name.trim(), url: url.trim(), filter_label: filter_label.trim() }),
  ...(headers.trim() ? { headers: headersOf(headers) } : {}),
});
