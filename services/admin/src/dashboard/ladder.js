// The ladder of a trace: phones on the left, the server in the middle, next hops on the right, as `ringway trace` prints it.

import { el, value } from './elements.js';

/** Entries that are shown, and calls whose sides are kept. */
const [ENTRIES_MAX, CALLS_MAX] = [400, 1000];

const firstLine = (entry) => entry.first_line ?? '';
const isRequest = (entry) => !firstLine(entry).startsWith('SIP/');

/** Addresses of one Call-ID, on either side of the server. */
class Sides {
  phones = new Set();

  hops = new Set();

  title = '';

  learn(entry) {
    if (!this.title) {
      const { from, to } = entry;
      const parties = !from || !to ? '' : from === to ? ` of ${from}` : ` from ${from} to ${to}`;
      this.title = `${methodOf(entry)}${parties}, Call-ID ${entry.call_id}`;
    }
    if (entry.kind === 'decision' || !isRequest(entry) || this.phones.has(entry.flow) || this.hops.has(entry.flow)) return;
    (entry.kind === 'received' ? this.phones : this.hops).add(entry.flow);
  }

  /** True if the peer of a message is on the side of the next hops. An address that is on both is one of a phone that calls another of its host. */
  isHop(entry) {
    const [isPhone, isHop] = [this.phones.has(entry.flow), this.hops.has(entry.flow)];
    if (isPhone !== isHop) return isHop;
    return (entry.kind === 'received') !== isRequest(entry);
  }

  /** Method of a request, for a next hop with its Request-URI; status and phrase of a response. */
  label(entry) {
    const [first, second, ...more] = firstLine(entry).split(' ');
    if (isRequest(entry)) return this.isHop(entry) && entry.kind === 'sent' && second ? `${first} ${second}` : first;
    const status = [second, ...more].join(' ');
    return methodOf(entry) === 'CANCEL' ? `${status} (CANCEL)` : status;
  }
}

/** Address, arrow and label of a message, from the left to the right. */
function message(entry, sides) {
  const [isHop, isReceived] = [sides.isHop(entry), entry.kind === 'received'];
  const isToTheRight = isHop !== isReceived;
  const shaft = (isHead, kind) => el('span', { class: `shaft ${kind} ${isHead ? `head ${isToTheRight ? 'right' : 'left'}` : ''}` });
  const flow = el('span', { class: 'v flow', text: entry.flow });
  const label = el('span', { class: 'v label', text: sides.label(entry) });
  const way = el('span', { class: 'hidden', text: isReceived ? 'from' : 'to' });
  const drawn = [shaft(!isToTheRight, 'stub'), label, shaft(isToTheRight, '')];
  return isHop ? [...drawn, way, flow] : [flow, way, ...drawn];
}

/** The CSeq's method. */
const methodOf = (entry) => entry.cseq?.split(' ')[1] ?? entry.cseq ?? '';

/** A ladder that grows; `choose` gets the entry of a row that was clicked. */
export class Ladder {
  #rows = el('div', { class: 'rungs' });

  #calls = new Map();

  #begun;

  #last;

  #count = 0;

  #choose;

  constructor(choose) {
    this.#choose = choose;
    const heads = Object.entries({ time: 'Seconds', phone: 'Phone', server: 'Server', hop: 'Next hop' }).map(([lane, text]) => el('span', { class: `lane-${lane}`, text }));
    this.element = el('div', { class: 'ladder' }, el('div', { class: 'lanes' }, heads), this.#rows);
  }

  /** Adds a row for an entry, below a title if it is of another call than the one before. */
  add(entry) {
    if (this.#calls.size > CALLS_MAX) this.#calls.clear();
    const sides = this.#calls.get(entry.call_id) ?? new Sides();
    this.#calls.set(entry.call_id, sides);
    sides.learn(entry);
    if (this.#last !== entry.call_id) {
      // With the time of day, to compare it with the log.
      const at = new Date(entry.time);
      const time = Number.isNaN(at.valueOf()) ? '' : `${at.toISOString().slice(0, 19)}Z`;
      this.#rows.append(el('p', { class: 'call-title v' }, sides.title, el('span', { class: 'at', text: time })));
    }
    this.#last = entry.call_id;
    this.#begun ??= Date.parse(entry.time);
    this.#rows.append(this.#row(entry, sides));
    this.#count += 1;
    if (this.#count > ENTRIES_MAX) this.#forget();
  }

  /** Says that entries are missing here. */
  addLost(count) {
    this.#rows.append(el('p', { class: 'missing', text: `${count} messages and decisions are missing here: more happened than a trace keeps` }));
  }

  #row(entry, sides) {
    const seconds = ((Date.parse(entry.time) - this.#begun) / 1000 || 0).toFixed(3);
    const isDecision = entry.kind === 'decision';
    const side = isDecision ? 'decision' : `${sides.isHop(entry) ? 'hop' : 'phone'} ${entry.kind}`;
    const parts = isDecision ? value(entry.text ?? '') : message(entry, sides);
    const row = el('div', { class: `entry ${side}`, tabindex: '0', role: 'button' }, el('span', { class: 'time', text: seconds }), el('div', { class: 'rung' }, parts));
    row.addEventListener('click', () => this.#choose(entry));
    row.addEventListener('keydown', (event) => {
      if (event.key !== 'Enter' && event.key !== ' ') return;
      event.preventDefault();
      this.#choose(entry);
    });
    return row;
  }

  /** Removes the oldest row, and titles that have none left. */
  #forget() {
    this.#rows.querySelector('.entry').remove();
    this.#count -= 1;
    while (this.#rows.children[1] && !this.#rows.children[1].matches('.entry') && !this.#rows.children[0].matches('.entry')) this.#rows.children[0].remove();
  }
}
