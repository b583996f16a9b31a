import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { api, ApiError, caller, key, keyWanted } from './api';
import { KeyForm } from './components/key-form';
import { Shell } from './components/shell';
import { AlertFormPage } from './pages/alert-form';
import { AlertsPage } from './pages/alerts';
import { DeadPage } from './pages/dead';
import { EndpointsPage } from './pages/endpoints';
import { JobPage } from './pages/job';
import { JobsPage } from './pages/jobs';
import { MissingPage } from './pages/missing';
import { OperationsPage } from './pages/operations';
import { OverviewPage } from './pages/overview';
import { RegisterPage } from './pages/register';
import { TopicPage } from './pages/topic';
import { TopicFormPage } from './pages/topic-form';
import { TopicsPage } from './pages/topics';
import { parts, place } from './router';

/** node/dashboard serves the index at these paths. */
function page({ path, query }: { path: string; query: URLSearchParams }): ComponentChildren {
  const [first, second, third, ...rest] = parts(path) ?? ['?'];
  if (rest.length > 0) return <MissingPage />;
  if (first === 'topics' && second && third === 'edit') return <TopicFormPage topic={second} key={path} />;
  if (first === 'alerts' && second && !third) return <AlertFormPage rule={second} key={path} />;
  if (first === undefined) return <OverviewPage />;
  if (first === 'jobs' && second && third) return <JobPage topic={second} id={third} key={path} />;
  if (first === 'topics' && second && !third) return <TopicPage topic={second} key={path} />;
  if (second) return <MissingPage />;
  switch (first) {
    case 'jobs':
      return <JobsPage />;
    case 'topics':
      return query.has('new') ? <TopicFormPage key="new" /> : <TopicsPage />;
    case 'endpoints':
      return <EndpointsPage />;
    case 'alerts':
      return query.has('new') ? <AlertFormPage key="new" /> : <AlertsPage />;
    case 'dead':
      return <DeadPage />;
    case 'operations':
      return <OperationsPage />;
    case 'register':
      return <RegisterPage />;
    default:
      return <MissingPage />;
  }
}

/** Loads the scope of the key. If this fails, the pages show why. */
async function learnScope(): Promise<void> {
  try {
    caller.value = await api.whoAmI();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    caller.value = undefined;
  }
}

export function App() {
  const { path, query } = place.value;
  const making = query.has('new');
  const main = useRef<HTMLElement>(null);
  const first = useRef(true);
  useEffect(() => void learnScope(), [key.value]);
  useEffect(() => {
    document.title = `${main.current?.querySelector('h1')?.textContent ?? ''} · duehook`;
  });
  // Screen readers and keyboards continue at the new page.
  useEffect(() => {
    if (!first.current) main.current?.focus({ preventScroll: true });
    first.current = false;
  }, [path, making]);
  return (
    <Shell>
      <main id="main" tabIndex={-1} ref={main}>
        {keyWanted.value ? <KeyForm why={keyWanted.value} /> : page(place.value)}
      </main>
    </Shell>
  );
}
