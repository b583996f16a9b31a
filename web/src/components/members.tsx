/** Dialogs that change the members of a group: one of them, or many from a list. */
import { useState } from 'preact/hooks';
import { api, ApiError, type Group, type Member } from '../api';
import { count, t } from '../text';
import { Dialog } from './dialog';
import { Area, headersOf, headersText, Input, Tick } from './form';

/** A group as it was when the dialog opened. One to be has no version. */
export type Editable = Pick<Group, 'members'> & Partial<Pick<Group, 'name' | 'version'>>;

/** Saves a group unless somebody else has changed it. Errors name members instead of their positions. */
async function save(name: string, version: number | undefined, members: Member[]): Promise<void> {
  try {
    await api.putGroup(name, { members }, version === undefined ? undefined : `"${version}"`);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    const named = (pointer: string) => pointer.replace(/^\/members\/(\d+)/, (_, at: string) => `/${members[Number(at)]?.name ?? at}`);
    throw new ApiError({ ...error.problem, errors: error.problem.errors.map((one) => ({ ...one, pointer: named(one.pointer) })) });
  }
}

interface Props {
  group: Editable;
  onClose: () => void;
  onSaved: (name: string) => void;
}

/** Adds a member, or changes the one of this name. */
export function EditMember({ group, member, onClose, onSaved }: Props & { member: Member | undefined }) {
  const [from] = useState(group);
  const [name, setName] = useState(member?.name ?? '');
  const [url, setURL] = useState(member?.url ?? '');
  const [label, setLabel] = useState(member?.filter_label ?? '');
  const [headers, setHeaders] = useState(headersText(member?.headers));
  const submit = async () => {
    const typed: Member = { name: name.trim(), url: url.trim(), filter_label: label.trim() || null, headers: headersOf(headers) };
    const at = from.members.findIndex((one) => one.name === member?.name);
    await save(from.name ?? '', from.version, at < 0 ? [...from.members, typed] : from.members.with(at, typed));
    onSaved(from.name ?? '');
  };
  return (
    <Dialog title={member ? t('group.changeOf', { member: member.name }) : t('group.add')} action={t('action.save')} run={submit} done="group.saved" onClose={onClose}>
      <Input label={t('setting.name')} required value={name} set={setName} placeholder="mail" />
      <Input label={t('register.url')} required value={url} set={setURL} placeholder="https://mail.example/hooks" />
      <Input label={t('group.filter_label')} value={label} set={setLabel} />
      <Area label={t('register.headers')} value={headers} set={setHeaders} placeholder="x-tenant: acme" />
    </Dialog>
  );
}

/** Removes a member. */
export function RemoveMember({ group, member, onClose, onSaved }: Props & { member: Member }) {
  const [from] = useState(group);
  const submit = async () => {
    await save(from.name ?? '', from.version, from.members.filter(({ name }) => name !== member.name));
    onSaved(from.name ?? '');
  };
  return (
    <Dialog title={t('group.removeOf', { member: member.name })} action={t('group.remove')} grave run={submit} done="group.saved" onClose={onClose}>
      <p>{t('group.removeExplain')}</p>
    </Dialog>
  );
}

/** Makes a group from a list, or adds the members of a list to a group. */
export function EditList({ group, onClose, onSaved }: Props) {
  const [from] = useState(group);
  const [name, setName] = useState(from.name ?? '');
  const [list, setList] = useState('');
  const [only, setOnly] = useState('');
  const { members, added, changed, removed } = merged(from.members, list, only !== '');
  const submit = async () => {
    await save(name.trim(), from.version, members);
    onSaved(name.trim());
  };
  const stands = from.members.length > 0;
  return (
    <Dialog title={t(from.name === undefined ? 'group.new' : 'group.paste')} action={t('action.save')} disabled={stands && added + changed + removed === 0} run={submit} done="group.saved" onClose={onClose}>
      {from.name === undefined && <Input label={t('setting.name')} required value={name} set={setName} placeholder="order-events" />}
      <p class="hint">{t('group.hint')}</p>
      <Area label={t('group.list')} rows={8} value={list} set={setList} placeholder={'mail https://mail.example/hooks\ncrm https://crm.example/in eu'} />
      {stands && <Tick label={t('group.only')} value={only} set={setOnly} />}
      <p role="status">{t('group.effect', { added: count(added), changed: count(changed), removed: count(removed) })}</p>
    </Dialog>
  );
}

interface Merged extends Pick<Group, 'members'> {
  added: number;
  changed: number;
  removed: number;
}

/** Members with those of a list, a name, a URL and perhaps a filter label on each line. The headers of a member stay. */
function merged(before: Member[], list: string, only: boolean): Merged {
  const lines = list.split('\n').flatMap((line): Member[] => {
    const [name = '', url = '', ...label] = line.trim().split(/\s+/);
    return name ? [{ name, url, filter_label: label.join(' ') || null, headers: {} }] : [];
  });
  const listed = new Map(lines.map((one) => [one.name, one]));
  const held = new Set(before.map(({ name }) => name));
  const stay = before.flatMap((one): Member[] => {
    const to = listed.get(one.name);
    if (!to) return only ? [] : [one];
    return [{ ...to, headers: one.headers }];
  });
  const fresh = lines.filter(({ name }) => !held.has(name)); // one that is listed twice is refused
  const differs = ({ name, url, filter_label: label }: Member) => {
    const to = listed.get(name);
    return to !== undefined && (to.url !== url || to.filter_label !== label);
  };
  return { members: [...stay, ...fresh], added: fresh.length, changed: before.filter(differs).length, removed: before.length - stay.length };
}
