// A block: its structures as a strip, the fields of one of them, and its bytes, which light each other.
import { ask } from './api.js';
import { canvas, command, el, facts, failure, fill, grouped, quoted, say, shown, size, style } from './ui.js';
import { inkOn, onTheme, stateColour } from './colour.js';
import { blockName, chooseBlock, currentBlock, volumeName, world } from './map.js';

const ROW = 16;
const SHOWN = 2048;
const LISTED = 200;

// The strip: the records at their places.
function strip(rows, document_, current, choose) {
    const node = el('canvas', { class: 'strip', tabindex: '0', role: 'slider', 'aria-label': 'Structures of the block', 'aria-valuemin': '0', 'aria-valuemax': String(rows.length - 1) });
    const x = (at, width) => ((at - document_.at) / document_.len) * width;
    const draw = () => {
        const width = node.parentElement.clientWidth - 2;
        canvas(node, width, 58, (context) => {
            rows.forEach((row, number) => {
                const [from, to] = [x(row.at, width), x(row.at + row.len, width)];
                const colour = stateColour(row.state);
                context.fillStyle = colour;
                const isChosen = number === current();
                context.fillRect(from, isChosen ? 4 : 12, Math.max(1, to - from - (to - from > 3 ? 1 : 0)), isChosen ? 50 : 34);
                const name = row.kind.replace(/^[a-z0-9]+\./, '');
                if (to - from > 9 * name.length + 6) {
                    context.fillStyle = inkOn(colour);
                    context.font = '12px monospace';
                    context.fillText(name, from + 5, 34);
                }
                if (row.crc === 'bad') {
                    context.fillStyle = style('--bad');
                    context.fillRect(from, 8, Math.max(2, to - from), 4);
                }
                if (isChosen) {
                    context.strokeStyle = style('--text');
                    context.lineWidth = 2;
                    context.strokeRect(from, 4, Math.max(3, to - from), 50);
                }
            });
        });
        const row = rows[current()];
        node.setAttribute('aria-valuenow', String(current()));
        if (row) node.setAttribute('aria-valuetext', `${row.kind}, ${row.state}, ${row.len} bytes`);
    };
    node.addEventListener('click', (event) => {
        const box = node.getBoundingClientRect();
        const at = document_.at + ((event.clientX - box.left) / box.width) * document_.len;
        const found = rows.findIndex((row) => at >= row.at && at < row.at + row.len);
        if (found >= 0) choose(found);
    });
    node.addEventListener('keydown', (event) => {
        const steps = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1, PageUp: -20, PageDown: 20, Home: -Infinity, End: Infinity };
        if (!(event.key in steps)) return;
        event.preventDefault();
        choose(Math.max(0, Math.min(rows.length - 1, current() + steps[event.key])));
    });
    onTheme(() => node.isConnected && draw());
    return { node, draw };
}

// The bytes of a record; `lit` is told which one is pointed at.
function hexTable(bytes, at, lit) {
    const rows = [];
    const cells = new Map();
    for (let from = 0; from < bytes.length; from += ROW) {
        const line = [el('th', { scope: 'row' }, (at + from).toString(16).padStart(8, '0'))];
        let letters = '';
        for (let column = 0; column < ROW; column += 1) {
            const byte = bytes[from + column];
            const cell = el('td', {}, byte === undefined ? '  ' : byte.toString(16).padStart(2, '0') + (column === 7 ? ' ' : ''));
            if (byte !== undefined) {
                cell.dataset.at = String(from + column);
                cells.set(from + column, cell);
                letters += byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : '.';
            }
            line.push(cell);
        }
        rows.push(el('tr', {}, line, el('td', { class: 'letters' }, letters)));
    }
    const node = el('table', { class: 'hex' }, el('caption', { class: 'hidden' }, 'Bytes'), el('tbody', {}, rows));
    node.addEventListener('mouseover', (event) => {
        const cell = event.target.closest('td[data-at]');
        if (cell) lit(Number(cell.dataset.at));
    });
    return { node, cells };
}

// The fields; those of one element are together.
function fieldTree(fields, light) {
    const list = el('ul', { class: 'fields' });
    const groups = new Map();
    const buttons = [];
    for (const [number, field] of fields.entries()) {
        const start = Math.floor(field.bit / 8);
        const button = el('button', { onfocus: () => light(number), onmouseenter: () => light(number), tabindex: number ? '-1' : '0' },
            el('span', { class: 'label' }, field.label + ' '),
            el('span', { class: 'mono' }, field.value, field.expected && el('strong', { class: 'error' }, ` should be ${field.expected}`)));
        button.dataset.start = String(start);
        buttons.push(button);
        const group = /^(.*\[\d+\])\./.exec(field.label);
        let where = list;
        if (group) {
            if (!groups.has(group[1])) {
                const inner = el('ul', { class: 'fields' });
                groups.set(group[1], inner);
                list.append(el('li', {}, el('details', { open: groups.size <= 4 }, el('summary', {}, group[1]), inner)));
            }
            where = groups.get(group[1]);
        }
        where.append(el('li', {}, button));
    }
    list.addEventListener('keydown', (event) => {
        const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
        const here = buttons.indexOf(document.activeElement);
        if (!step || here < 0) return;
        event.preventDefault();
        const visible = buttons.filter((button) => button.offsetParent !== null);
        const next = visible[visible.indexOf(buttons[here]) + step];
        if (next) { buttons[here].tabIndex = -1; next.tabIndex = 0; next.focus(); }
    });
    return { list, buttons };
}

function reference(it) {
    const number = world.blocks.at.findIndex((at, block) => it.at >= at && it.at < at + world.blocks.len[block]);
    return el('li', {}, el('a', { href: `#/block/${number}/${it.at}` }, it.address), ` ${it.kind}, ${it.state}`);
}

async function record(row, places) {
    const [fieldsPlace, hexPlace, factsPlace] = places;
    let node;
    try {
        node = await ask('node', { at: row.at });
    } catch (error) {
        fill(fieldsPlace, failure(error));
        fill(hexPlace);
        return;
    }
    let hex = null;
    const light = (number) => {
        for (const lit of document.querySelectorAll('.hex .lit, .fields .lit')) lit.classList.remove('lit');
        const field = node.fields[number];
        if (!field) return;
        tree.buttons[number].classList.add('lit');
        const end = Math.ceil((field.bit + field.bits) / 8);
        if (!hex) return;
        for (let at = Math.floor(field.bit / 8); at < end; at += 1) {
            const cell = hex.cells.get(at);
            if (cell) cell.classList.add('lit');
        }
    };
    const tree = fieldTree(node.fields, light);
    const pointed = (at) => {
        const number = node.fields.findIndex((field) => at * 8 + 7 >= field.bit && at * 8 < field.bit + field.bits);
        light(number);
        if (number >= 0 && tree.buttons[number].offsetParent) tree.buttons[number].scrollIntoView({ block: 'nearest' });
    };
    fill(fieldsPlace, node.fields.length ? tree.list : el('p', { class: 'soft' }, 'These bytes have no structure.'));
    fill(factsPlace, facts([
        ['state', node.state], ['key', node.key], ['inode', node.ino], ['sequence number', node.sqnum],
        ['checksums', node.crc && el('span', { class: node.crc === 'bad' ? 'error' : 'good' }, node.crc)],
        ['byte', `${grouped(node.at)}, ${grouped(node.len)} bytes`],
        ['LEB', node.leb === null ? null : `${volumeName(node.volume)} ${node.leb}:${node.leb_offset}`],
        ['referred to by', node.referred_by && el('ul', { class: 'records' }, reference(node.referred_by))],
        ['refers to', node.refers_to.length ? el('details', {}, el('summary', {}, `${node.refers_to.length} structures`), el('ul', { class: 'records' }, node.refers_to.map(reference))) : null],
    ]), command(`eraseblock debug ${quoted(world.target)} -c ${quoted(`explain ${node.address}`)}`));
    const isRun = node.kind === 'run';
    let length = Math.min(row.len, SHOWN);
    const bytes = async () => {
        try {
            const got = await ask('bytes', { at: row.at, len: length });
            const all = Uint8Array.from(got.hex.match(/../g) || [], (pair) => parseInt(pair, 16));
            hex = hexTable(all, row.at, pointed);
            const more = length < row.len && el('button', { onclick: () => { length = Math.min(row.len, length * 4, 65536); bytes(); } }, 'More bytes');
            fill(hexPlace, isRun && el('p', { class: 'soft' }, `One byte, ${grouped(row.len)} times:`), hex.node, more);
        } catch (error) {
            fill(hexPlace, failure(error));
        }
    };
    await bytes();
}

export async function blockView(place, rest) {
    const asked = rest[0] === undefined ? currentBlock() : Number(rest[0]) || 0;
    const number = Math.max(0, Math.min(world.blocks.total - 1, asked));
    chooseBlock(number);
    const found = await ask('peb/' + number, { from: 0 });
    const rows = found.rows;
    const wanted = Number(rest[1]);
    let current = Math.max(0, rows.findIndex((row) => (rest[1] === undefined ? /^ubifs|^jffs2/.test(row.kind) : wanted >= row.at && wanted < row.at + row.len)));
    const list = el('ul', { class: 'records' });
    const listPlace = el('div', { class: 'scroll' }, list);
    const places = [el('div', { class: 'scroll', id: 'fields' }), el('div', { class: 'scroll', id: 'hex', tabindex: '0', role: 'region', 'aria-label': 'Bytes of the record' }), el('div', {})];
    let first = 0;
    const draw = () => {
        first = Math.max(0, Math.min(first, rows.length - 1));
        fill(list, rows.slice(first, first + LISTED).map((row, index) => {
            const button = el('button', { 'aria-current': first + index === current && 'true', onclick: () => choose(first + index), tabindex: first + index === current ? '0' : '-1' },
                row.kind, row.crc === 'bad' && el('span', { class: 'tag error' }, 'crc'), el('span', { class: 'mono' }, `${row.at - found.at}`));
            button.style.setProperty('border-left-color', stateColour(row.state));
            return el('li', {}, button);
        }));
        picture.draw();
    };
    const choose = (next, isQuiet) => {
        current = next;
        if (current < first || current >= first + LISTED) first = Math.floor(current / LISTED) * LISTED;
        draw();
        const row = rows[current];
        const button = list.querySelector('[aria-current]');
        if (button) button.scrollIntoView({ block: 'nearest' });
        if (!isQuiet) {
            say(`${row.kind}, ${row.state}, ${row.len} bytes`);
            history.replaceState(null, '', `#/block/${number}/${row.at}`);
        }
        return record(row, places);
    };
    list.addEventListener('keydown', (event) => {
        const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
        if (!step || !rows[current + step]) return;
        event.preventDefault();
        choose(current + step);
        const button = list.querySelector('[aria-current]');
        if (button) button.focus();
    });
    const picture = strip(rows, found, () => current, (next) => choose(next));
    const go = (to) => { location.hash = `#/block/${to}`; };
    const input = el('input', { type: 'number', min: '0', max: String(world.blocks.total - 1), value: String(number), onchange: (event) => go(Number(event.target.value)) });
    fill(place, el('div', { class: 'block' },
        el('div', { class: 'bar' },
            el('h2', {}, blockName(number)),
            el('span', { class: 'soft' }, found.leb === null ? '' : `${shown(volumeName(found.volume))} LEB ${found.leb}, `, `${size(found.len)} at byte ${grouped(found.at)}, ${grouped(found.total)} records`),
            el('span', { class: 'grow' }),
            el('button', { onclick: () => go(number - 1), disabled: number === 0 }, 'Previous'),
            el('label', {}, 'Block', input),
            el('button', { onclick: () => go(number + 1), disabled: number + 1 >= world.blocks.total }, 'Next'),
            el('a', { href: `#/map/${number}` }, 'On the map')),
        el('div', {}, picture.node),
        el('div', { class: 'three' },
            el('section', { class: 'panel', 'aria-label': 'Records' }, el('h2', {}, 'Records'), listPlace),
            el('section', { class: 'panel', 'aria-label': 'Fields' }, el('h2', {}, 'Fields'), places[0], places[2]),
            el('section', { class: 'panel', 'aria-label': 'Bytes' }, el('h2', {}, 'Bytes'), places[1]))));
    if (rows.length) await choose(current, true);
}
