// Overview: figures of the server as plots.

import { get } from './api.js';
import { bytes, count, duration, el, heading, value } from './elements.js';
import { POINTS_MAX, Plot } from './plot.js';

const METHODS = ['register', 'invite', 'ack', 'bye', 'cancel', 'options', 'message', 'events', 'other'];
const METHOD_NAMES = ['REGISTER', 'INVITE', 'ACK', 'BYE', 'CANCEL', 'OPTIONS', 'MESSAGE', 'events', 'other'];
const CLASSES = ['1xx', '2xx', '3xx', '4xx', '5xx', '6xx'];

/** Answers of `/api/stats` of the last minutes, with the time of each in seconds. */
const history = [];

export function remember(stats) {
  history.push({ at: performance.now() / 1000, stats });
  if (history.length > POINTS_MAX + 1) history.shift();
}

const latest = () => history[history.length - 1]?.stats ?? {};

/** Growth of a counter in a second; a restart of the server begins again at 0. */
function rate(now, before, name) {
  const grown = (now.stats[name] ?? 0) - (before.stats[name] ?? 0);
  return grown < 0 ? NaN : grown / (now.at - before.at);
}

/** Upper bound in milliseconds of the share `share` of the turns between two answers. */
function quantile(now, before, share) {
  const prefix = 'turn_seconds_bucket.';
  const buckets = Object.keys(now.stats)
    .filter((name) => name.startsWith(prefix))
    .map((name) => [name.endsWith('Inf') ? Infinity : Number(name.slice(prefix.length)), now.stats[name] - (before.stats[name] ?? 0)])
    .sort(([a], [b]) => a - b);
  const all = buckets.length ? buckets[buckets.length - 1][1] : 0;
  if (all <= 0) return NaN;
  const index = buckets.findIndex(([, turns]) => turns >= share * all);
  const [bound, turns] = buckets[index];
  const [last, less] = index > 0 ? buckets[index - 1] : [0, 0];
  if (!Number.isFinite(bound)) return last * 1000;
  return 1000 * (last + (bound - last) * ((share * all - less) / Math.max(1, turns - less)));
}

const PLOTS = [
  ['Requests received', 'per second', METHOD_NAMES, (now, before) => METHODS.map((name) => rate(now, before, `requests_${name}`))],
  ['Responses sent', 'per second', CLASSES, (now, before) => CLASSES.map((name) => rate(now, before, `sent_${name}`))],
  ['Response time', 'ms, a worker’s turn', ['median', '99th percentile'], (now, before) => [0.5, 0.99].map((share) => quantile(now, before, share)),
    'Half of the turns took at most the median, 99 % of them at most the 99th percentile.'],
  ['Registrations', 'contacts', ['contacts', 'users'], ({ stats }) => [stats.bindings, stats.users_registered]],
  ['Under way', 'requests', ['forwarded', 'server transactions', 'client transactions'],
    ({ stats }) => [stats.requests_forwarding, stats.server_transactions, stats.client_transactions]],
  ['Connections', 'open', ['streams', 'DTLS'], ({ stats }) => [stats.connections_open, stats.associations_open]],
  ['Processor', '% of a core', [''], (now, before) => [100 * rate(now, before, 'cpu_seconds')]],
  ['Traffic', 'KiB per second', ['received', 'sent'],
    (now, before) => ['in', 'out'].map((way) => (rate(now, before, `datagram_bytes_${way}`) + rate(now, before, `stream_bytes_${way}`)) / 1024)],
  ['Memory', 'MiB', ['in use', 'reserved by requests'], ({ stats }) => [stats.resident_bytes / 2 ** 20, stats.reserved_bytes / 2 ** 20]],
];

const tile = (name, shown, of) =>
  el('div', { class: 'tile' }, el('dt', { text: name }), el('dd', {}, shown, of ? el('span', { class: 'of', text: ` ${of}` }) : null));

function tiles() {
  const stats = latest();
  return [
    tile('Users registered', count(stats.users_registered), `of ${count(stats.subscribers)}`),
    tile('Contacts', count(stats.bindings)),
    // Calls are counted only where they are recorded.
    stats.calls_open > 0 ? tile('Calls now', count(stats.calls_open)) : tile('Requests under way', count(stats.requests_forwarding)),
    tile('Connections', count((stats.connections_open ?? 0) + (stats.associations_open ?? 0))),
    tile('Memory', bytes(stats.resident_bytes ?? 0)),
    tile('Up', duration(stats.uptime_s ?? 0)),
  ];
}

/** Time of the epoch's second `seconds`, as `2026-05-01 12:00:00 UTC`. */
const moment = (seconds) => `${new Date(1000 * seconds).toISOString().slice(0, 19).replace('T', ' ')} UTC`;

/** State of the database of users; undefined without one. */
function database() {
  const { provisioning_connected: isConnected, provisioning_reached_seconds: reached } = latest();
  if (isConnected === undefined) return undefined;
  return `${isConnected ? 'connected' : 'not reached'}, ${reached ? `last read ${moment(reached)}` : 'not read since the start'}`;
}

/** Figures that are 0 while what their name ends in is down, with the words for one and for several. */
const PEERS = [['trunk_up.', 'Trunk', 'Trunks'], ['node_up.', 'Node', 'Nodes'], ['neighbour_up.', 'Neighbour', 'Neighbours'], ['relay_up.', 'Media relay', 'Media relays']];

/** Names in a line. */
const NAMES_MAX = 10;

/** A line for each kind of servers of which some are down. */
function peersDown(stats) {
  return PEERS.flatMap(([prefix, one, several]) => {
    const names = Object.keys(stats).filter((name) => name.startsWith(prefix) && stats[name] === 0).map((name) => name.slice(prefix.length))
      // The nodes behind a front are its trunks, too.
      .filter((name) => prefix !== 'trunk_up.' || stats[`node_up.${name}`] === undefined);
    // One more than the first 1,000 may be down, without a figure of its own.
    const further = prefix === 'trunk_up.' ? Math.max(0, (stats.trunks_unavailable ?? 0) - Object.keys(stats).filter((name) => name.startsWith(prefix) && stats[name] === 0).length) : 0;
    const left = names.length + further - Math.min(names.length, NAMES_MAX);
    const all = `${names.slice(0, NAMES_MAX).join(', ')}${left ? ` and ${left} more` : ''}`;
    return names.length + further ? [`${names.length + further === 1 && names.length ? `${one} ${names[0]} is` : names.length ? `${several} ${all} are` : `${further} of the ${several.toLowerCase()} are`} down.`] : [];
  });
}

function alarms() {
  const stats = latest();
  const lines = [];
  if (stats.store_failed) lines.push('Registrations cannot be written to the disk: see the log for the reason.');
  lines.push(...peersDown(stats));
  if (stats.provisioning_connected === 0) {
    const reached = stats.provisioning_reached_seconds ? `since ${moment(stats.provisioning_reached_seconds)}` : 'since the start of the server';
    lines.push(`The database of users has not been reached ${reached}; users are served from the copy.`);
  }
  if (stats.write_back_connected === 0) lines.push('Registrations are not written into the database: see the log for the reason.');
  if (stats.location_connected === 0) lines.push('The store of registrations is not reached: this node serves what it has.');
  if (stats.tls_certificate_expires_s < 7 * 86400) lines.push(`A certificate expires in ${duration(stats.tls_certificate_expires_s)}.`);
  return lines.map((text) => el('p', { class: 'note bad', text }));
}

export function overview() {
  const plots = PLOTS.map(([title, unit, names, values, explanation]) => [new Plot(title, unit, names, explanation), values]);
  const alarm = el('div', { role: 'alert' });
  const row = el('dl', { class: 'tiles' });
  const facts = el('dl', { class: 'facts' });
  const databaseRow = [el('dt', { text: 'Database' }), el('dd')];
  const redraw = () => {
    row.replaceChildren(...tiles());
    const lines = alarms();
    if (lines.length || alarm.children.length) alarm.replaceChildren(...lines);
    const state = database();
    databaseRow.forEach((each) => { each.hidden = state === undefined; });
    if (databaseRow[1].textContent !== (state ?? '')) databaseRow[1].replaceChildren(state ?? '');
    for (const [plot, values] of plots) {
      plot.draw(history.slice(1).map((now, index) => ({ at: now.at, values: values(now, history[index]) })));
    }
  };
  get('/api/server').then((server) => {
    const fact = (name, texts) => [el('dt', { text: name }), el('dd', {}, texts.map((text) => value(text, 'div')))];
    facts.replaceChildren(
      ...fact('Version', [server.version]),
      ...fact('Domains', server.domains),
      ...fact('Listeners', server.listeners),
      ...fact('Worker threads', [server.workers]),
      ...fact('Configuration', [server.file ?? 'defaults, no file']), ...databaseRow);
  }).catch(() => {});
  redraw();
  return {
    element: el('div', {}, heading('Overview'), alarm, row,
      el('div', { class: 'plots' }, plots.map(([plot]) => plot.element)),
      el('section', { class: 'panel' }, el('h2', { text: 'Server' }), facts)),
    tick: redraw,
  };
}
