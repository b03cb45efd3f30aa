// The page Follow draws the ladder that `ringway trace` prints, within its width, and its heads stay while it scrolls.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';

/** `files` is the path of the entries (.json) and of their ladder as it is printed (.txt). */
export async function drawsLadder({ tab, go, contrast, viewports }, files) {
  const [entries, printed] = [JSON.parse(await readFile(`${files}.json`, 'utf8')), await readFile(`${files}.txt`, 'utf8')];
  const words = (line) => line.replace(/-{2,}/g, '--').replace(/ {2,}/g, ' ').trim();
  const [heads, ...lines] = printed.trimEnd().split('\n').map(words);
  for (const viewport of viewports) {
    const page = await tab({ viewport });
    let release;
    const isRead = new Promise((resolve) => { release = resolve; });
    // The answer depends on what the page has: a request that it gave up is answered again.
    const answer = async (after) => {
      if (after === null) return { entries: [], next: 0, lost: 0 };
      if (after < entries.length) return { entries, next: entries.length, lost: 0 };
      if (after > entries.length) {
        await new Promise((resolve) => { setTimeout(resolve, 1000); });
        return { entries: [], next: after, lost: 0 };
      }
      await isRead;
      return { entries: Array(9).fill(entries).flat(), next: 110, lost: 3 };
    };
    await page.route('**/api/trace*', async (route) => {
      const after = new URL(route.request().url()).searchParams.get('after');
      return route.fulfill({ json: await answer(after === null ? null : Number(after)) }).catch(() => {});
    });
    await go(page, 'follow/bob');
    await page.locator('.entry').nth(entries.length - 2).waitFor();
    const drawn = await page.evaluate(() => [...document.querySelectorAll('.rungs > *')].map((row) => {
      if (row.matches('.call-title')) return `== ${row.firstChild.textContent} == ${row.querySelector('.at').textContent}`;
      const part = (element) => (element.matches('.shaft') ? `${element.matches('.left') ? '<' : ''}--${element.matches('.right') ? '>' : ''}` : element.textContent);
      const parts = [...row.querySelector('.rung').children].filter((element) => !element.matches('.hidden')).map(part);
      if (row.matches('.decision')) return `| ${parts}`;
      const seconds = row.querySelector('.time').textContent;
      return [seconds, ...(row.matches('.phone') ? [...parts, '|'] : ['|', ...parts])].join(' ');
    }));
    assert.deepEqual(drawn.map((line) => words(line).replace(/[\u2400-\u241f]/g, '\ufffd')), lines);
    assert.equal((await page.locator('.lanes').innerText()).replace(/\s+/g, ' ').trim().toUpperCase(), heads);
    release();
    await page.getByText('3 messages and decisions are missing here').waitFor();
    const shown = await page.evaluate(() => {
      const holder = document.querySelector('.ladder-holder');
      holder.scrollTop = holder.scrollHeight / 2;
      const [outer, head] = [holder, holder.querySelector('.lanes')].map((element) => element.getBoundingClientRect());
      const texts = [...holder.querySelectorAll('.label, .flow, .decision .v, .time')];
      const box = (element) => element.getBoundingClientRect();
      const isUnreadable = (element) => box(element).left < outer.left || box(element).right > outer.right || box(element).width < 16 || parseFloat(getComputedStyle(element).fontSize) < 11;
      return { scrolled: holder.scrollTop > 100, wide: holder.scrollWidth - holder.clientWidth, head: Math.round(head.top - outer.top), unreadable: texts.filter(isUnreadable).map((element) => element.textContent), text: holder.innerText };
    });
    assert.ok(shown.scrolled && !shown.text.includes('sent-to-next-hop'), 'a sentence without its name for programs');
    assert.deepEqual([shown.wide, shown.head, shown.unreadable], [0, 1, []], `${viewport.width} pixels`);
    assert.deepEqual(await contrast(page), []);
    await page.unrouteAll({ behavior: 'ignoreErrors' });
  }
}
