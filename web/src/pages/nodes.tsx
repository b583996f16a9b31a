import { api, type Node } from '../api';
import { Mark, When } from '../components/marks';
import { Loaded } from '../components/page';
import { useResource } from '../live';
import { span, t } from '../text';

/** The difference of clocks that is marked. Jobs do not depend on it, but the log does. */
const wrongMs = 1000;

/** The nodes that share the store. */
export function NodesPage() {
  const nodes = useResource('nodes', api.nodes);
  return (
    <>
      <h1>{t('nav.nodes')}</h1>
      <Loaded of={nodes}>{(all) => <Table nodes={all} />}</Loaded>
    </>
  );
}

function Table({ nodes }: { nodes: Node[] }) {
  const versions = new Set(nodes.map(({ version }) => version)).size;
  return (
    <>
      {versions > 1 && <p class="problem">{t('nodes.versions', { n: versions })}</p>}
      <table>
        <thead>
          <tr>
            <th>{t('nodes.host')}</th>
            <th>{t('job.state')}</th>
            <th>{t('nodes.version')}</th>
            <th>{t('nodes.store')}</th>
            <th>{t('nodes.started')}</th>
            <th>{t('nodes.seen')}</th>
            <th>{t('nodes.clock')}</th>
          </tr>
        </thead>
        <tbody>
          {nodes.map((node) => (
            <Row key={node.id} node={node} />
          ))}
        </tbody>
      </table>
    </>
  );
}

function Row({ node }: { node: Node }) {
  const ahead = node.clock_ahead_ms;
  const clock = ahead === 0 ? '0' : t(ahead > 0 ? 'nodes.ahead' : 'nodes.behind', { span: span(Math.abs(ahead)) });
  return (
    <tr>
      <td class="name">
        {node.host}
        <div class="muted mono">{node.id}</div>
      </td>
      <td data-label={t('job.state')}>
        <Mark kind={`node-${node.state}`}>{t(`nodes.${node.state}`)}</Mark>
      </td>
      <td data-label={t('nodes.version')}>{node.version}</td>
      <td data-label={t('nodes.store')}>{node.store}</td>
      <td data-label={t('nodes.started')}>
        <When at={node.started_at} />
      </td>
      <td data-label={t('nodes.seen')}>
        <When at={node.seen_at} />
      </td>
      <td data-label={t('nodes.clock')} class={Math.abs(ahead) >= wrongMs ? 'bad' : undefined}>
        {clock}
      </td>
    </tr>
  );
}
