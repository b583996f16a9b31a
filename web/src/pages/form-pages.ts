/** The forms of jobs, topics and alert rules: one file of the build, loaded when first shown. */
export { AlertFormPage } from './alert-form';
export { RegisterPage } from './register';
export { TopicFormPage } from './topic-form';
