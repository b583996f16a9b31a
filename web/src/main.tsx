import { render } from 'preact';
import { App } from './app';
import { start as startDev } from './dev';
import { start as startKeyboard } from './keyboard';
import { start as startLive } from './live';
import { start as startRouter } from './router';
import { start as startSettings } from './settings';
import { start as startTexts } from './text';
import './style/base.css';
import './style/parts.css';
import './style/pages.css';

startSettings();
startRouter();
startLive();
startDev();
startKeyboard();
await startTexts();
render(<App />, document.body);
