// Trunks, routes and destination rules: what is in force, and the text of their sections in the configuration file.

import { get, request } from './api.js';
import { difference, keyTable } from './configuration.js';
import { button, confirm, el, heading, note, toast, value, visible } from './elements.js';
import { Listing } from './listing.js';

const STATES = { up: 'good', down: 'bad', silent: 'wait', busy: 'wait', unknown: '' };

function trunks() {
  return new Listing({
    path: '/api/trunks', name: 'trunks', noun: ['trunk', 'trunks'], empty: 'There are no trunks in force.', searchLabel: 'Name, URI or state',
    columns: [{ title: 'Trunk', class: 'main' }, { title: 'URI' }, { title: 'State' }, { title: 'Calls', class: 'number' },
      { title: 'Logins refused', class: 'number' }],
    row: (trunk) => [trunk.name, trunk.uri, el('span', { class: `pill ${STATES[trunk.state] ?? ''}`, text: trunk.state }), String(trunk.calls),
      String(trunk.logins_refused ?? 0)],
  });
}

/** Selects a line of the text, so that it is seen and spoken. */
function select(area, line) {
  const lines = area.value.split('\n');
  const start = lines.slice(0, line - 1).reduce((sum, text) => sum + text.length + 1, 0);
  area.focus();
  area.setSelectionRange(start, start + (lines[line - 1] ?? '').length);
  area.scrollTop = Math.max(0, (line - 4) * (parseFloat(getComputedStyle(area).lineHeight) || 18));
}

/** Height of the text in lines; a longer one scrolls. */
const ROWS_MIN = 11;
const ROWS_MAX = 30;
const EXAMPLE = '[[trunk]]\nname = "carrier"\nuri = "sip:sip.carrier.example;transport=tls"\n\n[[route]]\nprefix = "0"\nto = ["carrier"]\nstrip = 1\nadd = "+49"\n';

export function routes() {
  const area = el('textarea', { id: 'routes-text', class: 'code', rows: String(ROWS_MIN), spellcheck: 'false', autocapitalize: 'off', autocomplete: 'off', wrap: 'off',
    'aria-describedby': 'routes-help', placeholder: EXAMPLE });
  const source = el('p', { class: 'faint' });
  const secrets = el('span', { text: '(secret 1) is a secret that stays; write another value over it to change it. ', hidden: true });
  const keys = el('div', { class: 'list' });
  const report = el('div', { role: 'status' });
  const list = trunks();
  let loaded;
  let compared;

  const stop = (text) => {
    area.disabled = true;
    [preview, undo].forEach((each) => { each.disabled = true; });
    report.replaceChildren(note(text, 'bad'));
  };
  const changed = () => {
    save.disabled = !loaded || loaded.read_only !== null || compared !== area.value;
    undo.disabled = !loaded || area.value === loaded.text;
    area.rows = Math.min(ROWS_MAX, Math.max(ROWS_MIN, area.value.split('\n').length + 1));
  };
  const showForce = () => {
    const set = Object.entries(loaded.in_force).filter(([, text]) => text !== 'unset');
    const row = ([key, text]) => [el('code', { class: 'v', text: key }), value(text)];
    keys.replaceChildren(...(set.length ? keyTable('In force', [{ title: 'Key', class: 'main' }, { title: 'Value', class: 'wrap' }], set, row)
      : [note('No trunk, no route and no destination rule is in force.')]));
  };
  const load = async (keep) => {
    try {
      loaded = await get('/api/routes');
    } catch (error) {
      stop(error.message);
      return;
    }
    if (!keep) area.value = loaded.text;
    secrets.hidden = !loaded.text.includes('"(secret ');
    compared = undefined;
    source.textContent = `From ${visible(loaded.file)}`;
    if (loaded.read_only !== null) report.replaceChildren(note(`It can be compared, but not saved: ${loaded.read_only}`, 'bad'));
    showForce();
    changed();
  };
  const send = async (path) => {
    try {
      return await request('PUT', path, { body: { text: area.value, version: loaded.version } });
    } catch (error) {
      if (error.status !== 412) return error.body?.errors ? error.body : { errors: [error.message], changes: [] };
      report.replaceChildren(note('The file changed meanwhile. Your text is kept: compare it with the new file, or undo it.', 'bad'));
      await load(true);
      return undefined;
    }
  };
  const show = (answer) => {
    report.replaceChildren(...difference(answer, { title: answer.applied ? 'Now' : 'New', same: 'The text says what is in force.' }));
    const line = answer.lines?.find((each) => each !== null);
    if (line) select(area, line);
  };
  const preview = button('Preview', async () => {
    const text = area.value;
    const answer = await send('/api/routes?dry_run=true');
    if (!answer) return;
    compared = answer.ok ? text : undefined;
    show(answer);
    changed();
  });
  const save = button('Save and reload', async () => {
    const title = 'Save the routes?';
    if (!(await confirm(title, 'The configuration file is replaced and reloaded; the changes below come into force. Calls go on. The old file is kept beside it as .before.', 'Save'))) return;
    const answer = await send('/api/routes');
    if (!answer) return;
    show(answer);
    if (!answer.applied) return;
    toast('The routes were saved and are in force');
    await load();
    list.load();
    area.focus();
  }, 'primary');
  const undo = button('Undo changes', () => {
    area.value = loaded.text;
    report.replaceChildren();
    changed();
    area.focus();
  });
  [preview, save, undo].forEach((each, index) => { each.dataset.key = ['preview', 'save', 'undo'][index]; });
  save.disabled = true;
  undo.disabled = true;
  area.addEventListener('input', changed);
  load();
  list.load();
  return {
    stop: () => list.stop(),
    element: el('div', {}, heading('Routes'),
      el('section', { class: 'panel' }, el('h2', {}, el('label', { for: 'routes-text', text: 'Trunks, routes and destination rules' })), source,
        el('p', { id: 'routes-help' }, 'The sections [[trunk]], [[route]] and [[destination]] of the configuration file, with their comments. ', secrets,
          'First preview: the difference is shown. Then save.'),
        area, el('div', { class: 'tools' }, preview, save, undo), report),
      el('section', {}, el('h2', { text: 'Trunks' }), list.element),
      el('section', {}, el('h2', { text: 'In force' }), keys)),
  };
}
