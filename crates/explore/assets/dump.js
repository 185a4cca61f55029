// A raw dump: its recipe with the evidence, spare columns, corrected bits, bad blocks.
import { ask } from './api.js';
import { canvas, command, el, facts, fill, grouped, quoted, shown, style, table, whenShown } from './ui.js';
import { empty, ramp } from './colour.js';
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
    const bars = el('div', { class: 'columns', role: 'img', 'aria-label': 'Different values of each spare byte' }, it.columns.map((column) => {
        const bar = el('i', { class: column.values <= 1 && 'still', title: `byte ${column.column}: ${column.values} values, ${Math.round(column.erased * 100)} % erased` });
        bar.style.setProperty('height', 3 + (97 * Math.log2(1 + column.values)) / 8 + '%');
        return bar;
    }));
    fill(place, el('div', { class: 'stack' },
        el('div', { class: `panel banner ${it.detection.confidence === 'certain' ? 'good' : 'warning'}`, id: 'confidence' },
            done ? `${shown(done.recipe)}: ${it.detection.confidence}. All views show the decoded image.` : `No recipe is certain: ${it.detection.confidence}.`),
        el('div', { class: 'panel' }, el('h2', {}, 'Recipes'), table('Recipes', [
            ['name', (row) => row.name], ['confidence', (row) => el('span', { class: 'tag' }, row.confidence)], ['page', (row) => `${row.page} + ${row.oob}`, 'number'], ['pages in a block', (row) => row.pages_per_block, 'number'],
            ['valid as read', (row) => `${grouped(row.zero_syndromes)} of ${grouped(row.codewords)}`, 'number'], ['decode', (row) => `${grouped(row.explained)} of ${grouped(row.attempted)}`, 'number'], ['chance', (row) => `2^${Math.ceil(row.chance_log2)}`, 'number'],
        ], it.detection.recipes.slice(0, 20)), it.detection.clues.map((clue) => el('p', { class: 'soft' }, clue))),
        done && el('div', { class: 'panel' }, el('h2', {}, 'Decoded'), facts([
            ['pages', grouped(done.pages)], ['codewords', grouped(done.codewords)], ['erased', grouped(done.erased)], ['corrected codewords', grouped(done.corrected)],
            ['corrected bits', el('span', { id: 'corrected-bits' }, grouped(done.corrected_bits))], ['most in a codeword', done.corrected_most], ['lost codewords', done.uncorrectable ? el('strong', { class: 'error' }, done.uncorrectable) : '0'],
            ['zeros in erased codewords', grouped(done.leaked_bits)], ['scrambler', done.scrambler || 'none'], ['bad blocks', done.bad_blocks.length ? done.bad_blocks.join(', ') : 'none'],
        ]), command(`eraseblock nand decode ${quoted(world.target)} -o IMAGE`)),
        it.blocks.length > 0 && el('div', { class: 'panel' }, el('h2', {}, 'Corrected bits of each block'), el('p', { class: 'soft' }, 'A cross is a bad block, a stroke a block with lost codewords.'), el('div', {}, heat(it.blocks, bad)),
            worst.length > 0 && table('The worst blocks', [['block', (row) => el('a', { href: `#/map/${row.number}` }, row.number), 'number'], ['corrected bits', (row) => grouped(row.corrected_bits), 'number'], ['most in a codeword', (row) => row.corrected_most, 'number'], ['lost codewords', (row) => row.uncorrectable, 'number']], worst)),
        el('div', { class: 'panel' }, el('h2', {}, 'Spare bytes of a page'), el('p', { class: 'soft' }, `Bytes ${it.columns.length ? it.columns[0].column : 0} to ${it.columns.length ? it.columns.at(-1).column : 0}: how many different values each one has. Flat ones are constant: markers and unused bytes.`), bars)));
}
