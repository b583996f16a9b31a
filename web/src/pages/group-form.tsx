import { useMemo, useRef, useState } from 'preact/hooks';
import { address } from '../address';
import { api, mayChange, type ApiError, type Group, type Member } from '../api';
import { Area, Form, given, Group as Fields, headersOf, headersText, Input, useForm, wrongAt } from '../components/form';
import { Empty, Loading } from '../components/marks';
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

/** A member with the number that identifies its fields. */
interface Row {
  row: number;
  draft: Draft;
}

function GroupForm({ group, version }: { group?: Group; version?: string | undefined }) {
  const form = useForm({ name: '' });
  const [rows, setRows] = useState<Row[]>(() => (group?.members.map(typed) ?? [blank]).map((draft, row) => ({ row, draft })));
  const used = useRef(rows.length);
  const add = () => setRows([...rows, { row: used.current++, draft: blank }]);
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
      {rows.map((one, at) => (
        <MemberFields
          key={one.row}
          at={at}
          draft={one.draft}
          error={form.error}
          set={(draft) => setRows((all) => all.map((other) => (other.row === one.row ? { ...other, draft } : other)))}
          remove={() => setRows((all) => all.filter(({ row }) => row !== one.row))}
        />
      ))}
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

interface MemberProps {
  at: number;
  draft: Draft;
  error: ApiError | undefined;
  set: (draft: Draft) => void;
  remove: () => void;
}

/** The fields of a member. Of up to 1,000 members, only the changed ones render again. */
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
