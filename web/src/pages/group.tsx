import { useState } from 'preact/hooks';
import { address } from '../address';
import { api, mayChange, type Group, type Member } from '../api';
import { Dialog } from '../components/dialog';
import { Empty, EndpointLink } from '../components/marks';
import { EditList, EditMember, RemoveMember } from '../components/members';
import { Crumb, Loaded, Parts } from '../components/page';
import { now, useResource } from '../live';
import { navigate } from '../router';
import { count, t } from '../text';

/** A group may have 1,000 members, and changes rarely. */
const everyMs = 30_000;

export function GroupPage({ name }: { name: string }) {
  const [saved, save] = useState(0);
  const moment = Math.floor(now.value / everyMs) + saved;
  const group = useResource(address(['groups', name]), (abort) => api.group(name, abort), moment);
  return (
    <>
      <Crumb to="/groups">{t('nav.groups')}</Crumb>
      <h1>{name}</h1>
      <Loaded of={group}>{(found) => <Details group={found} onSaved={() => save(saved + 1)} />}</Loaded>
    </>
  );
}

interface Props {
  group: Group;
  onSaved: () => void;
}

/** What a dialog changes. */
type Asked = 'add' | 'paste' | 'delete' | { edit: Member } | { remove: Member };

function Details({ group, onSaved }: Props) {
  const [find, setFind] = useState('');
  const [asked, ask] = useState<Asked>();
  const { name, members } = group;
  const found = members.filter(({ name: own, url, filter_label: label }) => [own, url, label ?? ''].some((text) => text.includes(find.trim())));
  const dialog = { group, onClose: () => ask(undefined), onSaved };
  const remove = async () => {
    await api.deleteGroup(name);
    navigate('/groups');
  };
  return (
    <>
      <div class="toolbar">
        <input type="search" class="find" aria-label={t('group.find')} placeholder={t('group.find')} value={find} onInput={(e) => setFind(e.currentTarget.value)} />
        {mayChange.value && (
          <div class="actions">
            <a class="button" href={address(['register'], [['group', name]])} data-page>
              {t('group.register')}
            </a>
            <button onClick={() => ask('add')}>{t('group.add')}</button>
            <button onClick={() => ask('paste')}>{t('group.paste')}</button>
            <button class="grave" onClick={() => ask('delete')}>
              {t('action.delete')}
            </button>
          </div>
        )}
      </div>
      <section>
        <h2>{t('group.countOf', { n: count(members.length) })}</h2>
        {found.length > 0 ? (
          <Parts key={find} rows={found}>
            {(rows) => <Members members={rows} ask={ask} />}
          </Parts>
        ) : (
          <Empty text={t(members.length > 0 ? 'group.noMatch' : 'group.empty')} />
        )}
      </section>
      {asked === 'add' && <EditMember {...dialog} member={undefined} />}
      {asked === 'paste' && <EditList {...dialog} />}
      {typeof asked === 'object' && 'edit' in asked && <EditMember {...dialog} member={asked.edit} />}
      {typeof asked === 'object' && 'remove' in asked && <RemoveMember {...dialog} member={asked.remove} />}
      {asked === 'delete' && (
        <Dialog title={t('group.deleteOf', { group: name })} action={t('action.delete')} grave run={remove} done="group.deleted" onClose={dialog.onClose}>
          <p>{t('group.deleteExplain')}</p>
        </Dialog>
      )}
    </>
  );
}

function Members({ members, ask }: { members: Member[]; ask: (what: Asked) => void }) {
  return (
    <table>
      <thead>
        <tr>
          <th>{t('group.member')}</th>
          <th>{t('register.url')}</th>
          <th>{t('group.filter_label')}</th>
          <th>{t('topic.headers')}</th>
          {mayChange.value && <th>{t('endpoint.actions')}</th>}
        </tr>
      </thead>
      <tbody>
        {members.map((member) => (
          <tr key={member.name}>
            <td class="name">{member.name}</td>
            <td data-label={t('register.url')}>
              <EndpointLink url={member.url} whole />
            </td>
            <td class={member.filter_label ? 'label' : 'none'} data-label={t('group.filter_label')}>
              {member.filter_label ?? <span class="muted">–</span>}
            </td>
            <td class={member.headers && Object.keys(member.headers).length > 0 ? undefined : 'none'} data-label={t('topic.headers')}>
              {Object.keys(member.headers ?? {}).join(', ') || <span class="muted">–</span>}
            </td>
            {mayChange.value && (
              <td>
                <div class="actions row">
                  <button aria-label={t('group.changeOf', { member: member.name })} onClick={() => ask({ edit: member })}>
                    {t('action.edit')}
                  </button>
                  <button class="grave" aria-label={t('group.removeOf', { member: member.name })} onClick={() => ask({ remove: member })}>
                    {t('group.remove')}
                  </button>
                </div>
              </td>
            )}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
