import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { address } from '../address';
import { api, mayChange, type Group, type Member } from '../api';
import { Dialog } from '../components/dialog';
import { EndpointLink } from '../components/marks';
import { EditList, EditMember, RemoveMember } from '../components/members';
import { Crumb, Loaded, Paged } from '../components/page';
import { now, useResource } from '../live';
import { navigate } from '../router';
import { t } from '../text';

/** Groups change rarely. */
const everyMs = 30_000;

/** What a dialog changes. */
type Asked = 'add' | 'paste' | { edit: Member } | { remove: Member };

export function GroupPage({ name }: { name: string }) {
  const [saved, save] = useState(0);
  const [find, setFind] = useState('');
  const [asked, ask] = useState<Asked | 'delete'>();
  const close = () => ask(undefined);
  const part = find.trim();
  const remove = async () => {
    await api.deleteGroup(name);
    navigate('/groups');
  };
  return (
    <>
      <Crumb to="/groups">{t('nav.groups')}</Crumb>
      <h1>{name}</h1>
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
        <h2>{t('group.members')}</h2>
        <Paged
          key={part}
          name={`members of ${name} with ${part}`}
          once={Math.floor(now.value / everyMs) + saved}
          load={(query, abort) => api.members(name, part ? [['q', part], ...query] : query, abort)}
          none={t(part ? 'group.noMatch' : 'group.empty')}
        >
          {(members) => <Members members={members} ask={ask} />}
        </Paged>
      </section>
      {asked === 'delete' ? (
        <Dialog title={t('group.deleteOf', { group: name })} action={t('action.delete')} grave run={remove} done="group.deleted" onClose={close}>
          <p>{t('group.deleteExplain')}</p>
        </Dialog>
      ) : (
        asked && <Change name={name} asked={asked} onClose={close} onSaved={() => save(saved + 1)} />
      )}
    </>
  );
}

interface ChangeProps {
  name: string;
  asked: Asked;
  onClose: () => void;
  onSaved: () => void;
}

/** Changes the group as it is when the dialog opens. */
function Change({ name, asked, ...rest }: ChangeProps) {
  const loaded = useResource(address(['groups', name]), (abort) => api.group(name, abort), true);
  const dialog = (group: Group): ComponentChildren => {
    if (asked === 'add') return <EditMember group={group} member={undefined} {...rest} />;
    if (asked === 'paste') return <EditList group={group} {...rest} />;
    if ('remove' in asked) return <RemoveMember group={group} member={asked.remove} {...rest} />;
    return <EditMember group={group} member={group.members.find((one) => one.name === asked.edit.name) ?? asked.edit} {...rest} />;
  };
  return <Loaded of={loaded}>{dialog}</Loaded>;
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
