/** The pages of the site, in the order of the sidebar. Tests compare them with the files. */

const page = (text, link, items) => ({ text, link, ...(items && { collapsed: true, items: items.map(([text, link]) => ({ text, link })) }) });

export const english = [
  page('Quick start', '/quickstart'),
  page('Concepts', '/concepts', [['The life of a job', '/lifecycle']]),
  page('Guides', '/recipes', [
    ['Test your code', '/testing'],
    ['TypeScript', '/languages/typescript'],
    ['Python', '/languages/python'],
    ['Java', '/languages/java'],
    ['PHP', '/languages/php'],
    ['Go client', '/client'],
    ['Command line', '/cli'],
    ['gRPC and Connect', '/grpc'],
    ['Pull queues', '/pull'],
    ['Move from asynq', '/migrate/asynq'],
    ['Move from delay-queue', '/migrate/ouqiang'],
    ['Move from QStash', '/migrate/qstash'],
    ['Move from mykit', '/migrate/mykit'],
    ['Move from camellia', '/migrate/camellia'],
  ]),
  page('Receivers', '/receivers'),
  page('Schedules', '/schedules'),
  page('API conventions', '/conventions', [
    ['Calls, with examples', '/api'],
    ['Errors and reasons', '/api-errors'],
  ]),
  { ...page('API reference', '/docs.html'), target: '_self' },
  page('Deploy', '/deploy', [
    ['Docker', '/docker'],
    ['Nodes', '/operations'],
    ['API keys and HTTPS', '/access'],
    ['Security model', '/security'],
    ['Sizing', '/sizing'],
  ]),
  page('Storage and durability', '/storage'),
  page('Backup, restore, upgrade', '/backup'),
  page('Monitor and troubleshoot', '/monitoring', [
    ['Alerts', '/alerts'],
    ['Dashboard', '/dashboard'],
  ]),
  page('Settings', '/settings'),
  {
    text: 'Internals',
    collapsed: true,
    items: [
      { text: 'Reliability', link: '/reliability' },
      { text: 'Benchmarks', link: '/benchmarks' },
      { text: 'Decisions', link: '/adr/' },
    ],
  },
];

export const chinese = [page('快速开始', '/zh/quickstart'), page('概念', '/zh/concepts'), page('API 参考', '/docs.html'), page('全部文档（英文）', '/')];
