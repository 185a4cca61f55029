// A raw dump: its recipe with the evidence, spare columns, corrected bits, bad blocks.
import { ask } from './api.js';
import { canvas, command, el, facts, fill, grouped, quoted, shown, style, table, whenShown } from './ui.js';
import { empty, inkOn, ramp } from './colour.js';
import { world } from './map.js';

function heat(rows, bad) {
    const node = el('canvas', { class: 'chart', role: 'img', 'aria-label': 'Corrected bits of each block; the table below has the worst ones' });
    const draw = () => {
        const width = node.parentElement.clientWidth;
        const cell = Math.max(4, Math.min(26, Math.floor(Math.sqrt((width * 160) / Math.max(1, rows.length)))));
        const columns = Math.max(1, Math.floor(width / cell));
        const most = Math.max(1, ...rows.map((row) => row.corrected_bits));
        canvas(node, width, Math.max(cell, Math.ceil(rows.length / columns) * cell), (context) => {
            rows.forEach((row, number) => {
                const [x, y] = [(number % columns) * cell, Math.floor(number / columns) * cell];
                context.fillStyle = row.corrected_bits ? ramp(row.corrected_bits / most) : empty();
                context.fillRect(x, y, cell - 1, cell - 1);
                if (bad.has(number) || row.uncorrectable) {
                    context.strokeStyle = style('--bad');
                    context.lineWidth = 2;
                    context.beginPath();
                    context.moveTo(x + 2, y + 2); context.lineTo(x + cell - 3, y + cell - 3);
                    if (bad.has(number)) { context.moveTo(x + cell - 3, y + 2); context.lineTo(x + 2, y + cell - 3); }
                    context.stroke();
                }
            });
        });
    };
    whenShown(node, draw);
    return node;
}

const PARTS = { data: ['D', '#3b7cc4'], parity: ['P', '#e0a830'], spare: ['S', '#4fa8a0'], lead: ['L', '#9a74c9'] };

// Returns a place in bits as bytes, and bits where it is inside of one.
function placeOf(bit) {
    return bit % 8 ? `${Math.floor(bit / 8)}.${bit % 8}` : String(bit / 8);
}

function codeOf(code) {
    if (code.kind === 'bch') return `BCH over GF(2^${code.m}), 0x${code.poly.toString(16)}: ${code.t} bits in a codeword`;
    if (code.kind === 'rs') return `Reed-Solomon over GF(2^${code.m}), 0x${code.poly.toString(16)}: ${code.t} symbols in a codeword`;
    return code.kind === 'hamming' ? `Hamming over ${code.step} bytes, ${code.variant}` : 'none';
}

// Draws what each part of a raw page is.
function pagePicture(recipe, region) {
    const bits = (recipe.page + recipe.oob) * 8;
    const node = el('canvas', { class: 'strip', role: 'img', 'aria-label': 'The parts of a raw page; the table below has the same' });
    whenShown(node, () => {
        const width = node.parentElement.clientWidth;
        canvas(node, width, 60, (context) => {
            context.fillStyle = empty();
            context.fillRect(0, 8, width, 34);
            context.font = '11px sans-serif';
            context.textAlign = 'center';
            for (const slice of region.slices) {
                const [letter, colour] = PARTS[slice.what];
                const [x, wide] = [(slice.from / bits) * width, Math.max(1, ((slice.to - slice.from) / bits) * width)];
                context.fillStyle = colour;
                context.fillRect(x, 8, wide, 34);
                context.fillStyle = style('--panel');
                context.fillRect(x, 8, 0.5, 34);
                if (wide < 14) continue;
                context.fillStyle = inkOn(colour);
                context.fillText(letter + (slice.codeword + 1), x + wide / 2, 29);
            }
            context.strokeStyle = style('--text');
            const end = (recipe.page / (recipe.page + recipe.oob)) * width;
            context.strokeRect(0.5, 4.5, end, 41);
            context.fillStyle = style('--soft');
            context.textAlign = 'right';
            context.fillText(`page, ${recipe.page} bytes`, end, 56);
        });
    });
    return node;
}

function scramblerPart(scrambler) {
    const seeds = scrambler.seeds.map((seed, number) => ({ seed, number }));
    return [el('h3', {}, 'Scrambler'), facts([
        ['polynomial', el('span', { id: 'scrambler', class: 'mono' }, scrambler.polynomial)], ['width', `${scrambler.width} bits`], ['taps', '0x' + scrambler.taps.toString(16)],
        ['steps before the first bit', scrambler.skip], ['seeds repeat after', `${grouped(scrambler.period)} pages`], ['known seeds', `${grouped(scrambler.known_seeds)} of ${grouped(scrambler.period)}`],
        ['covers bytes', scrambler.covers.join(', ')],
    ]), el('details', {}, el('summary', {}, `The first ${seeds.length} seeds`), table('Seeds', [
        ['page', (row) => row.number, 'number'], ['seed', (row) => el('span', { class: 'mono' }, row.seed ? '0x' + row.seed.toString(16) : 'unknown')],
    ], seeds))];
}

function recipePart(recipe) {
    const regions = recipe.regions.map((region) => [
        el('h3', {}, `Blocks ${region.blocks}`), facts([['code', codeOf(region.code)], ['first bit of a byte', region.order === 'msb' ? 'the highest' : 'the lowest'],
            ['inverted', region.invert], ['erased codewords', region.erased]]),
        el('div', {}, pagePicture(recipe, region)),
        el('ul', { class: 'legend' }, Object.entries(PARTS).map(([name, [letter, colour]]) => {
            const box = el('span', { class: 'swatch', 'aria-hidden': 'true' }, letter);
            box.style.setProperty('background', colour);
            box.style.setProperty('color', inkOn(colour));
            return el('li', {}, box, name);
        })),
        el('details', {}, el('summary', {}, `${region.slices.length} parts of a page`), table('Parts of a page', [
            ['from byte', (row) => placeOf(row.from), 'number'], ['to', (row) => placeOf(row.to), 'number'], ['what', (row) => row.what], ['codeword', (row) => row.codeword + 1, 'number'],
        ], region.slices)),
        region.scrambler && scramblerPart(region.scrambler),
    ]);
    const file = el('pre', { class: 'preview', tabindex: '0', 'aria-label': 'The recipe as a file' });
    for (const line of recipe.text.split('\n')) file.append(el('span', {}, line), '\n');
    return el('div', { class: 'panel', id: 'recipe' }, el('h2', {}, `Recipe ${recipe.name}`), regions.flat(3),
        el('details', {}, el('summary', {}, 'As a file for --recipe'), file));
}

export async function dumpView(place) {
    if (!world.summary.is_dump) {
        fill(place, el('div', { class: 'panel' }, el('h2', {}, 'This is no raw dump'),
            el('p', {}, 'Only a dump of pages with their spare bytes has a recipe. To look closer:'), command(`eraseblock nand detect ${quoted(world.target)} --deep`)));
        return;
    }
    const it = await ask('dump');
    const done = it.decoded;
    const bad = new Set(done ? done.bad_blocks : []);
    const worst = it.blocks.map((row, number) => ({ ...row, number })).filter((row) => row.corrected_bits || row.uncorrectable)
        .sort((a, b) => b.uncorrectable - a.uncorrectable || b.corrected_bits - a.corrected_bits).slice(0, 50);
    const isDetected = done && it.detection.recipes.some((row) => row.name === done.recipe && row.confidence === 'certain');
    const bars = el('div', { class: 'columns', role: 'img', 'aria-label': 'Different values of each spare byte' }, it.columns.map((column) => {
        const bar = el('i', { class: column.values <= 1 && 'still', title: `byte ${column.column}: ${column.values} values, ${Math.round(column.erased * 100)} % erased` });
        bar.style.setProperty('height', 3 + (97 * Math.log2(1 + column.values)) / 8 + '%');
        return bar;
    }));
    fill(place, el('div', { class: 'stack' },
        el('div', { class: `panel banner ${isDetected ? 'good' : 'warning'}`, id: 'confidence' },
            done ? `${shown(done.recipe)}: ${isDetected ? 'certain' : 'given, not detected'}. All views show the decoded image.` : `No recipe is certain: ${it.detection.confidence}.`),
        el('div', { class: 'panel' }, el('h2', {}, 'Recipes'), table('Recipes', [
            ['name', (row) => row.name], ['confidence', (row) => el('span', { class: 'tag' }, row.confidence)], ['page', (row) => `${row.page} + ${row.oob}`, 'number'], ['pages in a block', (row) => row.pages_per_block, 'number'],
            ['valid as read', (row) => `${grouped(row.zero_syndromes)} of ${grouped(row.codewords)}`, 'number'], ['decode', (row) => `${grouped(row.explained)} of ${grouped(row.attempted)}`, 'number'], ['chance', (row) => `2^${Math.ceil(row.chance_log2)}`, 'number'],
        ], it.detection.recipes.slice(0, 20)), it.detection.clues.map((clue) => el('p', { class: 'soft' }, clue))),
        done && el('div', { class: 'panel' }, el('h2', {}, 'Decoded'), facts([
            ['pages', grouped(done.pages)], ['codewords', grouped(done.codewords)], ['erased', grouped(done.erased)], ['corrected codewords', grouped(done.corrected)],
            ['corrected bits', el('span', { id: 'corrected-bits' }, grouped(done.corrected_bits))], ['most in a codeword', done.corrected_most], ['lost codewords', done.uncorrectable ? el('strong', { class: 'error' }, done.uncorrectable) : '0'],
            ['zeros in erased codewords', grouped(done.leaked_bits)], ['bad blocks', done.bad_blocks.length ? done.bad_blocks.join(', ') : 'none'],
        ]), command(`eraseblock nand decode ${quoted(world.target)} -o IMAGE${isDetected ? '' : ' --recipe FILE'}`)),
        recipePart(it.recipe),
        it.blocks.length > 0 && el('div', { class: 'panel' }, el('h2', {}, 'Corrected bits of each block'), el('p', { class: 'soft' }, 'A cross is a bad block, a stroke a block with lost codewords.'), el('div', {}, heat(it.blocks, bad)),
            worst.length > 0 && table('The worst blocks', [['block', (row) => el('a', { href: `#/map/${row.number}` }, row.number), 'number'], ['corrected bits', (row) => grouped(row.corrected_bits), 'number'], ['most in a codeword', (row) => row.corrected_most, 'number'], ['lost codewords', (row) => row.uncorrectable, 'number']], worst)),
        el('div', { class: 'panel' }, el('h2', {}, 'Spare bytes of a page'), el('p', { class: 'soft' }, `Bytes ${it.columns.length ? it.columns[0].column : 0} to ${it.columns.length ? it.columns.at(-1).column : 0}: how many different values each one has. Flat ones are constant: markers and unused bytes.`), bars)));
}
