// Follow: the messages of a user as a ladder, with the decisions of the server, while they happen.

import { get, query } from './api.js';
import { button, el, heading, note, visible } from './elements.js';

const NS = 'http://www.w3.org/2000/svg';
const [ROW, LANE, MARGIN, TIME] = [40, 250, 130, 96];
/** Messages that are kept, and columns of the ladder. */
const [ENTRIES_MAX, LANES_MAX] = [400, 5];
const ATTEMPTS_MAX = 5;

function svg(name, attributes, text) {
  const element = document.createElementNS(NS, name);
  for (const [key, content] of Object.entries(attributes)) element.setAttribute(key, content);
  if (text !== undefined) element.textContent = text;
  return element;
}

const cut = (text, most) => {
  const shown = visible(text);
  return shown.length > most ? `${shown.slice(0, most - 1)}…` : shown;
};
const clock = (text) => /T(\d\d:\d\d:\d\d\.\d{3})/.exec(text)?.[1] ?? text;

/** Draws entries; the server's lane is the first, each flow has one. */
function ladder(entries, choose) {
  const flows = [...new Set(entries.filter((entry) => entry.kind !== 'decision').map((entry) => entry.flow))].slice(0, LANES_MAX);
  const x = (flow) => TIME + MARGIN + LANE * (1 + Math.max(0, flows.indexOf(flow)));
  const server = TIME + MARGIN;
  const [width, height] = [TIME + 2 * MARGIN + LANE * Math.max(1, flows.length), 56 + ROW * entries.length];
  const drawing = svg('svg', { width, height, viewBox: `0 0 ${width} ${height}`, class: 'ladder', role: 'img', 'aria-label': `${entries.length} messages and decisions` });
  const defs = svg('defs', {});
  const marker = svg('marker', { id: 'arrow', viewBox: '0 0 8 8', refX: 7, refY: 4, markerWidth: 8, markerHeight: 8, orient: 'auto-start-reverse' });
  marker.append(svg('path', { d: 'M0 0 8 4 0 8z', class: 'head' }));
  defs.append(marker);
  drawing.append(defs);
  for (const [at, name] of [[server, 'Ringway'], ...flows.map((flow) => [x(flow), flow])]) {
    drawing.append(svg('line', { class: 'lane', x1: at, x2: at, y1: 30, y2: height }));
    drawing.append(svg('text', { class: 'lane-name', x: at, y: 20, 'text-anchor': 'middle' }, cut(name, 32)));
  }
  entries.forEach((entry, index) => {
    const y = 62 + ROW * index;
    const group = svg('g', { class: `entry ${entry.kind}`, tabindex: 0, role: 'button' });
    group.append(svg('rect', { class: 'hit', x: 0, y: y - 26, width, height: ROW - 2 }));
    group.append(svg('text', { class: 'time', x: 4, y: y - 4 }, clock(entry.time)));
    if (entry.kind === 'decision') {
      const text = cut(`${entry.text ?? ''}${entry.reason ? `: ${entry.reason}` : ''}`, 90);
      group.append(svg('circle', { class: 'mark', cx: server, cy: y - 8, r: 4 }));
      group.append(svg('text', { class: 'decision-text', x: server + 12, y: y - 4 }, text));
    } else {
      const [from, to] = entry.kind === 'received' ? [x(entry.flow), server + 4] : [server, x(entry.flow) - 4];
      group.append(svg('line', { class: 'arrow', x1: from, x2: to, y1: y, y2: y, 'marker-end': 'url(#arrow)' }));
      const middle = (server + x(entry.flow)) / 2;
      group.append(svg('text', { class: 'message', x: middle, y: y - 6, 'text-anchor': 'middle' }, cut(entry.first_line, 38)));
    }
    group.setAttribute('aria-label', cut(`${clock(entry.time)} ${entry.kind} ${entry.first_line || entry.text || ''}`, 120));
    group.addEventListener('click', () => choose(entry));
    group.addEventListener('keydown', (event) => {
      if (event.key === 'Enter' || event.key === ' ') {
        event.preventDefault();
        choose(entry);
      }
    });
    drawing.append(group);
  });
  return drawing;
}

function details(entry) {
  const pairs = [['Time', entry.time], ['Kind', entry.kind], ['Flow', entry.flow], ['Call-ID', entry.call_id], ['CSeq', entry.cseq],
    ['Decision', entry.kind === 'decision' ? entry.text : undefined], ['Reason', entry.reason]].filter(([, text]) => text);
  return el('section', { class: 'panel' },
    el('h2', { text: entry.first_line || 'Decision', class: 'v' }),
    el('dl', { class: 'facts' }, pairs.map(([name, text]) => [el('dt', { text: name }), el('dd', { class: 'v', text })])),
    entry.kind !== 'decision' && entry.text ? el('pre', { tabindex: '0' }, ...entry.text.split('\n').map((line) => `${visible(line.replace(/\r$/, ''))}\n`).map((line) => document.createTextNode(line))) : null);
}

/** Waits for messages. The server ends a connection after a while, also in the middle of this: the poll is repeated then. */
async function poll(entries, signal) {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await get(`/api/trace${query(entries)}`, signal);
    } catch (error) {
      if (error.name === 'AbortError' || error.status !== 0 || attempt >= ATTEMPTS_MAX) throw error;
      await new Promise((resolve) => setTimeout(resolve, 1000 * attempt));
    }
  }
}

export function follow(name) {
  const input = el('input', { type: 'text', 'aria-label': 'User to follow', placeholder: 'alice', value: name ?? '', maxlength: '255', spellcheck: 'false' });
  const status = el('span', { class: 'status', role: 'status' });
  const drawn = el('div', { class: 'scroll ladder-holder', tabindex: '0', role: 'region', 'aria-label': 'Ladder' });
  const chosen = el('div');
  let running;
  const stop = () => {
    running?.abort();
    running = undefined;
    toggle.textContent = 'Follow';
  };
  const start = async () => {
    const user = input.value.trim();
    if (!user) return input.focus();
    running = new AbortController();
    const mine = running;
    toggle.textContent = 'Stop';
    let [entries, after, lost] = [[], undefined, 0];
    chosen.replaceChildren();
    drawn.replaceChildren(note(`Waiting for messages of ${user}. The trace begins now.`));
    try {
      while (running === mine) {
        status.textContent = `following ${visible(user)}`;
        // The first poll answers at once, with the number of the newest entry: those before it are not shown.
        const answer = await poll({ user, after, wait: after === undefined ? 0 : undefined }, mine.signal);
        after = answer.next;
        lost += answer.lost ?? 0;
        if (!answer.entries.length) continue;
        entries = [...entries, ...answer.entries].slice(-ENTRIES_MAX);
        const isAtEnd = drawn.scrollTop + drawn.clientHeight >= drawn.scrollHeight - ROW;
        drawn.replaceChildren(ladder(entries, (entry) => chosen.replaceChildren(details(entry))));
        if (isAtEnd) drawn.scrollTop = drawn.scrollHeight;
        status.textContent = lost ? `${lost} messages were lost` : '';
      }
    } catch (error) {
      if (error.name === 'AbortError') return;
      const text = error.status === 404 ? `Not available: ${error.message}` : error.message;
      drawn.replaceChildren(note(text, error.status === 404 ? '' : 'bad'));
      status.textContent = '';
      stop();
    }
  };
  const toggle = button('Follow', () => (running ? stop() : start()), 'primary');
  input.addEventListener('keydown', (event) => event.key === 'Enter' && !running && start());
  drawn.append(note('Give the name of a user: its messages are drawn as they come, with what the server decided and why.'));
  if (name) start();
  return {
    element: el('div', {}, heading('Follow a user'), el('div', { class: 'tools' }, input, toggle, status), drawn, chosen),
    stop,
  };
}
