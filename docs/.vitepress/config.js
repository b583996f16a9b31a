import { existsSync, statSync } from 'node:fs';
import { copyFile, mkdir, readFile, readdir, writeFile } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gunzipSync } from 'node:zlib';
import { defineConfig } from 'vitepress';
import { parse } from 'yaml';
import { chinese, english } from './pages.js';

const docs = fileURLToPath(new URL('..', import.meta.url));
const repository = 'https://github.com/duehook/duehook';

/** Headings are linked by the same names as on GitHub. */
const slugify = (heading) => heading.toLowerCase().replace(/[^\p{L}\p{N} _-]/gu, '').replaceAll(' ', '-');

/** Links to files that are no pages lead to the repository. */
function linkFiles(markdown) {
  markdown.core.ruler.push('files', ({ tokens, env }) => {
    for (const token of tokens.flatMap((one) => [one, ...(one.children ?? [])])) {
      if (token.type.startsWith('html_')) token.content = token.content.replaceAll('="images/', '="./images/');
      if (token.type === 'code_inline') token.attrSet('v-pre', ''); // braces in code are no expressions
      const [target, heading] = (token.type === 'link_open' ? token.attrGet('href') : '').split('#');
      if (!target || /^[a-z]+:|^\//.test(target)) continue;
      const path = join(docs, dirname(env.relativePath), target);
      const file = relative(docs, path);
      if (file.endsWith('.md') && !file.startsWith('..')) {
        if (file.endsWith('README.md')) token.attrSet('href', target.replace('README.md', heading ? `#${heading}` : '') || './'); // see rewrites
        continue;
      }
      if (!existsSync(path)) throw new Error(`${env.relativePath} links to ${target}, which is not there`);
      token.attrSet('href', `${repository}/${statSync(path).isDirectory() ? 'tree' : 'blob'}/main/${relative(join(docs, '..'), path)}`);
    }
  });
}

/** Diagrams are drawn by the component of the theme. */
function drawDiagrams(markdown) {
  const asCode = markdown.renderer.rules.fence;
  markdown.renderer.rules.fence = (tokens, at, ...rest) =>
    tokens[at].info.trim() === 'mermaid' ? `<Diagram code="${encodeURIComponent(tokens[at].content)}" />` : asCode(tokens, at, ...rest);
}

/** Beside the pages: the API reference that nodes serve at /docs with its document, and the pages as text. */
async function addFiles({ outDir }) {
  const dashboard = join(docs, '../internal/node/dashboard/dist');
  for (const file of await readdir(dashboard, { recursive: true })) {
    if (file === 'index.html.gz' || !file.endsWith('.gz')) continue;
    const to = join(outDir, file.replace(/\.gz$/, ''));
    await mkdir(dirname(to), { recursive: true });
    await writeFile(to, gunzipSync(await readFile(join(dashboard, file))));
  }
  // For programs: the list of pages, and the pages as they are written.
  for (const file of await readdir(docs, { recursive: true })) {
    if (/^(node_modules|\.vitepress)/.test(file) || !(file.endsWith('.md') || file === 'llms.txt')) continue;
    await mkdir(dirname(join(outDir, file)), { recursive: true });
    await copyFile(join(docs, file), join(outDir, file));
  }
  const document = parse(await readFile(join(docs, '../httpapi/openapi.yaml'), 'utf8'), { merge: true });
  await writeFile(join(outDir, 'openapi.json'), JSON.stringify(document));
}

const search = {
  provider: 'local',
  options: {
    // Decisions are for those who change duehook. Their words would hide the pages that explain how to use it.
    _render: (source, env, markdown) => (env.relativePath.startsWith('adr/') ? '' : markdown.render(source, env)),
    // Functions go to the browser as text, so each has what it needs.
    miniSearch: {
      searchOptions: {
        /** Words of a question that are on every page find nothing. */
        processTerm: (term) => {
          const words = ' a an and are as at be by can did do does for from has have how i if in is it its may me much my of on or so that the their there they this to was we what when where which who why will with you your ';
          return words.includes(` ${term.toLowerCase()} `) ? null : term.toLowerCase();
        },
        /** Pages that users and operators read come first. */
        boostDocument: (page) => (/^\/(reliability|benchmarks|lifecycle|security|settings)/.test(page) ? 0.5 : 1),
      },
    },
    locales: { zh: { translations: { button: { buttonText: '搜索', buttonAriaLabel: '搜索' }, modal: { noResultsText: '没有结果', footer: { selectText: '打开', navigateText: '选择', closeText: '关闭' } } } } },
  },
};

export default defineConfig({
  title: 'duehook',
  description: 'A delay scheduler for webhooks',
  srcExclude: ['node_modules'],
  rewrites: { 'README.md': 'index.md', 'adr/README.md': 'adr/index.md', 'migrate/README.md': 'migrate/index.md' },
  head: [['link', { rel: 'icon', href: '/favicon.svg' }]],
  markdown: { anchor: { slugify }, config: (markdown) => [linkFiles, drawDiagrams].forEach((extend) => extend(markdown)) },
  buildEnd: addFiles,
  locales: {
    root: { label: 'English', lang: 'en', themeConfig: { sidebar: english, nav: [{ text: 'API reference', link: '/docs.html', target: '_self' }] } },
    zh: { label: '简体中文', lang: 'zh-CN', link: '/zh/quickstart', themeConfig: { sidebar: chinese, nav: [{ text: 'API 参考', link: '/docs.html', target: '_self' }], outline: { label: '本页' }, docFooter: { prev: '上一页', next: '下一页' } } },
  },
  // A page of the other language may be missing: its menu leads to the first one.
  themeConfig: { i18nRouting: false, logo: '/favicon.svg', outline: [2, 3], search, socialLinks: [{ icon: 'github', link: repository }] },
});
