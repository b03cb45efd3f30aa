// Calls: those of now, and those that ended.

import { button, duration, el, heading, note, table } from './elements.js';
import { get } from './api.js';
import { Listing, tabbed } from './listing.js';

const userOf = (uri) => /^<?sips?:([^;?>]+)/i.exec(uri)?.[1] ?? uri;
const follow = (uri) => {
  const name = userOf(uri);
  return el('a', { class: 'button small', href: `#follow/${encodeURIComponent(name)}`, text: 'Follow', 'aria-label': `Follow ${name}`, 'data-key': `follow ${name}` });
};

function now() {
  return new Listing({
    path: '/api/calls', name: 'calls', noun: ['call', 'calls'], empty: 'There are no calls.',
    columns: [{ title: 'From', class: 'main' }, { title: 'To' }, { title: 'State' }, { title: 'Since', class: 'number' }, { title: 'Call-ID' }, { title: '', class: 'act' }],
    row: (call) => [call.from, call.to, el('span', { class: `pill ${call.state === 'answered' ? 'good' : 'wait'}`, text: call.state }),
      duration(call.answered_s ?? call.age_s), call.call_id, follow(call.to)],
  });
}

const clock = (text) => (text ? new Date(text).toLocaleString(undefined, { dateStyle: 'short', timeStyle: 'medium' }) : '–');

/** Ended calls that are shown. */
const SHOWN_MAX = 500;

/** Calls that ended, the last first. */
function ended() {
  const holder = el('div', { class: 'list' });
  const load = async () => {
    try {
      const { records } = await get('/api/records?limit=10000');
      const rows = records.slice(-SHOWN_MAX).reverse().map((record) => [clock(record.ended), record.from, record.to,
        el('span', { class: `pill ${record.status >= 200 && record.status < 300 ? 'good' : 'bad'}`, text: record.status ? `${record.status}` : 'none' }), record.reason,
        record.duration_s === undefined ? '–' : duration(record.duration_s), record.diverted ?? record.target ?? '–', record.call_id]);
      const columns = [{ title: 'Ended' }, { title: 'From', class: 'main' }, { title: 'To' }, { title: 'Status' }, { title: 'Reason' },
        { title: 'Talk', class: 'number' }, { title: 'Sent to' }, { title: 'Call-ID' }];
      holder.replaceChildren(rows.length ? table('Ended calls', columns, rows) : note('No call has ended yet, or this server does not record calls.'));
    } catch (error) {
      const isAbsent = error.status === 404;
      holder.replaceChildren(note(isAbsent ? 'Not available: this server keeps no call records. docs/recipes/call-records.md says how to switch them on.' : error.message, isAbsent ? '' : 'bad'));
    }
  };
  return { element: el('div', {}, el('div', { class: 'tools' }, button('Refresh', load)), holder), load, stop: () => {} };
}

export function calls() {
  const tabs = tabbed([['Now', now], ['Ended', ended]]);
  const tick = () => {
    const shown = tabs.current();
    if (shown instanceof Listing && shown.cursors.length === 1) shown.load();
  };
  return { element: el('div', {}, heading('Calls'), tabs.element), tick, stop: tabs.stop };
}
