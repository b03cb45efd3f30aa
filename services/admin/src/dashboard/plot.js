// Line plots of the last minutes, as SVG.

import { el } from './elements.js';

const NS = 'http://www.w3.org/2000/svg';
const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [400, 132, 44, 6, 8, 18];
/** Points of a plot: ten minutes at one in two seconds. */
export const POINTS_MAX = 300;

function svg(name, attributes, text) {
  const element = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

/** Upper end of the axis: 1, 2 or 5 times a power of ten. */
function axisEnd(most) {
  if (!(most > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(most));
  return [1, 2, 5, 10].map((step) => step * power).find((end) => end >= most * 0.9999);
}

/** Number with three digits. */
export function short(number) {
  if (!Number.isFinite(number)) return '–';
  const size = Math.abs(number);
  if (size >= 1e6) return `${+(number / 1e6).toPrecision(3)}M`;
  if (size >= 1e4) return `${+(number / 1e3).toPrecision(3)}k`;
  return `${size >= 100 ? Math.round(number) : +number.toPrecision(3)}`;
}

/** Plot with a title, a unit, named lines, and an explanation if they need one. */
export class Plot {
  constructor(title, unit, names, explanation) {
    this.unit = unit;
    this.names = names;
    this.drawing = svg('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: 'img' });
    this.values = names.map(() => el('b', { text: '–' }));
    this.legend = names.map((name, index) =>
      el('li', {}, el('span', { class: `key s${index}` }), name ? `${name} ` : '', this.values[index]));
    this.element = el('section', { class: 'plot' },
      el('h2', {}, title, el('span', { class: 'unit', text: unit })), this.drawing, el('ul', { class: 'legend' }, this.legend), explanation ? el('p', { class: 'plot-note', text: explanation }) : null);
    this.title = title;
    this.draw([]);
  }

  /** Draws `points`: each has `at` in seconds, and `values` by line. */
  draw(points) {
    const end = points.length ? points[points.length - 1].at : 0;
    // The axis grows with the time that the page is open.
    const minutes = points.length && end - points[0].at > 110 ? (end - points[0].at > 290 ? 10 : 5) : 2;
    const span = minutes * 60;
    const numbers = points.flatMap((point) => point.values).filter(Number.isFinite);
    const most = axisEnd(Math.max(0, ...numbers));
    const x = (at) => LEFT + (WIDTH - LEFT - RIGHT) * (1 - (end - at) / span);
    const y = (number) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - number / most);
    const parts = [];
    for (const share of [0, 0.5, 1]) {
      const at = y(most * share);
      parts.push(svg('line', { class: 'grid', x1: LEFT, x2: WIDTH - RIGHT, y1: at, y2: at }));
      parts.push(svg('text', { class: 'tick', x: LEFT - 6, y: at + 4, 'text-anchor': 'end' }, short(most * share)));
    }
    for (const [ago, anchor] of [[minutes, 'start'], [minutes / 2, 'middle'], [0, 'end']]) {
      const text = ago ? `${ago} min ago` : 'now';
      parts.push(svg('text', { class: 'tick', x: x(end - ago * 60), y: HEIGHT - 4, 'text-anchor': anchor }, text));
    }
    this.names.forEach((_, index) => {
      const drawn = points.filter((point) => Number.isFinite(point.values[index]));
      if (!drawn.length) return;
      const path = drawn.map((point) => `${x(point.at).toFixed(1)},${y(point.values[index]).toFixed(1)}`);
      parts.push(svg('polyline', { class: `line s${index}`, points: path.join(' ') }));
      if (drawn.length === 1) {
        parts.push(svg('circle', { class: `dot s${index}`, cx: x(drawn[0].at), cy: y(drawn[0].values[index]), r: 2 }));
      }
    });
    this.drawing.replaceChildren(...parts);
    const last = points[points.length - 1]?.values ?? [];
    this.values.forEach((element, index) => {
      element.textContent = short(last[index] ?? NaN);
      // Of many lines, those that never left 0 have no place in the legend.
      this.legend[index].hidden = this.names.length > 3 && index > 1 && !points.some((point) => point.values[index] > 0);
    });
    const spoken = this.names.map((name, index) => `${name} ${short(last[index] ?? NaN)}`).join(', ');
    this.drawing.setAttribute('aria-label', `${this.title}, ${this.unit}: ${spoken}`);
  }
}
