// Limits that were hit, with the reason of each, and the block list.

import { request } from './api.js';
import { button, confirm, count, duration, el, heading, note, showTable, table, toast, visible } from './elements.js';
import { Listing } from './listing.js';
import { REASONS } from './reasons.js';

/** Counters of `REASONS` with their values, those that were hit first. */
function rows(stats, before, isAll) {
  return REASONS
    .map(([counter, limit, effect]) => ({ counter, limit, effect, hits: stats[counter] ?? 0, grown: (stats[counter] ?? 0) - (before[counter] ?? 0) }))
    .filter(({ hits }) => isAll || hits > 0)
    .sort((a, b) => b.grown - a.grown || b.hits - a.hits)
    .map(({ counter, limit, effect, hits, grown }) => [
      el('span', { class: hits ? 'hit-count' : 'faint', text: count(hits) }), grown > 0 ? `+${count(grown)}` : '–', limit, effect, el('code', { text: counter })]);
}

export function limits(latest) {
  const begun = { ...latest() };
  const all = el('input', { type: 'checkbox', id: 'all-limits' });
  const holder = el('div', { class: 'list' });
  const columns = [{ title: 'Since the start', class: 'number' }, { title: 'While shown', class: 'number' }, { title: 'Limit', class: 'main wrap' },
    { title: 'Effect for the peer', class: 'wrap' }, { title: 'Counter' }];
  const redraw = () => {
    const shown = rows(latest(), begun, all.checked);
    if (shown.length) showTable(holder, table('Limits', columns, shown));
    else holder.replaceChildren(note('No limit was hit since the start.', 'good'));
  };
  all.addEventListener('change', redraw);
  redraw();
  return {
    element: el('div', {}, heading('Limits hit'),
      el('div', { class: 'tools' }, all, el('label', { for: 'all-limits', text: 'Also those that were not hit' })), holder),
    tick: redraw,
  };
}

async function unblock(block, done) {
  if (!(await confirm(`Remove the entry ${block.pattern}?`, 'It may call again at once.', 'Remove'))) return;
  try {
    await request('DELETE', `/api/blocks/${block.id}`);
    toast(`${block.pattern} is not blocked any more`);
  } catch (error) {
    toast(error.message, 'bad');
  }
  done();
}

function blockForm(done) {
  const input = (id, attributes) => el('input', { id, type: 'text', spellcheck: 'false', ...attributes });
  const kind = el('select', { id: 'block-kind' }, el('option', { value: 'caller', text: 'Caller' }), el('option', { value: 'network', text: 'Network' }));
  const pattern = input('block-pattern', { required: true, maxlength: '255', placeholder: '*@spam.example or 192.0.2.0/24' });
  const user = input('block-user', { maxlength: '255', placeholder: 'all users' });
  const hours = input('block-hours', { type: 'number', min: '1', max: '87600', placeholder: 'for ever' });
  const reason = input('block-reason', { maxlength: '200' });
  const problem = el('p', { class: 'error', role: 'alert' });
  const add = async (event) => {
    event.preventDefault();
    problem.textContent = '';
    const body = { [kind.value]: pattern.value.trim(), reason: reason.value.trim() };
    if (user.value.trim()) body.user = user.value.trim();
    if (hours.value) body.hours = Number(hours.value);
    try {
      const answer = await request('POST', '/api/blocks', { body });
      toast(`${answer.pattern} is blocked`);
      pattern.value = '';
      done();
    } catch (error) {
      problem.textContent = visible(error.message);
    }
  };
  const field = (label, made) => el('div', { class: 'field' }, el('label', { for: made.id, text: label }), made);
  return el('form', { class: 'fields', on: { submit: add } },
    field('What', kind), field('Pattern', pattern), field('Whose list', user), field('Hours', hours), field('Reason', reason), problem,
    el('div', { class: 'buttons' }, el('button', { type: 'submit', class: 'primary', text: 'Block' })));
}

export function blocks() {
  const listing = new Listing({
    path: '/api/blocks', name: 'blocks', noun: ['entry', 'entries'], empty: 'Nobody is blocked.',
    columns: [{ title: 'Kind' }, { title: 'Pattern', class: 'main' }, { title: 'Whose list' }, { title: 'Left', class: 'number' },
      { title: 'Reason' }, { title: '', class: 'act' }],
    row: (block, reload) => {
      const act = button('Remove', () => unblock(block, reload), 'small');
      act.setAttribute('aria-label', `Remove ${block.pattern}`);
      act.dataset.key = `block ${block.id}`;
      return [block.kind, block.pattern, block.user ?? 'all users', block.expires_s === null ? 'for ever' : duration(block.expires_s), block.reason || '–', act];
    },
  });
  listing.load();
  return {
    element: el('div', {}, heading('Block list'), listing.element,
      el('section', { class: 'panel' }, el('h2', { text: 'Block a caller or a network' }), blockForm(() => listing.load()))),
    stop: () => listing.stop(),
  };
}

