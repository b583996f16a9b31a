/** All pages of schedules: one file of the build, loaded when first shown. */
export { SchedulePage } from './schedule';
export { ScheduleFormPage } from './schedule-form';
export { SchedulesPage } from './schedules';
