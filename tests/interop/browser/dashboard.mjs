// The dashboard in headless Chromium, for `cargo xtask interop --only browser/dashboard`.
//
// Arguments: JSON with `url`, `token`, `sip` (port), `config` (file), `users` (number of users that exist), `empty` (URL of a server
// without users), `ladder` (path of entries of a trace and of the ladder that `ringway trace` prints of them, without .json and .txt),
// `pictures` (folder for screenshots, or empty) and `browser` (program). It plays phones over UDP and TCP itself, prints
// a line for each step, and ends with `passed` or the reason of the failure. With `watch` it shows the overview for that many seconds,
// and does nothing else.
import assert from 'node:assert/strict';
import { createSocket } from 'node:dgram';
import { appendFile, readFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { chromium } from 'playwright-core';
import { drawsLadder } from './ladder.mjs';

const { url, token, sip, config, users, empty, ladder, pictures, browser: executablePath, watch } = JSON.parse(process.argv[2]);
const HOSTILE = '<img src=x onerror="window.hacked=1">\u202e\u0000\'"&lt;é\u{1f600}</script><script>window.hacked=1</script>';
const WIDE = { width: 1280, height: 860 };
const NARROW = { width: 390, height: 844 };
const say = (line) => process.stdout.write(`${line}\n`);
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Phones: a socket that registers users, sends requests, and rings when called. */
const phones = createSocket('udp4');
await new Promise((resolve) => phones.bind(0, '127.0.0.1', resolve));
const port = phones.address().port;
const answered = new Map();
let number = 0;
phones.on('message', (bytes) => {
  const text = bytes.toString('latin1');
  const [start] = text.split('\r\n');
  if (start.startsWith('SIP/2.0')) return answered.get(/^Call-ID: (.*)$/im.exec(text)?.[1])?.(start);
  if (!start.startsWith('INVITE')) return undefined;
  const kept = text.split('\r\n').filter((line) => /^(via|from|to|call-id|cseq|record-route):/i.test(line)).map((line) => (/^to:/i.test(line) && !/;tag=/.test(line) ? `${line};tag=rings` : line));
  return phones.send(Buffer.from(`SIP/2.0 180 Ringing\r\n${kept.join('\r\n')}\r\nContact: <sip:x@127.0.0.1:${port}>\r\nContent-Length: 0\r\n\r\n`, 'latin1'), sip, '127.0.0.1');
});

function request(method, uri, { user, from = `<sip:${user}@example.org>`, id = `${method}-${number}`, lines = [] }) {
  number += 1;
  const text = [`${method} ${uri} SIP/2.0`, `Via: SIP/2.0/UDP 127.0.0.1:${port};branch=z9hG4bK${number}-${port};rport`, 'Max-Forwards: 70',
    `From: ${from};tag=${number}`, `To: <${method === 'REGISTER' ? `sip:${user}@example.org` : uri}>`, `Call-ID: ${id}`, `CSeq: 1 ${method}`, ...lines, 'Content-Length: 0', '', ''].join('\r\n');
  const answer = new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`no answer to ${method} ${uri}`)), 5000);
    answered.set(id, (start) => {
      clearTimeout(timer);
      answered.delete(id);
      resolve(start);
    });
  });
  phones.send(Buffer.from(text, 'utf8'), sip, '127.0.0.1');
  return answer;
}
const name = (index) => `user${String(index).padStart(5, '0')}`;
const register = (user, contact = `<sip:${user}@127.0.0.1:${port}>`) => request('REGISTER', 'sip:example.org', { user, lines: [`Contact: ${contact}`, 'Expires: 3600'] });

const api = async (path) => (await fetch(url + path, { headers: { Authorization: `Bearer ${token}` } })).json();

const browser = await chromium.launch({ executablePath, headless: true, args: ['--no-sandbox'] });
const faults = [];

/** A tab; a failed script, or one that the policy stopped, is a fault. */
async function tab({ viewport = WIDE, colorScheme = 'light', loggedIn = true, at = url } = {}) {
  const context = await browser.newContext({ viewport, colorScheme, reducedMotion: 'reduce', locale: 'en-GB' });
  const page = await context.newPage();
  page.setDefaultTimeout(8000);
  page.on('pageerror', (error) => faults.push(`page error: ${error}`));
  page.on('console', (message) => message.type() === 'error' && !/Failed to load resource/.test(message.text()) && faults.push(`console: ${message.text()}`));
  page.on('request', (asked) => asked.url().startsWith(at) || faults.push(`request to ${asked.url()}`));
  await page.addInitScript((given) => {
    addEventListener('securitypolicyviolation', (event) => {
      window.violations = [...(window.violations ?? []), `${event.violatedDirective} ${event.blockedURI}`];
    });
    if (given) sessionStorage.setItem('ringway-token', given);
  }, loggedIn ? token : '');
  await page.goto(`${at}/`);
  return page;
}

const go = async (page, hash) => {
  await page.evaluate((to) => {
    location.hash = to;
  }, hash);
  await page.waitForTimeout(350);
};
const heading = (page) => page.locator('main h1').textContent();

/** Texts whose contrast with their background is below WCAG's AA. */
const contrast = (page) => page.evaluate(() => {
  const colour = (text) => {
    const parts = text.match(/[\d.]+/g)?.map(Number) ?? [0, 0, 0, 0];
    return [parts[0], parts[1], parts[2], parts[3] ?? 1];
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255).map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const low = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.data.trim() || !element.checkVisibility({ visibilityProperty: true }) || element.closest('.hidden, noscript, script, dialog:not([open]), .skip')) continue;
    const style = getComputedStyle(element);
    const layers = [];
    for (let up = element; up; up = up.parentElement) {
      const back = colour(getComputedStyle(up).backgroundColor);
      if (back[3] > 0) layers.push(back);
      if (back[3] === 1) break;
    }
    const back = layers.reduceRight((below, layer) => over(layer, below), [255, 255, 255, 1]);
    const front = over(colour(element instanceof SVGElement ? style.fill : style.color), back);
    const [a, b] = [light(front), light(back)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) low.push(`${ratio.toFixed(2)} ${node.data.trim().slice(0, 40)}`);
  }
  return low;
});

/** Presses Tab until the focus was everywhere; controls that it did not reach, or that do not show it. */
async function keyboard(page) {
  const wanted = await page.evaluate(() => {
    document.activeElement?.blur();
    const all = [...document.querySelectorAll('a[href], button:not(:disabled), input, select, textarea, [tabindex="0"]')].filter((element) => element.checkVisibility() && !element.closest('dialog:not([open])'));
    all.forEach((element, index) => element.setAttribute('data-walk', index));
    return all.length;
  });
  const [reached, unseen] = [new Set(), []];
  for (let press = 0; press < wanted + 20 && reached.size < wanted; press += 1) {
    await page.keyboard.press('Tab');
    const [walk, isSeen, text] = await page.evaluate(() => {
      const element = document.activeElement;
      const style = getComputedStyle(element.querySelector(':scope > .hit') ?? element);
      const box = element.getBoundingClientRect();
      const isSeen = (style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2) || style.strokeWidth === '2px';
      // A list that is drawn again has new elements with the same keys.
      return [element.dataset?.key ?? element.dataset?.walk, isSeen && box.width > 0, element.textContent.slice(0, 30)];
    });
    if (walk === undefined) continue;
    reached.add(walk);
    if (!isSeen) unseen.push(text || walk);
  }
  return { missed: wanted - reached.size, unseen };
}

async function picture(page, file) {
  // A long table makes a large file: its first rows say enough.
  const { width, height } = page.viewportSize();
  const clip = { x: 0, y: 0, width, height: width > 1000 && !/overview|empty|routes/.test(file) ? 560 : height };
  if (pictures) await page.screenshot({ path: join(pictures, `${file}.png`), animations: 'disabled', clip });
}

const STEPS = {
  async login() {
    const page = await tab({ loggedIn: false });
    await page.locator('dialog#login[open]').waitFor();
    assert.equal(await page.locator('main table, main .tile').count(), 0, 'nothing is shown before');
    assert.ok(await page.locator('#logout').isHidden());
    await picture(page, 'dashboard-login');
    await page.locator('#token').fill('wrong');
    await page.keyboard.press('Enter');
    await page.getByText('The token is not the one of this server.').waitFor();
    await page.locator('#token').fill(token);
    await page.keyboard.press('Enter');
    await page.locator('dialog#login').waitFor({ state: 'hidden' });
    assert.equal(await heading(page), 'Overview');
    await page.getByRole('button', { name: 'Log out' }).click();
    await page.locator('dialog#login[open]').waitFor();
    assert.equal(await page.evaluate(() => sessionStorage.getItem('ringway-token')), null);
  },

  async paint() {
    const page = await tab();
    await page.locator('main .tile').first().waitFor();
    const ms = await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0].startTime);
    say(`figure first_paint_ms ${ms.toFixed(0)}`);
    assert.ok(ms < 1000, `first paint after ${ms} ms`);
    const response = page.locator('.plot').filter({ hasText: 'Response time' });
    assert.match(await response.innerText(), /median.*99th percentile.*99 % of them at most the 99th percentile/s);
  },

  async users() {
    const page = await tab();
    await go(page, 'users');
    await page.getByText(`${users.toLocaleString('en')} users`).waitFor();
    assert.equal(await page.locator('tbody tr').count(), 100);
    await page.getByRole('button', { name: 'Next' }).click();
    await page.getByRole('link', { name: `${name(100)}@example.org`, exact: true }).waitFor();
    await page.getByRole('button', { name: 'Previous' }).click();
    await page.getByRole('link', { name: `${name(0)}@example.org`, exact: true }).waitFor();
    await page.getByRole('searchbox').fill('R00042@EX');
    await page.getByText('1 found in').waitFor();
    assert.equal(await page.locator('tbody tr').count(), 1);
    await page.getByRole('combobox').selectOption('prefix');
    await page.getByText('Nothing was found.').waitFor();
    await page.getByRole('searchbox').fill('user0004');
    await page.getByText('10 found in').waitFor();
    await page.getByRole('button', { name: 'Registered contacts' }).click();
    await page.getByRole('searchbox').fill(name(77));
    // The list before the search may have the user, too.
    await page.locator('tbody tr').nth(1).waitFor({ state: 'detached' });
    await page.getByRole('link', { name: `${name(77)}@example.org` }).waitFor();
    assert.equal(await page.locator('tbody tr').count(), 1);
  },

  async kick() {
    const page = await tab();
    await go(page, `users/${name(42)}@example.org`);
    await page.getByText(`sip:${name(42)}@127.0.0.1:${port}`).first().waitFor();
    await page.getByRole('button', { name: 'Kick' }).click();
    await page.getByRole('button', { name: 'Cancel' }).click();
    assert.equal((await api(`/api/users/${name(42)}`)).contacts.length, 1, 'a cancelled kick');
    await page.getByRole('button', { name: 'Kick' }).click();
    await page.locator('dialog').last().getByRole('button', { name: 'Kick' }).click();
    await page.getByText(`1 registration of ${name(42)}@example.org ended`).waitFor();
    await page.getByText('It is not registered.').waitFor();
    assert.equal((await api(`/api/users/${name(42)}`)).contacts.length, 0);
    assert.match(await register(name(42)), / 200 /, 'its phone registers again');
  },

  async forwards() {
    const page = await tab();
    await go(page, `users/${name(7)}@example.org`);
    await page.getByLabel('If busy').fill('sip:carol@example.net');
    await page.getByLabel('If nobody answers').fill('no uri');
    await page.getByRole('button', { name: 'Save forwards' }).click();
    await page.locator('form .error').filter({ hasText: 'no uri' }).waitFor();
    await page.getByLabel('If nobody answers').fill('sip:dave@example.net');
    await page.getByLabel('after seconds').fill('25');
    await page.getByRole('button', { name: 'Save forwards' }).click();
    await page.getByText(`Forwards of ${name(7)}@example.org saved`).waitFor();
    const { forwards } = await api(`/api/users/${name(7)}`);
    assert.deepEqual(forwards, { always: null, busy: 'sip:carol@example.net', no_answer: { after_s: 25, to: 'sip:dave@example.net' }, unregistered: null });
  },

  async connections() {
    const socket = connect(sip, '127.0.0.1');
    await new Promise((resolve) => socket.once('connect', resolve));
    const ended = new Promise((resolve) => socket.once('close', resolve));
    socket.on('error', () => {}).resume();
    const page = await tab();
    await go(page, 'connections');
    await page.getByRole('searchbox').fill(`:${socket.localPort}`);
    await page.getByText('1 found in').waitFor();
    await page.getByRole('button', { name: `Drop tcp 127.0.0.1:${socket.localPort}` }).click();
    await page.locator('dialog').last().getByRole('button', { name: 'Drop' }).click();
    await page.getByText('dropped').waitFor();
    await ended;
    await page.getByText('Nothing was found.').waitFor();
  },

  async blocks() {
    const page = await tab();
    await go(page, 'blocks');
    await page.getByLabel('Pattern').fill('not a caller');
    await page.getByRole('button', { name: 'Block' }).click();
    await page.locator('form .error').filter({ hasText: 'not a caller' }).waitFor();
    await page.getByLabel('Pattern').fill('*@spam.example');
    await page.getByLabel('Reason').fill('advertising');
    await page.getByRole('button', { name: 'Block' }).click();
    await page.getByRole('cell', { name: 'advertising' }).waitFor();
    await page.getByRole('button', { name: 'Remove *@spam.example' }).click();
    await page.locator('dialog').last().getByRole('button', { name: 'Remove' }).click();
    await page.getByText('Nobody is blocked.').waitFor();
  },

  /** Edits trunks and routes by the keyboard, previews, saves, and sees them in force. */
  async routes() {
    const page = await tab();
    await go(page, 'routes');
    const area = page.getByLabel('Trunks, routes and destination rules');
    const save = page.getByRole('button', { name: 'Save and reload' });
    const preview = page.getByRole('button', { name: 'Preview' });
    await page.getByText('No trunk, no route and no destination rule is in force.').waitFor();
    const before = await readFile(config, 'utf8');
    // A hostile name is refused, and shown as text.
    await area.fill(`[[trunk]]\nname = ${JSON.stringify('<img src=x onerror="window.hacked=1">')}\nuri = "sip:a.example"\n`);
    assert.ok(await save.isDisabled(), 'what was not previewed cannot be saved');
    await preview.click();
    await page.locator('.note.bad').filter({ hasText: '<img src=x' }).waitFor();
    assert.equal(await page.evaluate(() => document.activeElement.value.slice(document.activeElement.selectionStart, document.activeElement.selectionEnd)),
      `name = ${JSON.stringify('<img src=x onerror="window.hacked=1">')}`, 'the line of the error is selected');
    assert.ok(await save.isDisabled(), 'a text with an error cannot be saved');
    assert.equal(await page.getByText('Nothing changes.').count(), 0);
    assert.ok(await page.getByText('(secret 1)').isHidden(), 'a file without secrets needs no word about them');
    assert.equal(await page.locator('main img').count(), 0);
    // A section that is not edited here is refused with its line.
    await area.fill('\n[[route]]\nprefix = "0"\n[admin]\n');
    await preview.click();
    await page.locator('.note.bad').filter({ hasText: '[admin]' }).waitFor();
    assert.equal(await page.evaluate(() => document.activeElement.value.slice(document.activeElement.selectionStart, document.activeElement.selectionEnd)),
      '[admin]', 'the line of the section is selected');
    assert.equal(await readFile(config, 'utf8'), before, 'a preview writes nothing');
    // The way of a user without a mouse.
    await area.fill('');
    await area.focus();
    await page.keyboard.insertText(`# the <b>carrier</b>\n[[trunk]]\nname = "carrier"\nuri = "sip:127.0.0.1:${port}"\nhealth_check_s = 0\n\n[[route]]\nprefix = "0"\nto = ["carrier"]\nstrip = 1\nadd = "+49"\n`);
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    await page.locator('.panel').getByText('trunk.carrier.uri').waitFor();
    await picture(page, 'dashboard-routes');
    await page.keyboard.press('Tab');
    assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Save and reload');
    await page.keyboard.press('Enter');
    // The question ends with its page.
    await page.getByText('Save the routes?').waitFor();
    const text = await area.inputValue();
    await go(page, 'overview');
    await page.getByText('Save the routes?').waitFor({ state: 'detached' });
    assert.equal(await readFile(config, 'utf8'), before, 'another page saves nothing');
    await go(page, 'routes');
    await page.getByText('No trunk, no route and no destination rule is in force.').waitFor();
    await area.fill(text);
    await preview.click();
    await page.locator('.panel').getByText('trunk.carrier.uri').waitFor();
    await save.press('Enter');
    await page.locator('dialog').last().getByRole('button', { name: 'Save' }).press('Enter');
    await page.getByText('The routes were saved and are in force').waitFor();
    await page.locator('.list').getByText('route.1.prefix').waitFor();
    await page.locator('.list').getByRole('cell', { name: `sip:127.0.0.1:${port}` }).first().waitFor();
    assert.equal((await api('/api/config')).keys['route.1.add'], '"+49"');
    assert.ok((await readFile(config, 'utf8')).startsWith(before.trimEnd()), 'the rest of the file stays');
    assert.equal(await readFile(`${config}.before`, 'utf8'), before);
    // Somebody else changes the file.
    await appendFile(config, '# by hand\n');
    await area.fill('');
    await preview.click();
    await page.getByText('The file changed meanwhile').waitFor();
    assert.equal(await area.inputValue(), '', 'the text is kept');
    await page.getByRole('button', { name: 'Undo changes' }).click();
    assert.match(await area.inputValue(), /carrier/);
    assert.deepEqual(await page.evaluate(() => [window.hacked, window.violations]), [undefined, undefined]);
  },

  async reload() {
    const page = await tab();
    await go(page, 'configuration');
    const secret = page.getByRole('row').filter({ hasText: 'admin.token' });
    await secret.getByText('(secret)').waitFor();
    assert.ok(!(await page.content()).includes(token), 'the token is not in the document');
    await page.getByRole('button', { name: 'Compare with the file' }).click();
    await page.getByText('The file says what is in force.').waitFor();
    await appendFile(config, '\n[registrar]\nmax_contacts = 7\n');
    await page.getByRole('button', { name: 'Compare with the file' }).click();
    await page.locator('.panel').getByText('registrar.max_contacts').waitFor();
    await picture(page, 'dashboard-configuration');
    await page.getByRole('button', { name: 'Reload', exact: true }).click();
    await page.locator('dialog').last().getByRole('button', { name: 'Reload' }).click();
    await page.getByText('The configuration was reloaded').waitFor();
    await page.getByRole('searchbox').fill('max_contacts');
    await page.locator('.list').getByText('7', { exact: true }).waitFor();
    await appendFile(config, 'max_contact = 8\n');
    await page.getByRole('button', { name: 'Compare with the file' }).click();
    await page.locator('.note.bad').filter({ hasText: 'max_contact' }).waitFor();
    assert.ok(await page.getByRole('button', { name: 'Reload', exact: true }).isDisabled(), 'a file with an error cannot be used');
  },

  async calls() {
    const page = await tab();
    const id = `<img/src=x/onerror="window.hacked=1">${number}`;
    request('INVITE', `sip:${name(1)}@example.org`, { user: name(2), from: `"${'\u202e<img src=x onerror=window.hacked=1>'}" <sip:${name(2)}@example.org>`, id, lines: [`Contact: <sip:${name(2)}@127.0.0.1:${port}>`] }).catch(() => {});
    await go(page, 'calls');
    await page.getByText('ringing').waitFor();
    await page.getByText(id).waitFor();
    await picture(page, 'dashboard-calls');
    await page.getByRole('button', { name: 'Ended' }).click();
    await page.getByText(/Not available|No call has ended yet|Ended/).last().waitFor();
    assert.equal(await page.evaluate(() => window.hacked), undefined);
  },

  /** Follows a user while it sends requests; a server without traces says so. */
  async follow() {
    const page = await tab();
    await go(page, `follow/${name(3)}@example.org`);
    const has = (await fetch(`${url}/api/trace?user=${name(3)}&after=999999999`, { headers: { Authorization: `Bearer ${token}` }, signal: AbortSignal.timeout(1500) }).catch(() => ({ status: 200 }))).status !== 404;
    if (!has) return page.getByText('Not available').waitFor();
    await register(name(3));
    request('INVITE', `sip:${name(3)}@example.org`, { user: name(2), id: `followed-${number}`, lines: [`Contact: <sip:${name(2)}@127.0.0.1:${port}>`] }).catch(() => {});
    await page.locator('.entry').nth(2).waitFor();
    await page.locator('.entry').first().click();
    await page.locator('dt').getByText('Call-ID').waitFor();
    await picture(page, 'dashboard-follow');
    return undefined;
  },

  ladder: () => drawsLadder({ tab, go, contrast, viewports: [WIDE, { width: 400, height: 844 }] }, ladder),

  /** The overview tells when the database of users is away, and nothing without one. */
  async database() {
    const page = await tab();
    const row = page.locator('dt').filter({ hasText: 'Database' });
    await page.locator('dd').getByText('example.org').first().waitFor();
    assert.ok(await row.isHidden() && !(await page.getByText('database of users').count()), 'users are in no database');
    const given = { provisioning_connected: 0, provisioning_reached_seconds: 1767225600 };
    await page.route('**/api/stats', async (route) => {
      const answer = await route.fetch();
      return route.fulfill({ response: answer, json: { ...await answer.json(), ...given } });
    });
    await page.getByText('The database of users has not been reached since 2026-01-01 00:00:00 UTC; users are served from the copy.').waitFor();
    await page.locator('dd').getByText('not reached, last read 2026-01-01 00:00:00 UTC').waitFor();
    given.provisioning_connected = 1;
    await page.getByText('The database of users has not been reached').waitFor({ state: 'detached' });
    await page.locator('dd').getByText('connected, last read 2026-01-01 00:00:00 UTC').waitFor();
    await page.unrouteAll({ behavior: 'ignoreErrors' });
  },

  /** The overview names what is down, by its kind. */
  async down() {
    const page = await tab();
    const given = { 'trunk_up.carrier': 0, 'trunk_up.other': 1, 'trunk_up.sip:a': 0, 'node_up.sip:a': 0, 'neighbour_up.gate': 0, 'relay_up.127.0.0.1:1': 0, 'relay_up.127.0.0.1:2': 0 };
    await page.route('**/api/stats', async (route) => {
      const answer = await route.fetch();
      return route.fulfill({ response: answer, json: { ...await answer.json(), ...given } });
    });
    await page.getByText('Trunk carrier is down.').waitFor();
    assert.deepEqual(await page.locator('.note.bad').allTextContents(),
      ['Trunk carrier is down.', 'Node sip:a is down.', 'Neighbour gate is down.', 'Media relays 127.0.0.1:1, 127.0.0.1:2 are down.']);
    given['trunk_up.carrier'] = 1;
    await page.getByText('Trunk carrier is down.').waitFor({ state: 'detached' });
    await page.unrouteAll({ behavior: 'ignoreErrors' });
  },

  /** Every text of every answer is hostile: it is shown, and no script runs. */
  async hostile() {
    const page = await tab();
    const poison = (value) => {
      if (typeof value === 'string') return value.match(/^\d{4}-/) ? value : `${HOSTILE}${value}`;
      if (Array.isArray(value)) return value.map(poison);
      if (value && typeof value === 'object') return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, poison(inner)]));
      return value;
    };
    const contact = { aor: 'sip:a@b', contact: 'c', transport: 'udp', address: 'x', expires_s: 7, q: 1, permanent: false, instance: 'i', reg_id: 1, path: ['p'] };
    const forwards = { always: 'a', busy: 'b', no_answer: { after_s: 20, to: 't' }, unregistered: 'u' };
    const user = { name: 'n', domain: 'd', password: false, contacts: [contact], forwards };
    const list = (key, item) => ({ [key]: [item], total: 1, next: 'n' });
    const answers = {
      '/api/users': list('users', user), '/api/registrations': list('registrations', contact), '/api/users/': user,
      '/api/calls': list('calls', { call_id: 'c', from: 'f', to: 't', state: 'ringing', age_s: 1 }),
      '/api/records': { records: [{ n: 1, call_id: 'c', from: 'f', to: 't', source: 's', ended: '2026-01-01T00:00:00.000Z', status: 200, reason: 'OK', diverted: 'd' }] },
      '/api/connections': list('connections', { id: 'i', transport: 'tcp', address: 'a', local: 'l', neighbour: 'n', age_s: 1 }),
      '/api/blocks': list('blocks', { id: 1, kind: 'caller', pattern: 'p', user: 'u', reason: 'r', expires_s: 1 }),
      '/api/routes': { file: 'f', version: 'v', text: 't', read_only: 'r', in_force: { k: 'v' } },
      '/api/trunks': list('trunks', { name: 'n', uri: 'u', state: 's', calls: 1, last_answer_s: 1, last_status: 200, logins_refused: 1 }),
      '/api/config': { file: 'f', keys: { k: 'v' } },
      '/api/reload': { ok: true, applied: false, changes: [{ key: 'k', old: 'o', new: 'n', text: 't' }], restart: ['k'], warnings: ['w'], errors: [] },
      '/api/server': { version: 'v', uptime_s: 1, domains: ['d'], listeners: ['l'], workers: 1, file: 'f' },
      '/api/trace': { entries: [{ n: 1, time: '2026-01-01T00:00:00.000Z', kind: 'received', flow: 'f', first_line: 'INVITE', call_id: 'c', cseq: '1', text: 'INVITE\r\nx' }, { n: 2, time: '2026-01-01T00:00:00.001Z', kind: 'decision', flow: 'f', text: 'd', reason: 'r' }], next: 3, lost: 0 },
    };
    let traces = 0;
    await page.route('**/api/**', async (route) => {
      const { pathname } = new URL(route.request().url());
      const key = Object.keys(answers).sort((a, b) => b.length - a.length).find((path) => (path.endsWith('/') ? pathname.startsWith(path) : pathname === path));
      if (!key) return route.continue();
      if (key === '/api/trace' && (traces += 1) > 1) return pause(1000).then(() => route.fulfill({ json: { entries: [], next: 3, lost: 0 } }));
      const refuses = key.endsWith('/') && route.request().method() !== 'GET';
      return route.fulfill(refuses ? { status: 400, json: { error: HOSTILE } } : { json: poison(answers[key]) });
    });
    const shown = '<img src=x onerror="window.hacked=1">';
    for (const hash of ['users', 'users/x', 'calls', 'connections', 'limits', 'blocks', 'routes', 'configuration', 'follow/x', `users/${encodeURIComponent(HOSTILE)}`, encodeURIComponent(HOSTILE), 'constructor', '__proto__', 'users/%', 'overview']) {
      await go(page, hash);
      if (hash === 'calls') await page.getByRole('button', { name: 'Ended' }).click();
      if (hash === 'users') await page.getByRole('button', { name: 'Registered contacts' }).click();
      if (hash === 'configuration') await page.getByRole('button', { name: 'Compare with the file' }).click();
      if (hash === 'routes') await page.getByRole('button', { name: 'Preview' }).click();
      if (hash === 'follow/x') await page.locator('.entry').first().click();
      if (hash === 'users/x') await page.getByRole('button', { name: 'Save forwards' }).click();
      await page.waitForTimeout(250);
      if (hash !== 'limits') assert.ok((await page.locator('body').innerText()).includes(shown.slice(0, 15)), `${hash} shows it as text`);
      assert.equal(await page.locator('main img, main script').count(), 0, `${hash} has no element of a value`);
      assert.ok(!(await page.locator('body').innerText()).includes('\u202e'), `${hash} turns no direction`);
    }
    for (const act of ['Drop', 'Kick']) {
      await go(page, act === 'Drop' ? 'connections' : 'users');
      await page.getByRole('button', { name: act }).first().click();
      await page.locator('dialog').last().getByRole('button', { name: act }).click();
      await page.waitForTimeout(200);
    }
    assert.deepEqual(await page.evaluate(() => [window.hacked, window.violations]), [undefined, undefined]);
  },

  async access() {
    const pages = ['overview', 'users', `users/${name(7)}@example.org`, 'calls', 'follow', 'connections', 'limits', 'blocks', 'routes', 'configuration'];
    for (const colorScheme of ['light', 'dark']) {
      for (const viewport of [WIDE, NARROW]) {
        const page = await tab({ viewport, colorScheme });
        for (const hash of pages) {
          await go(page, hash);
          assert.deepEqual(await contrast(page), [], `contrast of ${hash}, ${colorScheme}`);
          const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
          assert.ok(wide <= 0, `${hash} is ${wide} pixels wider than ${viewport.width}`);
          const squeezed = await page.evaluate(() => [...document.querySelectorAll('.list td .v')].filter((cell) => cell.textContent.trim() && cell.getBoundingClientRect().width < 16).length);
          assert.equal(squeezed, 0, `cells of ${hash} without room, ${viewport.width}`);
        }
      }
    }
    const page = await tab();
    for (const hash of pages) {
      await go(page, hash);
      if (hash === 'users') await page.getByRole('searchbox').fill('user0004'), await page.waitForTimeout(600);
      assert.deepEqual(await keyboard(page), { missed: 0, unseen: [] }, `keyboard on ${hash}`);
    }
    await go(page, 'overview');
    await page.reload();
    await page.locator('main .tile').first().waitFor();
    await page.keyboard.press('Tab');
    assert.equal(await page.evaluate(() => document.activeElement.id), 'skip');
    await page.keyboard.press('Enter');
    assert.equal(await page.evaluate(() => document.activeElement.id), 'main');
    await page.getByRole('button', { name: 'Theme: auto' }).click();
    await page.getByRole('button', { name: 'Theme: light' }).click();
    assert.equal(await page.evaluate(() => getComputedStyle(document.body).colorScheme), 'dark');
  },

  async pictures() {
    if (!pictures) return;
    for (const [viewport, size] of [[WIDE, 'wide'], [NARROW, 'narrow']]) {
      for (const colorScheme of ['light', 'dark']) {
        const page = await tab({ viewport, colorScheme });
        await page.waitForTimeout(size === 'wide' ? 45000 : 12000);
        await picture(page, `dashboard-overview-${size}-${colorScheme}`);
        await go(page, 'users');
        await page.waitForTimeout(400);
        await picture(page, `dashboard-users-${size}-${colorScheme}`);
        if (size === 'narrow' && colorScheme === 'dark') {
          await go(page, 'routes');
          await picture(page, 'dashboard-routes-narrow-dark');
        }
        if (size === 'wide' && colorScheme === 'light') {
          await go(page, `users/${name(7)}@example.org`);
          await picture(page, 'dashboard-user');
          await go(page, 'limits');
          await picture(page, 'dashboard-limits');
        }
      }
    }
    const page = await tab({ at: empty });
    await page.waitForTimeout(5000);
    await picture(page, 'dashboard-empty');
    await go(page, 'users');
    await page.getByText('There are no users yet.').waitFor();
  },
};

/** Phones that register again and ask, so that the plots show something. */
let isBusy = true;
let busy;
async function traffic() {
  for (let turn = 0; isBusy; turn += 1) {
    const crowd = 12 + Math.round(8 * Math.sin(turn / 12));
    for (let index = 0; index < crowd; index += 1) register(name((turn * 20 + index) % (users * 0.9))).catch(() => {});
    if (turn % 3 === 0) request('OPTIONS', `sip:${name(turn % 100)}@example.org`, { user: name(5) }).catch(() => {});
    if (turn % 5 === 0) request('INVITE', `sip:nobody${turn}@example.org`, { user: name(5), lines: [`Contact: <sip:x@127.0.0.1:${port}>`] }).catch(() => {});
    await pause(100);
  }
}

/** Leaves the overview open, for a measurement of the server. */
async function watched() {
  await STEPS.paint();
  say('watching');
  await pause(watch * 1000);
}

/** Registers most users, and takes all steps while their phones are busy. */
async function all() {
  for (let index = 0; index < users * 0.9; index += 50) {
    await Promise.all(Array.from({ length: 50 }, (_, at) => register(name(index + at))));
  }
  say('registered');
  busy = traffic();
  for (const [step, run] of Object.entries(STEPS)) {
    await run();
    assert.deepEqual(faults, [], `faults in ${step}`);
    say(`ok ${step}`);
  }
}

try {
  await (watch ? watched() : all());
  say('passed');
} catch (error) {
  say(`failed: ${error.stack ?? error}`);
  process.exitCode = 1;
} finally {
  isBusy = false;
  await busy;
  await browser.close();
  phones.close();
}
