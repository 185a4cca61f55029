// What check finds, and what repair would do.
import { ask } from './api.js';
import { command, el, failure, fill, grouped, pages, quoted, shown } from './ui.js';
import { blockName, volumesOf, world } from './map.js';

const MARKS = { error: '\u2716', warning: '\u25b2', note: '\u2022' };

// Leads to the block that a place as text names.
function placeLink(at) {
    const found = /^(?:volume (\d+) )?(peb|leb) (\d+)(?::(\d+))?$/.exec(at);
    if (!found) return at;
    const blocks = world.blocks;
    const [, volume, kind, number, offset] = found;
    const segments = world.summary.segments;
    const block = blocks.number.findIndex((it, index) => {
        const format = segments[blocks.segment[index]].format;
        if (kind === 'peb' || format !== 'ubi') return format !== 'bytes' && it === Number(number);
        const isVolume = volume !== undefined ? blocks.volume[index] === Number(volume) : volumesOf().some(([id]) => id === blocks.volume[index]);
        return isVolume && blocks.leb[index] === Number(number);
    });
    if (block < 0) return at;
    const ubi = segments[blocks.segment[block]].format === 'ubi' && world.summary.info;
    const skip = kind === 'leb' && ubi ? ubi.data_offset || 0 : 0;
    const byte = blocks.at[block] + skip + Number(offset || 0);
    return el('a', { href: `#/block/${block}/${byte}`, title: shown(blockName(block)) }, at);
}

function lossOf(loss) {
    const whose = loss.path === null ? `inode ${loss.ino}` : '/' + loss.path;
    const what = { content: `bytes ${loss.from} to ${loss.to - 1}`, name: 'the name', attributes: 'owner, permissions and times', xattr: `the xattr ${loss.name || ''}`, journal: 'what a damaged part of the journal held' }[loss.what];
    return `${whose}: ${what || loss.what}`;
}

async function plan(place, volume, name, isOnly) {
    fill(place, el('p', { class: 'wait' }, `The plan of ${name} is being made\u2026`));
    const target = quoted(world.target + (isOnly ? '' : ':' + name));
    let it;
    try {
        it = await ask('plan', { vol: volume });
    } catch (error) {
        fill(place, el('h2', {}, `Repair of ${name}`), failure(error));
        return;
    }
    if (!it.actions.length) {
        fill(place, el('h2', {}, `Repair of ${name}`), el('p', { class: 'good' }, 'Nothing to repair.'));
        return;
    }
    const level = it.level === 'safe' ? '' : ` --level ${it.level}`;
    fill(place,
        el('h2', {}, `Repair of ${name}: ${it.actions.length} actions, level ${it.level}`),
        pages('Actions', [
            ['n', (row) => row.n, 'number'], ['level', (row) => el('span', { class: 'tag' }, row.level)], ['where', (row) => placeLink(row.at)],
            ['what', (row) => `${row.do} ${row.field || ''}${row.to !== undefined ? `: ${row.from} \u2192 ${row.to}` : ''}`], ['why', (row) => row.why],
            ['rule', (row) => el('span', { class: 'mono' }, `${row.code} ${row.rule}`)],
        ], it.actions, 50),
        el('h3', {}, 'What would be lost'),
        it.loses.length ? el('ul', { id: 'loses' }, it.loses.slice(0, 500).map((loss) => el('li', { class: 'error' }, lossOf(loss)))) : el('p', { class: 'good' }, 'Nothing.'),
        el('p', {}, 'This page changes nothing. To repair a copy:'),
        command(`eraseblock repair ${target} -o FIXED${level}`));
}

export async function findingsView(place) {
    fill(place, el('p', { class: 'wait' }, 'Everything is being verified\u2026'));
    const parts = el('div', { class: 'stack' });
    try {
        const it = await ask('findings');
        const count = (severity) => it.findings.filter((row) => row.severity === severity).length;
        parts.append(el('div', { class: `panel banner ${it.consistent ? 'good' : 'error'}`, id: 'verdict' },
            it.consistent ? 'Consistent: nothing is wrong.' : `Not consistent: ${count('error')} errors, ${count('warning')} warnings, ${count('note')} notes.`));
        const list = el('div', { class: 'panel', id: 'findings' }, el('h2', {}, `${grouped(it.findings.length)} findings`));
        if (it.findings.length) {
            list.append(pages('Findings', [
                ['severity', (row) => el('span', { class: row.severity }, `${MARKS[row.severity]} ${row.severity}`)],
                ['where', (row) => placeLink(row.at)], ['what', (row) => row.message], ['code', (row) => el('span', { class: 'mono' }, row.code)], ['remedy', (row) => row.remedy || ''],
            ], it.findings, 100));
        }
        if (it.findings_dropped) list.append(el('p', {}, `${grouped(it.findings_dropped)} more were counted, not kept.`));
        for (const step of it.next_steps) list.append(el('p', { class: 'soft' }, step));
        list.append(command(`eraseblock check ${quoted(world.target)} --all-findings`));
        parts.append(list);
    } catch (error) {
        parts.append(el('div', { class: 'panel' }, failure(error)));
    }
    fill(place, parts);
    const info = world.summary.info;
    const volumes = (info && info.volumes ? info.volumes.filter((it) => it.ubifs).map((it) => [it.id, it.name]) : [[0, 'the image']]);
    for (const [volume, name] of volumes) {
        const own = el('div', { class: 'panel', id: 'plan' });
        parts.append(own);
        await plan(own, volume, name, volumes.length === 1);
    }
}
