// Connections: list, search, end of one.

import { request } from './api.js';
import { button, confirm, duration, el, heading, toast } from './elements.js';
import { Listing } from './listing.js';

async function drop(connection, done) {
  const name = `${connection.transport} ${connection.address}`;
  const text = 'Contacts that only this connection reaches are removed, and requests under way on it fail. The phone may connect again at once; to keep it out, block its network.';
  if (!(await confirm(`Drop the connection ${name}?`, text, 'Drop'))) return;
  try {
    await request('DELETE', `/api/connections/${encodeURIComponent(connection.id)}`);
    toast(`Connection ${name} dropped`);
  } catch (error) {
    toast(error.message, 'bad');
  }
  // Its worker closes it in its next turn.
  setTimeout(done, 200);
}

export function connections() {
  const listing = new Listing({
    path: '/api/connections', name: 'connections', noun: ['connection', 'connections'], searchLabel: 'Search addresses',
    empty: 'There are no connections. Phones over UDP have none.',
    columns: [{ title: 'Transport' }, { title: 'Peer', class: 'main' }, { title: 'Local address' }, { title: 'Neighbour' },
      { title: 'Open for', class: 'number' }, { title: '', class: 'act' }],
    row: (connection, reload) => {
      const act = button('Drop', () => drop(connection, reload), 'danger small');
      act.setAttribute('aria-label', `Drop ${connection.transport} ${connection.address}`);
      act.dataset.key = `drop ${connection.id}`;
      return [connection.transport, connection.address, connection.local, connection.neighbour ?? '–', duration(connection.age_s), act];
    },
  });
  listing.load();
  return { element: el('div', {}, heading('Connections'), listing.element), stop: () => listing.stop() };
}
