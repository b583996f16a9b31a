/** The API of this node, from the OpenAPI document that it serves. Needs no key. */
import { render, type JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { start as startSettings } from '../settings';
import { load, operations, resolve, type OpenAPI, type Operation } from './document';
import { Markdown, Line } from './markdown';
import { Fields, Value } from './schema';
import '../style/base.css';
import '../style/parts.css';
import '../style/reference.css';

function Reference({ document: { info, tags, paths } }: { document: OpenAPI }): JSX.Element {
  const all = operations({ info, tags, paths });
  const [shown, setShown] = useState(location.hash.slice(1));
  const [wanted, setWanted] = useState('');
  useEffect(() => {
    const follow = () => {
      setShown(location.hash.slice(1));
      scrollTo(0, 0);
    };
    addEventListener('hashchange', follow);
    return () => removeEventListener('hashchange', follow);
  }, []);
  const one = all.find(({ operationId }) => operationId === shown);
  const found = all.filter(({ method, path, summary }) => `${method} ${path} ${summary}`.toLowerCase().includes(wanted.toLowerCase()));
  return (
    <div class="shell reference-page">
      <header class="side">
        <div class="brand">
          <a href="/">
            <img src="/favicon.svg" alt="" width="26" height="26" />
            duehook
          </a>
        </div>
        <input type="search" aria-label="Search the calls" placeholder="Search the calls" value={wanted} onInput={(e) => setWanted(e.currentTarget.value)} />
        <nav aria-label="Calls">
          <a href="#" aria-current={one ? undefined : 'page'}>
            In general
          </a>
          {tags.map(({ name }) => {
            const calls = found.filter((call) => call.tags[0] === name);
            return (
              calls.length > 0 && (
                <section>
                  <h2>{name}</h2>
                  {calls.map(({ operationId, method, summary }) => (
                    <a href={`#${operationId}`} aria-current={operationId === shown ? 'page' : undefined}>
                      <span class={`method ${method.toLowerCase()}`}>{method}</span> {summary}
                    </a>
                  ))}
                </section>
              )
            );
          })}
        </nav>
      </header>
      <div class="content">
        <main id="main">{one ? <Details key={one.operationId} call={one} /> : <General text={info.description} />}</main>
      </div>
    </div>
  );
}

function General({ text }: { text: string }) {
  return (
    <>
      <h1>API</h1>
      <section class="card prose">
        <Markdown text={text} />
        <p>
          The document: <a href="/openapi.json">/openapi.json</a> (OpenAPI 3.1).
        </p>
      </section>
    </>
  );
}

function Details({ call }: { call: Operation }) {
  const parameters = (call.parameters ?? []).map(resolve);
  const scopes = (call.security ?? []).flatMap(({ key = [] }) => key);
  return (
    <>
      <h1>{call.summary}</h1>
      <p class="mono">
        <span class={`method ${call.method.toLowerCase()}`}>{call.method}</span> {call.path}
      </p>
      <section class="card prose">
        <Markdown text={call.description} />
        <p class="muted">{scopes.length > 0 ? `An API key needs the scope ${scopes.join(' or ')}.` : 'Needs no API key.'}</p>
      </section>
      {parameters.length > 0 && (
        <section class="card">
          <h2>Parameters</h2>
          <dl class="fields">
            {parameters.map(({ name, in: where, required, description, schema }) => (
              <div>
                <dt>
                  <code>{name}</code> <span class="muted">in {where}</span> {schema && <Value schema={schema} />} {required && <span class="tag">required</span>}
                </dt>
                <dd>
                  <Line text={description} />
                </dd>
              </div>
            ))}
          </dl>
        </section>
      )}
      {Object.entries(call.requestBody?.content ?? {}).map(([type, { schema, examples }]) => (
        <section class="card">
          <h2>Request, {type}</h2>
          {Object.values(examples ?? {}).map(({ summary, value }) => (
            <details>
              <summary>Example: {summary}</summary>
              <pre tabindex={0}>{JSON.stringify(value, undefined, 2)}</pre>
            </details>
          ))}
          {schema && <Fields schema={schema} />}
        </section>
      ))}
      {Object.entries(call.responses).map(([status, reference]) => {
        const { description, headers, content } = resolve(reference);
        return (
          <section class="card">
            <h2>Answer {status}</h2>
            <div class="prose">
              <Markdown text={description} />
            </div>
            <dl class="fields">
              {Object.entries(headers ?? {}).map(([name, header]) => (
                <div>
                  <dt>
                    <code>{name}</code> <span class="muted">header</span>
                  </dt>
                  <dd>
                    <Line text={resolve(header).description} />
                  </dd>
                </div>
              ))}
            </dl>
            {Object.entries(content ?? {}).map(
              ([type, { schema }]) =>
                schema && (
                  <details open={status.startsWith('2')}>
                    <summary>{type}</summary>
                    <Fields schema={schema} />
                  </details>
                ),
            )}
          </section>
        );
      })}
    </>
  );
}

startSettings();
document.documentElement.lang = 'en'; // the language of the document
load().then(
  (all) => render(<Reference document={all} />, document.body),
  (cause: unknown) => render(<p role="alert">{String(cause)}</p>, document.body),
);
