// Users: list, search, one user with its contacts and forwards, end of registrations.

import { get, request } from './api.js';
import { button, confirm, duration, el, heading, note, table, toast, value, visible } from './elements.js';
import { Listing, tabbed } from './listing.js';

const pathOf = (name) => `/api/users/${encodeURIComponent(name)}`;
const left = (contact) => (contact.permanent || contact.expires_s === null ? 'permanent' : duration(contact.expires_s));
const link = (name) => el('a', { class: 'v', href: `#users/${encodeURIComponent(name)}`, text: name, title: name, 'data-key': `user ${name}` });

const CONDITIONS = [['always', 'Always'], ['busy', 'If busy'], ['no_answer', 'If nobody answers'], ['unregistered', 'Without a phone']];

function forwardsOf(forwards) {
  const set = CONDITIONS.filter(([key]) => forwards[key]);
  if (!set.length) return '–';
  return set.map(([key, name]) => `${name.toLowerCase()}: ${key === 'no_answer' ? `${forwards[key].to} after ${forwards[key].after_s} s` : forwards[key]}`).join(', ');
}

/** Ends the registrations of `name` after a confirmation. */
async function kick(name, done) {
  const text = 'Its registered contacts are removed now, and calls to it fail until its phone registers again, which it does by itself at its next REGISTER. '
    + 'Calls go on. To keep it out, change its password with `ringway user passwd`.';
  if (!(await confirm(`End the registrations of ${name}?`, text, 'Kick'))) return;
  try {
    const { ended } = await request('DELETE', `${pathOf(name)}/registrations`);
    toast(`${ended} ${ended === 1 ? 'registration' : 'registrations'} of ${name} ended`);
  } catch (error) {
    toast(error.message, 'bad');
  }
  done();
}

const kickButton = (name, done, isRegistered, size = 'small') => {
  const made = button('Kick', () => kick(name, done), `danger ${size}`);
  made.disabled = !isRegistered;
  made.setAttribute('aria-label', `Kick ${name}`);
  made.dataset.key = `kick ${name}`;
  return made;
};

const several = (texts) => el('div', {}, texts.map((text) => value(text, 'div')));

function allUsers() {
  const position = el('select', { 'aria-label': 'Where the text is' },
    el('option', { value: 'contains', text: 'contains' }), el('option', { value: 'prefix', text: 'name begins with' }));
  return new Listing({
    path: '/api/users', name: 'users', noun: ['user', 'users'], searchLabel: 'Search users', filters: [position],
    extra: () => ({ position: position.value }),
    empty: 'There are no users yet. `ringway user add NAME` adds one.',
    columns: [{ title: 'User', class: 'main' }, { title: 'Contact' }, { title: 'From' }, { title: 'Left', class: 'number' },
      { title: 'Forwards' }, { title: '', class: 'act' }],
    row: (user, reload) => {
      const name = `${user.name}@${user.domain}`;
      return [
        link(name),
        user.contacts.length ? several(user.contacts.map((contact) => contact.contact)) : el('span', { class: 'faint', text: 'not registered' }),
        several(user.contacts.map((contact) => (contact.address ? `${contact.transport} ${contact.address}` : contact.transport))),
        several(user.contacts.map(left)),
        forwardsOf(user.forwards),
        kickButton(name, reload, user.contacts.some((contact) => !contact.permanent)),
      ];
    },
  });
}

function registered() {
  return new Listing({
    path: '/api/registrations', name: 'registrations', noun: ['contact', 'contacts'], searchLabel: 'Search contacts and addresses',
    empty: 'Nobody is registered.',
    columns: [{ title: 'User', class: 'main' }, { title: 'Contact' }, { title: 'Transport' }, { title: 'From' },
      { title: 'Left', class: 'number' }, { title: 'q', class: 'number' }, { title: '', class: 'act' }],
    row: (contact, reload) => {
      const name = contact.aor.replace(/^sip:/, '');
      return [link(name), contact.contact, contact.transport, contact.address ?? '–', left(contact), contact.q,
        kickButton(name, reload, !contact.permanent)];
    },
  });
}

export function users() {
  const tabs = tabbed([['All users', allUsers], ['Registered contacts', registered]]);
  return { element: el('div', {}, heading('Users'), tabs.element), stop: tabs.stop };
}

function forwardsForm(name, forwards) {
  const field = (key, label, shown) => {
    const input = el('input', { id: `forward-${key}`, type: 'text', maxlength: '255', value: shown ?? '', placeholder: 'sip:other@example.org', spellcheck: 'false' });
    return [el('label', { for: `forward-${key}`, text: label }), input];
  };
  const fields = CONDITIONS.map(([key, label]) => [key, field(key, label, key === 'no_answer' ? forwards[key]?.to : forwards[key])]);
  const seconds = el('input', { type: 'number', id: 'forward-after', min: '1', max: '180', value: String(forwards.no_answer?.after_s ?? 20) });
  const problem = el('p', { class: 'error', role: 'alert' });
  const text = (key) => fields.find(([other]) => other === key)[1][1].value.trim() || null;
  const save = async (event) => {
    event.preventDefault();
    const to = text('no_answer');
    const body = { always: text('always'), busy: text('busy'), unregistered: text('unregistered'),
      no_answer: to ? { after_s: Number(seconds.value), to } : null };
    problem.textContent = '';
    try {
      await request('PUT', `${pathOf(name)}/forward`, { body });
      toast(`Forwards of ${name} saved`);
    } catch (error) {
      problem.textContent = visible(error.message);
    }
  };
  const rows = fields.map(([key, [label, input]]) => el('div', { class: 'field' }, label, input,
    key === 'no_answer' ? [el('label', { for: 'forward-after', text: 'after seconds' }), seconds] : null));
  return el('form', { class: 'fields', on: { submit: save } }, rows, problem,
    el('div', { class: 'buttons' }, el('button', { type: 'submit', class: 'primary', text: 'Save forwards' })));
}

export function user(name) {
  const holder = el('div');
  const load = async () => {
    try {
      const found = await get(pathOf(name));
      const full = `${found.name}@${found.domain}`;
      const rows = found.contacts.map((contact) => [contact.contact, contact.transport, contact.address ?? '–', left(contact),
        contact.q, contact.reg_id ?? '–', contact.instance ?? '–', contact.path?.length ? several(contact.path) : '–',
        contact.node ?? '–']);
      const columns = ['Contact', 'Transport', 'From', 'Left', 'q', 'Flow', 'Instance', 'Path', 'Node'].map((title) => ({ title }));
      holder.replaceChildren(
        heading(full, kickButton(full, load, found.contacts.some((contact) => !contact.permanent), ''),
          el('a', { class: 'button', href: `#follow/${encodeURIComponent(full)}`, text: 'Follow' })),
        el('section', { class: 'panel' }, el('h2', { text: 'Contacts' }),
          rows.length ? table('Contacts', columns, rows) : note('It is not registered.')),
        el('section', { class: 'panel' }, el('h2', { text: 'Forwards' }), forwardsForm(full, found.forwards)),
        ...(found.messages ? [note(`Messages that wait for its phone: ${found.messages}`)] : []),
        ...(found.password ? [] : [note('It has no password: it cannot register, only permanent contacts reach it.')]));
    } catch (error) {
      holder.replaceChildren(heading(name), note(error.message, 'bad'));
    }
  };
  load();
  return { element: el('div', {}, el('p', { class: 'back' }, el('a', { href: '#users', text: '← Users' })), holder) };
}
