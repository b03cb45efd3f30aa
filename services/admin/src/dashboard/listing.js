// Listing with search and pages, over a path of the API that has cursors.

import { Refused, get, query } from './api.js';
import { button, count, el, note, showTable, table } from './elements.js';

/** Answers that a search reads before it asks whether to go on. */
const ANSWERS_MAX = 20;

/**
 * Listing of `path`, whose items are under `name`. `columns` are those of a table, `row` makes the cells of an item.
 * `extra` gives further entries of the query, `empty` is shown without items, `noun` names one and several of them.
 */
export class Listing {
  constructor({ path, name, noun, columns, row, size = 100, empty, extra = () => ({}), filters = [], searchLabel }) {
    Object.assign(this, { path, name, noun, columns, row, size, empty, extra });
    this.cursors = [undefined];
    this.body = el('div', { class: 'list', 'aria-busy': 'true' });
    this.status = el('span', { class: 'status', role: 'status' });
    this.previous = button('Previous', () => this.turn(-1));
    this.following = button('Next', () => this.turn(1));
    this.input = searchLabel && el('input', { type: 'search', maxlength: '100', placeholder: searchLabel, 'aria-label': searchLabel });
    if (this.input) {
      let timer;
      this.input.addEventListener('input', () => {
        clearTimeout(timer);
        timer = setTimeout(() => this.restart(), 250);
      });
    }
    for (const filter of filters) filter.addEventListener('change', () => this.restart());
    this.element = el('div', {},
      el('div', { class: 'tools', role: 'search' }, this.input, filters, button('Refresh', () => this.load()),
        el('span', { class: 'grow' }), this.status, this.previous, this.following),
      this.body);
  }

  restart() {
    this.cursors = [undefined];
    return this.load();
  }

  turn(by) {
    if (by < 0) this.cursors.pop();
    else if (this.next) this.cursors.push(this.next);
    return this.load();
  }

  stop() {
    this.running?.abort();
  }

  /** Loads the page; a search goes on until it found something, is over, or read much. */
  async load() {
    this.running?.abort();
    const running = new AbortController();
    this.running = running;
    this.body.setAttribute('aria-busy', 'true');
    const q = this.input?.value.trim();
    const items = [];
    let after = this.cursors[this.cursors.length - 1];
    let answer;
    try {
      for (let answers = 0; answers < ANSWERS_MAX; answers += 1) {
        const limit = this.size - items.length;
        answer = await get(`${this.path}${query({ after, limit, q, ...this.extra() })}`, running.signal);
        items.push(...answer[this.name]);
        after = answer.next;
        if (!after || !q || items.length >= this.size) break;
        this.status.textContent = `searching, ${count(items.length)} found`;
      }
    } catch (error) {
      if (error.name === 'AbortError') return;
      this.show([], { total: 0, next: null }, q, error);
      return;
    }
    this.show(items, answer, q);
  }

  show(items, answer, q, error) {
    this.body.removeAttribute('aria-busy');
    this.next = answer.next;
    this.previous.disabled = this.cursors.length < 2;
    this.following.disabled = !this.next;
    const total = `${count(answer.total)} ${answer.total === 1 ? this.noun[0] : this.noun[1]}`;
    this.status.textContent = q ? `${count(items.length)}${this.next ? ' so far' : ''} found in ${total}` : total;
    if (error) {
      const missing = error instanceof Refused && error.status === 404;
      this.status.textContent = '';
      this.body.replaceChildren(note(missing ? 'This server does not have this list.' : error.message, 'bad'));
    } else if (!items.length) {
      const text = this.next ? 'Nothing so far; go on with Next.' : q ? 'Nothing was found.' : this.empty;
      this.body.replaceChildren(note(text));
    } else {
      showTable(this.body, table(this.noun[1], this.columns, items.map((item) => this.row(item, () => this.load()))));
    }
  }
}

/** Tabs over listings: names, and functions that make them. The first is shown. */
export function tabbed(tabs) {
  const holder = el('div');
  let current;
  const buttons = tabs.map(([name, make], index) => button(name, () => {
    current?.stop();
    current = make();
    holder.replaceChildren(current.element);
    buttons.forEach((other, at) => other.setAttribute('aria-pressed', String(at === index)));
    current.load();
  }, 'tab'));
  buttons[0].click();
  return { element: el('div', {}, el('div', { class: 'tabs' }, buttons), holder), current: () => current, stop: () => current.stop() };
}
