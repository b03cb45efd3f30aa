// Browser phones for `cargo xtask interop browser`: tabs of one headless Chromium, each with JsSIP.
//
// Reads a command a line from standard input, and prints an event a line:
//   open NAME URL PASSWORD     opens a tab that registers NAME by this WebSocket; an earlier tab of NAME is closed
//   close NAME                 closes the tab, without a word to the server
//   call NAME URI              starts a call
//   answer NAME                answers the ringing call
//   hold NAME, resume NAME     changes the call
//   figures NAME               prints `NAME figures JSON`: the counters of getStats
//   hangup NAME                ends the call
//   trace NAME                 prints `NAME message JSON`, the SIP messages of NAME, and `NAME traced`
// Arguments: the port of the page, and the program of the browser.
import { build } from 'esbuild';
import { chromium } from 'playwright-core';
import { createServer } from 'node:http';
import { createInterface } from 'node:readline';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const [port, executablePath] = process.argv.slice(2);
const folder = dirname(fileURLToPath(import.meta.url));
const bundle = await build({
  entryPoints: [join(folder, 'page.js')], bundle: true, write: false, format: 'iife', platform: 'browser',
  define: { 'process.env.NODE_ENV': '"production"', global: 'globalThis' },
});
const script = bundle.outputFiles[0].text.replaceAll('</script', '<\\/script');
const page = `<!doctype html><meta charset="utf-8"><title>phone</title><audio id="heard" autoplay></audio><script>${script}</script>`;
// An address of the machine itself is a secure context also without TLS, so that the page gets a microphone.
createServer((_, response) => response.setHeader('Content-Type', 'text/html').end(page)).listen(Number(port), '127.0.0.1');

const browser = await chromium.launch({
  executablePath,
  headless: true,
  handleSIGTERM: false,
  args: [
    '--no-sandbox',
    '--use-fake-ui-for-media-stream',
    '--use-fake-device-for-media-stream',
    '--autoplay-policy=no-user-gesture-required',
    '--disable-features=WebRtcHideLocalIpsWithMdns',
    // The calls stay on this machine.
    '--allow-loopback-in-peer-connection',
  ],
});
const end = async () => {
  await browser.close();
  process.exit(0);
};
process.on('SIGTERM', end);
const say = (...words) => process.stdout.write(`${words.join(' ')}\n`);
const context = await browser.newContext();
const tabs = new Map();

async function open(name, url, password) {
  await tabs.get(name)?.close();
  const tab = await context.newPage();
  tab.on('console', (message) => process.stderr.write(`${name}: ${message.text()}\n`));
  tab.on('pageerror', (error) => process.stderr.write(`${name}: ${error}\n`));
  await tab.exposeFunction('report', (...words) => say(name, ...words));
  await tab.goto(`http://127.0.0.1:${port}/`);
  tabs.set(name, tab);
  await tab.evaluate((account) => window.phone.open(account), { name, url, password });
}

say('ready');
for await (const line of createInterface({ input: process.stdin })) {
  const [command, name, ...rest] = line.trim().split(' ');
  try {
    if (command === 'open') await open(name, ...rest);
    else if (command === 'close') await tabs.get(name).close();
    else await tabs.get(name).evaluate(([act, ...words]) => window.phone[act](...words), [command, ...rest]);
  } catch (error) {
    say(name, 'error', error.message.replaceAll('\n', ' '));
  }
}
await end();
