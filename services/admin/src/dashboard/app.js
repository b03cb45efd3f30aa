// The dashboard: pages by the address's hash, login, theme, and the figures of every two seconds.

import { get, hasToken, setToken, whenUnauthorized } from './api.js';
import { calls } from './calls.js';
import { configuration } from './configuration.js';
import { connections } from './connections.js';
import { note, visible } from './elements.js';
import { follow } from './follow.js';
import { blocks, limits } from './limits.js';
import { nodes } from './nodes.js';
import { overview, remember } from './overview.js';
import { routes } from './routes.js';
import { user, users } from './users.js';

const INTERVAL_MS = 2000;
const element = (id) => document.getElementById(id);
let page;
let figures = {};

const PAGES = {
  overview, calls, connections, configuration, blocks, follow, nodes, routes,
  users: (name) => (name ? user(name) : users()),
  limits: () => limits(() => figures),
};

function show() {
  const [name, ...rest] = location.hash.slice(1).split('/');
  const make = PAGES[name] && Object.hasOwn(PAGES, name) ? PAGES[name] : overview;
  page?.stop?.();
  let argument;
  try {
    argument = rest.length ? decodeURIComponent(rest.join('/')) : undefined;
  } catch {
    argument = undefined;
  }
  page = make(argument);
  element('main').replaceChildren(page.element);
  const current = make === overview ? 'overview' : name;
  for (const link of document.querySelectorAll('nav.side a')) {
    if (link.hash === `#${current}`) {
      link.setAttribute('aria-current', 'page');
      link.scrollIntoView({ block: 'nearest', inline: 'nearest' });
    } else link.removeAttribute('aria-current');
  }
  const title = element('main').querySelector('h1')?.textContent ?? '';
  document.title = title ? `${title} – Ringway` : 'Ringway';
}

function say(text, kind) {
  const state = element('state');
  if (state.textContent !== text) state.textContent = text;
  state.className = `state ${kind}`;
}

/** Asks for the figures, unless the page is hidden or nobody is logged in. */
async function poll() {
  if (!document.hidden && !element('login').open) {
    try {
      figures = await get('/api/stats');
      remember(figures);
      say('live', 'good');
      if (page) page.tick?.();
      else start();
    } catch (error) {
      say(error.status === 401 ? 'logged out' : 'no answer', 'bad');
    }
  }
  setTimeout(poll, INTERVAL_MS);
}

function askForToken() {
  const dialog = element('login');
  element('logout').hidden = true;
  if (dialog.open) return;
  element('login-error').textContent = hasToken() ? 'The token is not the one of this server.' : '';
  dialog.showModal();
}

function start() {
  element('logout').hidden = !hasToken();
  show();
}

element('login').addEventListener('cancel', (event) => event.preventDefault());
element('login').querySelector('form').addEventListener('submit', async (event) => {
  event.preventDefault();
  const token = element('token').value.trim();
  // A header has characters of Latin-1 only.
  if (!/^[\x21-\xff]+$/.test(token)) {
    element('login-error').textContent = 'A token has no such characters.';
    return;
  }
  setToken(token);
  try {
    figures = await get('/api/stats');
    remember(figures);
    element('token').value = '';
    element('login').close();
    say('live', 'good');
    start();
  } catch (error) {
    element('login-error').textContent = error.status === 401 ? 'The token is not the one of this server.' : visible(error.message);
  }
});
element('logout').addEventListener('click', () => {
  setToken('');
  page?.stop?.();
  page = undefined;
  element('main').replaceChildren(note('Logged out.'));
  askForToken();
});
element('skip').addEventListener('click', (event) => {
  event.preventDefault();
  element('main').focus();
});

const THEMES = ['auto', 'light', 'dark'];
function setTheme(theme) {
  if (theme === 'auto') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  element('theme').textContent = `Theme: ${theme}`;
  localStorage.setItem('ringway-theme', theme);
}
const stored = localStorage.getItem('ringway-theme');
setTheme(THEMES.includes(stored) ? stored : 'auto');
element('theme').addEventListener('click', () => {
  const current = THEMES.indexOf(localStorage.getItem('ringway-theme'));
  setTheme(THEMES[(current + 1) % THEMES.length]);
});

element('host').textContent = location.host;
whenUnauthorized(askForToken);
addEventListener('hashchange', () => {
  show();
  element('main').focus({ preventScroll: true });
  scrollTo(0, 0);
});
try {
  figures = await get('/api/stats');
  remember(figures);
  say('live', 'good');
  start();
} catch (error) {
  say(error.status === 401 ? 'log in' : 'no answer', error.status === 401 ? '' : 'bad');
  if (error.status !== 401) element('main').replaceChildren(note(error.message, 'bad'));
}
setTimeout(poll, INTERVAL_MS);
