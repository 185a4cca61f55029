// Space: by path as nested rectangles, and by kind.
import { ask } from './api.js';
import { el, failure, fill, grouped, pages, say, shown, size } from './ui.js';
import { stateColour, volumeColour } from './colour.js';
import { usualVolume, volumeChoice } from './files.js';
import { world } from './map.js';

const SMALLEST = 14;
const MOST = 600;

// Cuts a rectangle into parts of these sizes that are as square as possible.
export function squares(items, box) {
    const result = [];
    let rest = items.filter((item) => item.weight > 0).sort((a, b) => b.weight - a.weight);
    let sum = rest.reduce((total, item) => total + item.weight, 0);
    let { x, y, w, h } = box;
    while (rest.length && w > 0 && h > 0) {
        const short = Math.min(w, h);
        const scale = (w * h) / sum;
        const worst = (row, total) => {
            const length = (total * scale) / short;
            return Math.max(...[row[0], row.at(-1)].map((item) => { const other = (item.weight * scale) / length; return Math.max(length / other, other / length); }));
        };
        let row = [rest[0]];
        let total = rest[0].weight;
        while (row.length < rest.length) {
            const next = rest[row.length];
            if (worst([...row, next], total + next.weight) > worst(row, total)) break;
            row.push(next);
            total += next.weight;
        }
        const length = (total * scale) / short;
        let from = 0;
        for (const item of row) {
            const other = (item.weight * scale) / length;
            result.push(w >= h ? { item, x, y: y + from, w: length, h: other } : { item, x: x + from, y, w: other, h: length });
            from += other;
        }
        if (w >= h) { x += length; w -= length; } else { y += length; h -= length; }
        rest = rest.slice(row.length);
        sum -= total;
    }
    return result;
}

function treemap(children, by, open) {
    const node = el('div', { class: 'treemap', role: 'group', 'aria-label': 'Space by path' });
    const draw = () => {
        const [width, height] = [node.clientWidth, node.clientHeight];
        const weigh = (list) => list.map((child) => ({ child, weight: child[by] }));
        const all = [];
        squares(weigh(children), { x: 0, y: 0, w: width, h: height }).forEach((part, index) => {
            all.push([part, index, true]);
            const inner = { x: part.x + 2, y: part.y + 20, w: part.w - 4, h: part.h - 22 };
            if (part.item.child.children && inner.w > 40 && inner.h > 30) {
                for (const own of squares(weigh(part.item.child.children), inner)) all.push([own, index, false]);
            }
        });
        fill(node, all.filter(([part]) => part.w >= SMALLEST && part.h >= SMALLEST).slice(0, MOST).map(([part, index, isTop]) => {
            const child = part.item.child;
            const text = `${child.name}${child.is_directory ? '/' : ''}`;
            const button = el('button', { title: shown(`${text}: ${size(child.stored)} on the flash, ${size(child.size)} of content, ${child.files} files`), 'aria-label': `${text}, ${size(child[by])}`, onclick: () => child.is_directory && open(child) },
                part.w > 50 ? text : '', part.w > 60 && part.h > 36 && (!child.children || !isTop) ? el('small', {}, size(child[by])) : null);
            for (const [name, value] of Object.entries({ left: part.x, top: part.y, width: part.w, height: part.h })) button.style.setProperty(name, value + 'px');
            button.style.setProperty('background', `color-mix(in srgb, ${volumeColour(index)} ${isTop ? 45 : 75}%, white)`);
            return button;
        }));
    };
    requestAnimationFrame(draw);
    new ResizeObserver(() => node.isConnected && draw()).observe(node);
    return node;
}

function kinds() {
    const rows = world.summary.kinds;
    const total = world.summary.size;
    const states = Object.entries(world.summary.census).sort((a, b) => b[1].bytes - a[1].bytes);
    const bar = el('div', { class: 'meter', 'aria-hidden': 'true' });
    for (const [state, sum] of states) {
        const part = el('i', {});
        part.style.setProperty('background', stateColour(state));
        part.style.setProperty('width', (100 * sum.bytes) / total + '%');
        bar.append(part);
    }
    return [bar, el('table', { id: 'census' }, el('caption', { class: 'hidden' }, 'Bytes by state'),
        el('thead', {}, el('tr', {}, el('th', { scope: 'col' }, 'state'), el('th', { scope: 'col', class: 'number' }, 'records'), el('th', { scope: 'col', class: 'number' }, 'bytes'), el('th', { scope: 'col', class: 'number' }, 'share'))),
        el('tbody', {}, states.map(([state, sum]) => {
            const swatch = el('span', { class: 'swatch', 'aria-hidden': 'true' });
            swatch.style.setProperty('background', stateColour(state));
            return el('tr', { 'data-state': state }, el('td', {}, swatch, ' ' + state), el('td', { class: 'number', 'data-records': sum.records }, grouped(sum.records)), el('td', { class: 'number', 'data-bytes': sum.bytes }, grouped(sum.bytes)), el('td', { class: 'number' }, ((100 * sum.bytes) / total).toFixed(1) + ' %'));
        }))),
    el('h3', {}, 'By kind'),
    pages('Bytes by kind', [['kind', (row) => row.kind], ['state', (row) => row.state], ['records', (row) => grouped(row.records), 'number'], ['bytes', (row) => grouped(row.bytes), 'number']],
        [...rows].sort((a, b) => b.bytes - a.bytes), 40)];
}

export async function spaceView(place, rest) {
    const vol = rest[0] || usualVolume();
    let trail = [];
    let by = 'stored';
    const map = el('div', {});
    const path = el('div', { class: 'bar' });
    const list = el('div', {});
    const show = async () => {
        fill(path, el('button', { class: 'plain', onclick: () => { trail = []; show(); } }, '/'),
            trail.map((it, number) => el('button', { class: 'plain', onclick: () => { trail = trail.slice(0, number + 1); show(); } }, it.name + '/')));
        try {
            const ino = trail.length ? { ino: trail.at(-1).ino } : {};
            const it = await ask('space', { vol, asof: world.asof, ...ino });
            const open = (child) => { if (it.children.includes(child)) trail.push(child); else { const parent = it.children.find((own) => (own.children || []).includes(child)); trail.push(parent, child); } show(); say(child.name); };
            const isNothing = !it.children.some((child) => child[by]);
            fill(map, isNothing ? el('p', { class: 'soft' }, 'Nothing in here takes space.') : treemap(it.children, by, open));
            fill(list, el('h3', {}, 'As a table'), pages('Space by path', [
                ['name', (child) => (child.is_directory ? el('button', { class: 'plain', onclick: () => open(child) }, child.name + '/') : child.name)],
                ['on the flash', (child) => grouped(child.stored), 'number'], ['content', (child) => grouped(child.size), 'number'], ['files', (child) => grouped(child.files), 'number'],
                ['stored', (child) => (child.size ? Math.round((100 * child.stored) / child.size) + ' %' : ''), 'number'],
            ], it.children, 50));
        } catch (error) {
            fill(map, failure(error));
            fill(list);
        }
    };
    const choice = el('select', { onchange: (event) => { by = event.target.value; show(); } }, el('option', { value: 'stored' }, 'bytes on the flash'), el('option', { value: 'size' }, 'bytes of content'));
    fill(place, el('div', { class: 'bar' }, volumeChoice(vol, (id) => `#/space/${id}`), el('label', {}, 'Area', choice), world.asof && el('span', { class: 'tag warning' }, `as of ${world.asof}`)),
        el('div', { class: 'split wide' },
            el('section', { class: 'panel', 'aria-label': 'By path' }, el('h2', {}, 'By path'), path, map, list),
            el('section', { class: 'panel', 'aria-label': 'By state and kind' }, el('h2', {}, 'By state'), kinds())));
    await show();
}
