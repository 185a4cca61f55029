// The map: one cell a block.
import { ask } from './api.js';
import { canvas, el, facts, fill, grouped, pages, say, size, style, whenShown } from './ui.js';
import { STATES, empty, inkOn, onTheme, ramp, rampImage, stateColour, volumeColour, volumeLetter } from './colour.js';

// What all views share.
export const world = { summary: null, blocks: null, target: '', asof: '', lit: new Map(), litTitle: '' };

// Reads the columns of all blocks.
export async function readBlocks() {
    const all = {};
    let total = 1;
    for (let from = 0; from < total;) {
        const page = await ask('blocks', { from });
        for (const [name, column] of Object.entries(page)) {
            if (Array.isArray(column)) all[name] = (all[name] || []).concat(column);
        }
        total = page.total;
        if (!page.count) break;
        from += page.count;
    }
    all.total = total;
    all.states = Object.keys(STATES).filter((state) => all[state]);
    return all;
}

const chosen = { measure: 'state', cell: 0, block: null };
let range = null;

const MEASURES = {
    state: { title: 'State' },
    volume: { title: 'Volume' },
    wear: { title: 'Wear (erase counter)', column: 'ec' },
    fill: { title: 'Fill (bytes that are not erased)' },
    age: { title: 'Age (newest sequence number)', column: 'sqnum_max' },
    entropy: { title: 'Entropy (bits a byte)', column: 'entropy' },
    sums: { title: 'Wrong checksums', column: 'wrong_sums' },
    corrected: { title: 'Corrected bits', column: 'corrected_bits' },
};

function valuesOf(measure) {
    const blocks = world.blocks;
    if (measure === 'fill') return blocks.at.map((at, number) => (blocks.free ? 1 - blocks.free[number] / blocks.len[number] : 1));
    return blocks[MEASURES[measure].column];
}

export function volumeName(volume) {
    if (volume === null || volume === undefined) return 'none';
    const info = world.summary.info;
    const known = ((info && info.volumes) || []).find((it) => it.id === volume);
    if (known) return known.name;
    return volume > 0x7fff0000 ? 'volume table or fastmap' : 'volume ' + volume;
}

export function volumesOf() {
    const info = world.summary.info;
    return info && info.volumes ? info.volumes.map((it) => [it.id, it.name]) : [[0, 'the image']];
}

// Returns the block that is looked at: the one that was chosen, or else the one with the most structures.
export function currentBlock() {
    if (chosen.block === null) {
        const live = world.blocks.records;
        chosen.block = live.reduce((best, count, number) => (count > live[best] ? number : best), 0);
    }
    return chosen.block;
}

export function chooseBlock(number) {
    chosen.block = number;
}

// How a block is called.
export function blockName(number) {
    const format = world.summary.segments[world.blocks.segment[number]].format;
    return (format === 'ubi' ? 'PEB ' : format === 'ubifs' ? 'LEB ' : 'block ') + world.blocks.number[number];
}


// Returns colour and letter of a block.
function look(measure, number, values) {
    const blocks = world.blocks;
    if (measure === 'state') return [stateColour(blocks.state[number]), STATES[blocks.state[number]][0]];
    if (measure === 'volume') {
        const volume = blocks.volume[number];
        return volume === null ? [empty(), ' '] : [volumeColour(volume), volumeLetter(volume)];
    }
    const value = values[number];
    if (value === null) return [empty(), ' '];
    const share = range[1] > range[0] ? (value - range[0]) / (range[1] - range[0]) : value > 0 ? 0.5 : 0;
    return [ramp(share), String(Math.min(9, Math.floor(share * 10)))];
}

function measureRange(measure, values) {
    if (measure === 'fill') return [0, 1];
    if (measure === 'entropy') return [0, 8];
    let [least, most] = [Infinity, -Infinity];
    for (const value of values) {
        if (value === null) continue;
        if (value < least) least = value;
        if (value > most) most = value;
    }
    return [measure === 'sums' || measure === 'corrected' ? 0 : least, most];
}

function legend(measure) {
    const item = (colour, letter, text) => {
        const swatch = el('span', { class: 'swatch', 'aria-hidden': 'true' }, letter);
        swatch.style.setProperty('background', colour);
        swatch.style.setProperty('color', inkOn(colour));
        return el('li', {}, swatch, text);
    };
    if (measure === 'state') {
        const census = world.summary.census;
        return el('ul', { class: 'legend', 'aria-label': 'Legend' }, world.blocks.states.map((state) =>
            item(stateColour(state), STATES[state][0], `${state} ${size(census[state].bytes)}`)));
    }
    if (measure === 'volume') {
        const all = [...new Set(world.blocks.volume)].filter((volume) => volume !== null);
        return el('ul', { class: 'legend', 'aria-label': 'Legend' }, all.sort((a, b) => a - b).slice(0, 24)
            .map((volume) => item(volumeColour(volume), volumeLetter(volume), volumeName(volume))));
    }
    const bar = el('span', { class: 'ramp', role: 'img', 'aria-label': 'from low to high' });
    bar.style.setProperty('background', rampImage());
    const text = (value) => (measure === 'fill' ? Math.round(value * 100) + ' %' : Number.isFinite(value) ? grouped(value) : 'none');
    return el('div', { class: 'legend' }, text(range[0]), bar, text(range[1]), ' (digits: tenths)');
}

// The state of a block in its parts, as a bar.
export function meter(number) {
    const blocks = world.blocks;
    const bar = el('div', { class: 'meter', 'aria-hidden': 'true' });
    for (const state of blocks.states) {
        const part = el('i', {});
        part.style.setProperty('background', stateColour(state));
        part.style.setProperty('width', (100 * blocks[state][number]) / blocks.len[number] + '%');
        bar.append(part);
    }
    return bar;
}

function describe(number) {
    const blocks = world.blocks;
    const parts = blocks.states.filter((state) => blocks[state][number]).map((state) => `${state} ${size(blocks[state][number])}`);
    const leb = blocks.leb[number] === null ? '' : `, ${volumeName(blocks.volume[number])} LEB ${blocks.leb[number]}`;
    return `${blockName(number)}${leb}: ${parts.join(', ')}`;
}

function side(number) {
    const blocks = world.blocks;
    const states = blocks.states.filter((state) => blocks[state][number]);
    return [
        el('h2', {}, blockName(number)),
        meter(number),
        facts([
            ...states.map((state) => [state, `${size(blocks[state][number])} (${grouped(blocks[state][number])} bytes)`]),
            ['records', grouped(blocks.records[number])],
            ['wrong checksums', blocks.wrong_sums[number] ? el('strong', { class: 'error' }, blocks.wrong_sums[number]) : '0'],
            ['volume', blocks.volume[number] === null ? null : volumeName(blocks.volume[number])],
            ['LEB', blocks.leb[number]],
            ['erase counter', blocks.ec[number] === null ? null : grouped(blocks.ec[number])],
            ['sequence numbers', blocks.sqnum_min[number] === null ? null : `${grouped(blocks.sqnum_min[number])} to ${grouped(blocks.sqnum_max[number])}`],
            ['entropy', blocks.entropy[number].toFixed(1) + ' bits a byte'],
            ['corrected bits', blocks.corrected_bits && grouped(blocks.corrected_bits[number])],
            ['marked bad', blocks.is_bad && blocks.is_bad[number] ? 'yes' : null],
            ['begins at byte', grouped(blocks.at[number])],
        ]),
        el('p', {}, ''),
        el('a', { href: `#/block/${number}`, id: 'open-block' }, `Open ${blockName(number)}`),
        world.litTitle && el('h3', {}, 'Lit'),
        world.litTitle && el('p', {}, world.litTitle, ' ', el('button', { onclick: () => { world.lit = new Map(); world.litTitle = ''; dispatchEvent(new HashChangeEvent('hashchange')); } }, 'Put out')),
    ];
}

// Draws the cells that are in sight.
function cells(context, width, height, grid, top) {
    const { cell, columns, values, measure } = grid;
    const blocks = world.blocks;
    const [panel, ink] = [style('--panel'), style('--text')];
    const gap = cell >= 8 ? 2 : cell >= 5 ? 1 : 0;
    const isLit = world.lit.size > 0;
    const first = Math.floor(top / cell) * columns;
    const end = Math.min(blocks.total, Math.ceil((top + height) / cell) * columns);
    context.font = `700 ${Math.min(20, Math.floor(cell * 0.45))}px monospace`;
    context.textAlign = 'center';
    context.textBaseline = 'middle';
    for (let number = first; number < end; number += 1) {
        const x = (number % columns) * cell;
        const y = Math.floor(number / columns) * cell - top;
        const side = cell - gap;
        const [colour, letter] = look(measure, number, values);
        context.globalAlpha = isLit && !world.lit.has(number) ? 0.25 : 1;
        context.fillStyle = colour;
        context.fillRect(x, y, side, side);
        if (measure === 'state' && cell >= 12) {
            let from = 0;
            for (const state of blocks.states) {
                const part = (side * blocks[state][number]) / blocks.len[number];
                if (!part) continue;
                context.fillStyle = stateColour(state);
                context.fillRect(x, y + from, side, part + 0.5);
                from += part;
            }
        }
        if (cell >= 16 && letter !== ' ') {
            const isMixed = measure === 'state';
            context.lineWidth = 3;
            context.strokeStyle = panel;
            context.fillStyle = isMixed ? ink : inkOn(colour);
            if (isMixed) context.strokeText(letter, x + side / 2, y + side / 2);
            context.fillText(letter, x + side / 2, y + side / 2);
        }
    }
    context.globalAlpha = 1;
    const x = (chosen.block % columns) * cell;
    const y = Math.floor(chosen.block / columns) * cell - top;
    context.lineWidth = 3;
    context.strokeStyle = panel;
    context.strokeRect(x - 0.5, y - 0.5, cell - gap + 1, cell - gap + 1);
    context.lineWidth = 2;
    context.strokeStyle = ink;
    context.strokeRect(x - 1.5, y - 1.5, cell - gap + 3, cell - gap + 3);
}

export async function mapView(place, rest) {
    const blocks = world.blocks;
    if (rest[0] !== undefined && Number(rest[0]) < blocks.total) chosen.block = Number(rest[0]);
    if (currentBlock() >= blocks.total) chosen.block = 0;
    const grid = { measure: chosen.measure, columns: 1, cell: 16, values: null };
    const picture = el('canvas', { 'aria-hidden': 'true' });
    const spacer = el('div', { class: 'spacer' });
    const current = el('div', { role: 'gridcell', id: 'cell' });
    const field = el('div', { class: 'field', tabindex: '0', role: 'grid', id: 'map', 'aria-label': 'Blocks', 'aria-activedescendant': 'cell' },
        picture, spacer, el('div', { class: 'hidden' }, el('div', { role: 'row' }, current)));
    const panel = el('aside', { class: 'panel scroll', 'aria-label': 'The chosen block', tabindex: '0' });
    const key = el('div', {});
    const draw = () => {
        if (!field.isConnected) return;
        const width = field.clientWidth;
        canvas(picture, width, field.clientHeight, (context) => cells(context, width, field.clientHeight, grid, field.scrollTop));
    };
    let isAsked = false;
    const later = () => {
        if (isAsked) return;
        isAsked = true;
        requestAnimationFrame(() => { isAsked = false; draw(); });
    };
    const layout = () => {
        const [width, height] = [Math.max(60, field.clientWidth - 2), Math.max(60, field.clientHeight - 2)];
        const fitting = Math.floor(Math.sqrt((width * height) / blocks.total));
        grid.cell = chosen.cell || Math.max(4, Math.min(72, fitting));
        grid.columns = Math.max(1, Math.floor(width / grid.cell));
        spacer.style.setProperty('height', Math.ceil(blocks.total / grid.columns) * grid.cell + 'px');
        draw();
    };
    const measure = (name) => {
        chosen.measure = name;
        grid.measure = name;
        grid.values = name === 'state' || name === 'volume' ? null : valuesOf(name);
        range = grid.values && measureRange(name, grid.values);
        fill(key, legend(name));
        later();
    };
    const choose = (number, isQuiet) => {
        chosen.block = Math.max(0, Math.min(blocks.total - 1, number));
        fill(panel, side(chosen.block));
        current.textContent = describe(chosen.block);
        if (!isQuiet) say(describe(chosen.block));
        const y = Math.floor(chosen.block / grid.columns) * grid.cell;
        if (y < field.scrollTop) field.scrollTop = y;
        if (y + grid.cell > field.scrollTop + field.clientHeight) field.scrollTop = y + grid.cell - field.clientHeight;
        later();
    };
    const zoom = (by) => { chosen.cell = Math.max(4, Math.min(96, Math.round(grid.cell * by))); layout(); choose(chosen.block, true); };
    const open = () => { location.hash = `#/block/${chosen.block}`; };
    const at = (event) => {
        const box = field.getBoundingClientRect();
        const column = Math.floor((event.clientX - box.left) / grid.cell);
        const number = Math.floor((event.clientY - box.top + field.scrollTop) / grid.cell) * grid.columns + column;
        return column < grid.columns && number < blocks.total ? number : null;
    };
    field.addEventListener('click', (event) => { const number = at(event); if (number !== null) choose(number); });
    field.addEventListener('dblclick', open);
    field.addEventListener('mousemove', (event) => { const number = at(event); field.title = number === null ? '' : describe(number); });
    field.addEventListener('scroll', later);
    field.addEventListener('keydown', (event) => {
        const page = Math.max(1, Math.floor(field.clientHeight / grid.cell)) * grid.columns;
        const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -grid.columns, ArrowDown: grid.columns, Home: -Infinity, End: Infinity, PageUp: -page, PageDown: page };
        if (event.key in steps) choose(chosen.block + steps[event.key]);
        else if (event.key === 'Enter') open();
        else if (event.key === '+') zoom(1.5);
        else if (event.key === '-') zoom(1 / 1.5);
        else return;
        event.preventDefault();
    });
    const names = Object.keys(MEASURES).filter((name) => name !== 'corrected' || blocks.corrected_bits)
        .filter((name) => !MEASURES[name].column || blocks[MEASURES[name].column].some((value) => value !== null));
    if (!names.includes(chosen.measure)) chosen.measure = 'state';
    const select = el('select', { id: 'measure', onchange: (event) => measure(event.target.value) },
        names.map((name) => el('option', { value: name, selected: name === chosen.measure }, MEASURES[name].title)));
    const rows = () => pages('Blocks', [
        ['block', (number) => el('a', { href: `#/block/${number}` }, blockName(number))],
        ['volume', (number) => (blocks.volume[number] === null ? '' : volumeName(blocks.volume[number]))],
        ['LEB', (number) => blocks.leb[number] ?? '', 'number'],
        ['erase counter', (number) => blocks.ec[number] ?? '', 'number'],
        ['newest sqnum', (number) => blocks.sqnum_max[number] ?? '', 'number'],
        ...blocks.states.map((state) => [state, (number) => grouped(blocks[state][number]), 'number']),
    ], blocks.at.map((at, number) => number), 100);
    const asTable = el('button', { id: 'as-table', 'aria-pressed': 'false', onclick: () => {
        const isOn = asTable.getAttribute('aria-pressed') !== 'true';
        asTable.setAttribute('aria-pressed', String(isOn));
        if (isOn) body.replaceChild(el('div', { class: 'panel scroll', id: 'block-table' }, rows()), body.firstChild);
        else { body.replaceChild(field, body.firstChild); layout(); }
    } }, 'As a table');
    const body = el('div', { class: 'split' }, field, panel);
    fill(place, el('div', { class: 'map' },
        el('div', { class: 'bar' }, el('label', {}, 'Colour', select), key, el('span', { class: 'grow' }),
            el('button', { 'aria-label': 'Smaller cells', onclick: () => zoom(1 / 1.5) }, '\u2212'),
            el('button', { 'aria-label': 'Larger cells', onclick: () => zoom(1.5) }, '+'), asTable),
        el('p', { class: 'soft' }, `${grouped(blocks.total)} blocks, ${size(world.summary.size)}. Arrow keys move, Enter opens a block, + and \u2212 zoom.`),
        body));
    measure(chosen.measure);
    layout();
    choose(chosen.block, true);
    new ResizeObserver(() => { if (field.isConnected) layout(); }).observe(field);
    onTheme(later);
    place.redraw = draw;
}

// A small map that shows where something lies.
export function miniMap(lit, title) {
    const blocks = world.blocks;
    const node = el('canvas', { class: 'mini', role: 'img', 'aria-label': title });
    const draw = () => {
        const width = (node.parentElement && node.parentElement.clientWidth) || 600;
        const cell = Math.max(2, Math.min(14, Math.floor(Math.sqrt((width * 90) / blocks.total))));
        const columns = Math.max(1, Math.floor((width - 2) / cell));
        canvas(node, width - 2, Math.ceil(blocks.total / columns) * cell, (context) => {
            const gap = cell > 4 ? 1 : 0;
            for (let number = 0; number < blocks.total; number += 1) {
                context.fillStyle = lit.has(number) ? stateColour(lit.get(number)) : empty();
                context.fillRect((number % columns) * cell, Math.floor(number / columns) * cell, cell - gap, cell - gap);
            }
        });
    };
    whenShown(node, draw);
    return node;
}
