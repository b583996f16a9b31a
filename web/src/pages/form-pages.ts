/** Forms, and pages that few people open: one file of the build, loaded when first shown. */
export { AlertFormPage } from './alert-form';
export { InboxPage, InboxesPage } from './inboxes';
export { KeysPage } from './keys';
export { NodesPage } from './nodes';
export { RegisterPage } from './register';
export { SinkPage, SinksPage } from './sinks';
export { TopicFormPage } from './topic-form';
