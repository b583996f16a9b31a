/** All pages of groups: one file of the build, loaded when first shown. */
export { GroupPage } from './group';
export { GroupsPage } from './groups';
