// Configuration in force, and its reload.

import { get, request } from './api.js';
import { button, confirm, count, el, heading, note, table, toast, value, visible } from './elements.js';

/** Rows that a table of keys shows; a list of numbers has a hundred thousand. */
const ROWS_MAX = 500;

/** Table of keys with a note about those that it does not show; `row` makes the cells of an item. */
export function keyTable(caption, columns, items, row) {
  const made = table(caption, columns, items.slice(0, ROWS_MAX).map(row));
  return items.length > ROWS_MAX ? [made, note(`${count(items.length - ROWS_MAX)} more keys are not shown.`)] : [made];
}

/** What a reload would change, or has changed; `title` is that of the new values, `same` is shown without changes. */
export function difference(report, { title = 'In the file', same = 'The file says what is in force.' } = {}) {
  const changes = report.changes ?? [];
  const row = (change) => [el('code', { class: 'v', text: change.key }), change.old ?? '–', change.new ?? '–',
    report.restart?.includes(change.key) ? el('span', { class: 'pill bad', text: 'needs a restart' }) : ''];
  return [
    ...(report.errors ?? []).map((text) => note(text, 'bad')),
    ...(report.warnings ?? []).map((text) => note(text)),
    ...(changes.length
      ? keyTable('Changes', [{ title: 'Key', class: 'main' }, { title: 'In force' }, { title }, { title: '' }], changes, row)
      : report.errors?.length ? [] : [note(same)]),
  ];
}

export function configuration() {
  const filter = el('input', { type: 'search', placeholder: 'Search keys', 'aria-label': 'Search keys', maxlength: '100' });
  const keys = el('div', { class: 'list' });
  const source = el('p', { class: 'faint' });
  const report = el('div');
  let shown = {};
  const draw = () => {
    const text = filter.value.trim().toLowerCase();
    const found = Object.entries(shown).filter(([key, text2]) => `${key} ${text2}`.toLowerCase().includes(text));
    const rows = found.map(([key, text2]) => [el('code', { class: 'v', text: key }), text2 === 'unset' ? el('span', { class: 'faint', text: 'unset' }) : value(text2)]);
    keys.replaceChildren(rows.length ? table('Keys', [{ title: 'Key', class: 'main' }, { title: 'Value', class: 'wrap' }], rows) : note('No key has this text.'));
  };
  const load = async () => {
    try {
      const answer = await get('/api/config');
      shown = answer.keys;
      source.textContent = answer.file ? `From ${visible(answer.file)}; a value that the file does not have is the default.` : 'The server runs without a file: all are defaults.';
      draw();
    } catch (error) {
      keys.replaceChildren(note(error.message, 'bad'));
    }
  };
  const run = async (path) => {
    try {
      return await request('POST', path);
    } catch (error) {
      return error.body?.errors ? error.body : { errors: [error.message], changes: [] };
    }
  };
  const apply = button('Reload', async () => {
    const title = 'Reload the configuration?';
    if (!(await confirm(title, 'The changes below come into force; calls and registrations go on.', 'Reload'))) return;
    const answer = await run('/api/reload');
    report.replaceChildren(...difference(answer));
    if (answer.applied) toast('The configuration was reloaded');
    apply.disabled = true;
    load();
  }, 'primary');
  apply.disabled = true;
  const compare = button('Compare with the file', async () => {
    const answer = await run('/api/reload?dry_run=true');
    apply.disabled = !answer.ok;
    report.replaceChildren(...difference(answer));
  });
  filter.addEventListener('input', draw);
  load();
  return {
    element: el('div', {}, heading('Configuration'),
      el('section', { class: 'panel' }, el('h2', { text: 'Reload' }),
        el('p', { text: 'First compare: the difference is shown, and a file with an error is refused as a whole. Then reload.' }),
        el('div', { class: 'tools' }, compare, apply), report),
      el('section', {}, el('h2', { text: 'In force' }), source, el('div', { class: 'tools', role: 'search' }, filter), keys)),
  };
}
