// Elements of the document. Everything that is shown goes through `visible` and becomes text, never markup.

const NAMES = { '\u200b': 'ZWSP', '\u200c': 'ZWNJ', '\u200d': 'ZWJ', '\ufeff': 'BOM' };

/** Text in which characters that are invisible, or that change the direction of others, are shown as symbols. */
export function visible(value) {
  return String(value ?? '').replace(
    /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/g,
    (character) => {
      const code = character.charCodeAt(0);
      if (code < 0x20) return String.fromCharCode(0x2400 + code);
      return `⟨${NAMES[character] ?? `U+${code.toString(16).toUpperCase().padStart(4, '0')}`}⟩`;
    },
  );
}

/** Creates an element. `options` has attributes, `class`, `text` and `on` (listeners by event); children may be lists of children. */
export function el(name, options = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(options)) {
    if (value === undefined || value === null || value === false) continue;
    if (key === 'class') element.className = value;
    else if (key === 'text') element.textContent = visible(value);
    else if (key === 'on') for (const [event, call] of Object.entries(value)) element.addEventListener(event, call);
    else if (value === true) element.setAttribute(key, '');
    else element.setAttribute(key, key === 'title' ? visible(value) : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child instanceof Node ? child : visible(child));
  }
  return element;
}

/** Value that a stranger may have chosen: its direction does not reach its neighbours. */
export const value = (text, name = 'span') => el(name, { class: 'v', text, title: text });

export const button = (text, call, kind = '') => el('button', { type: 'button', class: kind, text, on: { click: call } });

/** Page heading with optional elements beside it. */
export const heading = (text, ...beside) => el('div', { class: 'heading' }, el('h1', { class: 'v', text }), ...beside);

/** Message in place of a list. */
export const note = (text, kind = '') => el('p', { class: `note ${kind}`, text });

/** Table with column titles; `rows` are lists of cells, texts or elements. */
export function table(caption, columns, rows) {
  const cell = (content, index) => {
    const column = columns[index];
    const attributes = { class: column.class, 'data-title': column.title };
    return el('td', attributes, content instanceof Node ? content : value(content));
  };
  const head = columns.map((column) => el('th', { scope: 'col', class: column.class, text: column.title }));
  const body = rows.map((cells) => el('tr', {}, cells.map(cell)));
  return el('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': caption },
    el('table', {}, el('caption', { class: 'hidden', text: caption }), el('thead', {}, el('tr', {}, head)), el('tbody', {}, body)));
}

/** Shows a table in place of another one, whose focus and position stay. */
export function showTable(holder, made) {
  const shown = holder.firstElementChild;
  if (shown?.className !== made.className) return holder.replaceChildren(made);
  // The focus stays in the table when it is drawn again.
  const focused = shown.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  shown.replaceChildren(...made.childNodes);
  if (focused) [...shown.querySelectorAll('[data-key]')].find((other) => other.dataset.key === focused)?.focus();
  return undefined;
}

/** Short message at the edge of the page. */
export function toast(text, kind = 'good') {
  const element = el('p', { class: kind, text });
  document.getElementById('toasts').append(element);
  setTimeout(() => element.remove(), 8000);
}

/** Asks for a confirmation; resolves to true or false, to false when another page is shown. */
export function confirm(title, text, action) {
  return new Promise((resolve) => {
    const close = (answer) => {
      removeEventListener('hashchange', leave);
      dialog.close();
      dialog.remove();
      resolve(answer);
    };
    const leave = () => close(false);
    const dialog = el('dialog', { 'aria-labelledby': 'confirm-title' },
      el('h2', { id: 'confirm-title', class: 'v', text: title }),
      el('p', { text }),
      el('div', { class: 'buttons' }, button('Cancel', () => close(false)), button(action, () => close(true), 'danger')));
    dialog.addEventListener('cancel', leave);
    addEventListener('hashchange', leave);
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** Duration as `59m 12s`. */
export function duration(seconds) {
  const s = Math.max(0, Math.floor(seconds));
  const parts = [[Math.floor(s / 86400), 'd'], [Math.floor(s / 3600) % 24, 'h'], [Math.floor(s / 60) % 60, 'm'], [s % 60, 's']];
  const first = parts.findIndex(([count]) => count > 0);
  if (first < 0) return '0s';
  return parts.slice(first, first + 2).map(([count, unit]) => `${count}${unit}`).join(' ');
}

export const count = (number) => Number(number ?? 0).toLocaleString('en');

/** Number of bytes as `1.5 MiB`. */
export function bytes(number) {
  const units = ['B', 'KiB', 'MiB', 'GiB'];
  let [amount, unit] = [number, 0];
  while (amount >= 1024 && unit < units.length - 1) [amount, unit] = [amount / 1024, unit + 1];
  return `${amount.toFixed(amount < 10 && unit > 0 ? 1 : 0)} ${units[unit]}`;
}
