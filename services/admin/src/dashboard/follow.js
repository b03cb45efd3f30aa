// Follow: the messages of a user as a ladder, with the decisions of the server, while they happen.

import { get, query } from './api.js';
import { button, el, heading, note, visible } from './elements.js';
import { Ladder } from './ladder.js';

const ATTEMPTS_MAX = 5;
/** A ladder whose end is nearer than this shows new entries as they come. */
const END_PX = 40;

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
    const ladder = new Ladder((entry) => chosen.replaceChildren(details(entry)));
    let after;
    chosen.replaceChildren();
    drawn.replaceChildren(note(`Waiting for messages of ${user}. The trace begins now.`));
    try {
      while (running === mine) {
        status.textContent = `following ${visible(user)}`;
        // The first poll answers at once, with the number of the newest entry: those before it are not shown.
        const answer = await poll({ user, after, wait: after === undefined ? 0 : undefined }, mine.signal);
        after = answer.next;
        if (!answer.entries.length && !answer.lost) continue;
        if (!ladder.element.isConnected) drawn.replaceChildren(ladder.element);
        const isAtEnd = drawn.scrollTop + drawn.clientHeight >= drawn.scrollHeight - END_PX;
        if (answer.lost) ladder.addLost(answer.lost);
        answer.entries.forEach((entry) => ladder.add(entry));
        if (isAtEnd) drawn.scrollTop = drawn.scrollHeight;
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
