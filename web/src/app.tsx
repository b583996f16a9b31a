import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { api, ApiError, caller, devClock, isDev, key, keyWanted, restricted } from './api';
import { KeyForm } from './components/key-form';
import { Loading } from './components/marks';
import { ProblemNote } from './components/problem';
import { Shell } from './components/shell';
import { readClock } from './dev';
import { wantsSearch } from './keyboard';
import { lazy } from './lazy';
import { AlertsPage } from './pages/alerts';
import { DeadPage } from './pages/dead';
import { EndpointPage, EndpointsPage } from './pages/endpoints';
import { JobPage } from './pages/job';
import { JobsPage } from './pages/jobs';
import { MissingPage, WrongAddressPage } from './pages/missing';
import { OperationsPage } from './pages/operations';
import { OverviewPage } from './pages/overview';
import { TopicPage } from './pages/topic';
import { TopicsPage } from './pages/topics';
import { parts, place } from './router';
import { faultOf } from './search';

const schedulePages = lazy(() => import('./pages/schedule-pages'));
const groupPages = lazy(() => import('./pages/group-pages'));
const formPages = lazy(() => import('./pages/form-pages'));

/** A page of a part that loads when first shown. */
function partial<Part extends object>(load: () => Part | ApiError | undefined, show: (part: Part) => ComponentChildren): ComponentChildren {
  const part = load();
  if (part === undefined) return <Loading />;
  return part instanceof ApiError ? <ProblemNote error={part} /> : show(part);
}

/** The list of schedules, one schedule, or the form of a new or existing one. */
const schedulesPage = (path: string, name: string | undefined, form: boolean): ComponentChildren =>
  partial(schedulePages, ({ ScheduleFormPage, SchedulePage, SchedulesPage }) => {
    if (form) return <ScheduleFormPage name={name} key={path} />;
    return name ? <SchedulePage name={name} key={path} /> : <SchedulesPage />;
  });

/** The form of a new or existing topic. */
const topicForm = (path: string, topic?: string): ComponentChildren =>
  partial(formPages, ({ TopicFormPage }) => (topic === undefined ? <TopicFormPage key="new" /> : <TopicFormPage topic={topic} key={path} />));

/** The form of a new or existing alert rule. */
const alertForm = (path: string, rule?: string): ComponentChildren =>
  partial(formPages, ({ AlertFormPage }) => (rule === undefined ? <AlertFormPage key="new" /> : <AlertFormPage rule={rule} key={path} />));

/** The list of groups, or one group. */
const groupsPage = (name?: string): ComponentChildren =>
  partial(groupPages, ({ GroupPage, GroupsPage }) => (name ? <GroupPage name={name} key={name} /> : <GroupsPage />));

/** The list of inboxes, or one inbox. */
const inboxesPage = (name?: string): ComponentChildren =>
  partial(formPages, ({ InboxPage, InboxesPage }) => (name ? <InboxPage name={name} key={name} /> : <InboxesPage />));

/** The receivers of `duehook dev`. */
const sinksPage = (name: string | undefined): ComponentChildren => {
  if (!devClock.value) return <MissingPage />;
  return partial(formPages, ({ SinkPage, SinksPage }) => (name ? <SinkPage name={name} key={name} /> : <SinksPage />));
};

/** internal/node/dashboard serves the index at these paths. */
function page({ path, query }: { path: string; query: URLSearchParams }): ComponentChildren {
  const fault = faultOf(path, query);
  if (fault) return <WrongAddressPage fault={fault} />;
  const [first, second, third, ...rest] = parts(path) ?? ['?'];
  if (rest.length > 0) return <MissingPage />;
  if (first === 'topics' && second && third === 'edit') return topicForm(path, second);
  if (first === 'schedules' && second && (!third || third === 'edit')) return schedulesPage(path, second, third === 'edit');
  if (first === 'groups' && second && !third) return groupsPage(second);
  if (first === 'inboxes' && !third) return inboxesPage(second);
  if (first === 'alerts' && second && !third) return alertForm(path, second);
  if (first === 'sinks' && !third) return sinksPage(second);
  if (first === undefined) return restricted.value ? <JobsPage /> : <OverviewPage />;
  if (first === 'jobs' && second && third) return <JobPage topic={second} id={third} key={path} />;
  if (first === 'topics' && second && !third) return <TopicPage topic={second} key={path} />;
  if (second) return <MissingPage />;
  switch (first) {
    case 'jobs':
      return <JobsPage />;
    case 'topics':
      return query.has('new') ? topicForm(path) : <TopicsPage />;
    case 'schedules':
      return schedulesPage(path, second, query.has('new'));
    case 'groups':
      return groupsPage();
    case 'endpoints':
      return query.get('endpoint') ? <EndpointPage endpoint={query.get('endpoint') ?? ''} key={query.get('endpoint')} /> : <EndpointsPage />;
    case 'alerts':
      return query.has('new') ? alertForm(path) : <AlertsPage />;
    case 'dead':
      return <DeadPage />;
    case 'operations':
      return <OperationsPage />;
    case 'nodes':
      return partial(formPages, ({ NodesPage }) => <NodesPage />);
    case 'keys':
      return partial(formPages, ({ KeysPage }) => <KeysPage />);
    case 'register':
      return partial(formPages, ({ RegisterPage }) => <RegisterPage />);
    default:
      return <MissingPage />;
  }
}

/** Pages search by the server's time, so they wait for it. */
const learned = signal(false);

/** Loads the scope of the key and the server's clock. If this fails, the pages show why. */
async function learn(): Promise<void> {
  try {
    caller.value = await api.whoAmI();
    if (isDev.value) await readClock();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    caller.value = undefined;
  }
  learned.value = true;
}

export function App() {
  const { path, query } = place.value;
  const making = query.has('new');
  const main = useRef<HTMLElement>(null);
  const first = useRef(true);
  useEffect(() => void learn(), [key.value]);
  useEffect(() => {
    document.title = `${main.current?.querySelector('h1')?.textContent ?? ''} · duehook`;
  });
  // Screen readers and keyboards continue at the new page.
  useEffect(() => {
    const box = wantsSearch() && main.current?.querySelector<HTMLElement>('input[type=search]');
    if (box) box.focus();
    else if (!first.current) main.current?.focus({ preventScroll: true });
    first.current = false;
  }, [path, making]);
  return (
    <Shell>
      <main id="main" tabIndex={-1} ref={main}>
        {keyWanted.value ? <KeyForm why={keyWanted.value} /> : learned.value ? page(place.value) : <Loading />}
      </main>
    </Shell>
  );
}
