// Nodes: those that share registrations, and the store that they share.

import { count, duration, el, heading, note, showTable, table, value } from './elements.js';
import { get } from './api.js';

const KINDS = { up: 'good', down: 'bad', gone: 'bad', draining: 'wait', 'name-taken': 'bad', warming: 'wait' };
const pill = (state) => el('span', { class: `pill ${KINDS[state] ?? ''}`, text: state });

export function nodes() {
  const store = el('dl', { class: 'facts' });
  const holder = el('div', { class: 'list' });
  const load = async () => {
    try {
      const cluster = await get('/api/cluster');
      if (!cluster.node) {
        store.replaceChildren(value('This server shares its registrations with no other: [location] url is "local:". docs/recipes/scale.md says how to run several.', 'dd'));
        return;
      }
      const { url, kind, state, lag_ms: lag, waiting, error } = cluster.store;
      const fact = (name, text) => [el('dt', { text: name }), el('dd', {}, text instanceof Node ? text : value(text, 'div'))];
      store.replaceChildren(...fact('Store', `${url} (${kind})`), ...fact('State', pill(state)), ...fact('Lag', `${count(lag)} ms`),
        ...fact('Changes that wait', count(waiting)), ...(error ? fact('Last error', error) : []));
      const rows = cluster.nodes.map((node) => [node.name === cluster.node ? `${node.name} (this node)` : node.name, pill(node.state),
        node.link === '-' ? '–' : pill(node.link), node.address, `${duration(node.seen_s)} ago`, `${node.version}`]);
      const columns = [{ title: 'Node', class: 'main' }, { title: 'State' }, { title: 'Link' }, { title: 'Address' }, { title: 'Seen' }, { title: 'Protocol', class: 'number' }];
      showTable(holder, table('Nodes', columns, rows));
    } catch (error) {
      store.replaceChildren();
      holder.replaceChildren(note(error.message, 'bad'));
    }
  };
  load();
  return { element: el('div', {}, heading('Nodes'), el('section', { class: 'panel' }, store), holder), tick: load };
}
