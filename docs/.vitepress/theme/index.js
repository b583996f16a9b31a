/** The default theme, and diagrams. */
import DefaultTheme from 'vitepress/theme';
import { Diagram } from './diagram.js';
import './style.css';

export default { extends: DefaultTheme, enhanceApp: ({ app }) => app.component('Diagram', Diagram) };
