// The past: commits over sequence numbers, and names that are gone.
import { ask, askAll, isFile } from './api.js';
import { canvas, command, el, failure, fill, grouped, pages, quoted, say, style, time } from './ui.js';
import { onTheme, ramp } from './colour.js';
import { usualVolume, volumeChoice } from './files.js';
import { world } from './map.js';

const COMMITS = 100000;

// Draws the commits: how far to the right is the sequence number, how high the number of files.
function timeline(commits, current) {
    const node = el('canvas', { class: 'chart', role: 'img', 'aria-label': `${commits.length} commits over sequence numbers; the table below has the same` });
    const draw = () => {
        if (!node.parentElement) return;
        const width = node.parentElement.clientWidth;
        canvas(node, width, 130, (context) => {
            const last = commits.at(-1).sqnum || 1;
            // Commits that lie close together are spread.
            const first = commits.length > 1 && commits[0].sqnum > last / 4 ? commits[0].sqnum : 0;
            const files = Math.max(1, ...commits.map((it) => it.files));
            const x = (it) => 24 + ((width - 48) * (it.sqnum - first)) / Math.max(1, last - first);
            context.strokeStyle = style('--line');
            context.beginPath();
            context.moveTo(24, 100);
            context.lineTo(width - 24, 100);
            context.stroke();
            context.font = '11px sans-serif';
            context.fillStyle = style('--soft');
            context.fillText(`sqnum ${first}`, 24, 122);
            context.textAlign = 'right';
            context.fillText(`sqnum ${last}`, width - 24, 122);
            context.textAlign = 'center';
            commits.forEach((it, number) => {
                const high = 12 + (66 * it.files) / files;
                const left = it.root_gone ? 0 : 1 - it.gone / Math.max(1, it.leaves);
                context.fillStyle = it.root_gone ? style('--line') : ramp(0.15 + 0.7 * left);
                context.fillRect(x(it) - 4, 100 - high, 8, high);
                if (number === current()) {
                    context.strokeStyle = style('--text');
                    context.lineWidth = 2;
                    context.strokeRect(x(it) - 6, 98 - high, 12, high + 4);
                    context.fillStyle = style('--text');
                    context.fillText(`commit ${it.number}`, Math.max(50, Math.min(width - 50, x(it))), 14);
                }
            });
        });
    };
    onTheme(() => node.isConnected && draw());
    return { node, draw };
}

// Lists the names that are gone.
async function listDeleted(vol, gone) {
    try {
        const { rows } = await askAll('history', { vol, what: 'deleted' }, 'deleted', COMMITS);
        gone.append(rows.length ? pages('Deleted names', [
            ['path', (it) => '/' + it.path], ['inode', (it) => it.ino, 'number'], ['class', (it) => el('span', { class: 'tag' }, it.class)],
            ['last seen in', (it) => (it.last_commit === null ? 'no commit' : 'commit ' + it.last_commit)], ['removed by sqnum', (it) => it.removed_by_sqnum ?? '', 'number'],
        ], rows, 50) : el('p', { class: 'soft' }, 'none is known'));
        if (rows.length) gone.append(command(`eraseblock recover ${quoted(world.target)} FOUND`));
    } catch (error) {
        gone.append(failure(error));
    }
}

export async function pastView(place, rest) {
    const vol = rest[0] || usualVolume();
    const head = el('div', { class: 'bar' }, volumeChoice(vol, (id) => `#/past/${id}`));
    fill(place, head, el('p', { class: 'wait' }, 'The past is being read\u2026'));
    let commits;
    try {
        commits = (await askAll('history', { vol, what: 'commits' }, 'commits', COMMITS)).rows;
    } catch (error) {
        fill(place, head, failure(error));
        return;
    }
    const gone = el('div', { class: 'panel', id: 'deleted' }, el('h2', {}, 'Deleted names'));
    if (!commits.length) {
        fill(place, head, el('div', { class: 'stack' }, el('p', {}, 'No commit of the past is left.'), gone));
        await listDeleted(vol, gone);
        return;
    }
    const at = commits.findIndex((it) => world.asof === 'commit:' + it.number);
    let current = at < 0 ? commits.length : at;
    const picture = timeline(commits, () => current);
    const where = el('strong', { id: 'as-of' });
    const tree = el('div', { class: 'panel', 'aria-label': 'Files of that state', role: 'region' });
    const line = el('div', {});
    let shownState = 0;
    const show = async () => {
        const it = commits[current];
        world.asof = it ? 'commit:' + it.number : '';
        where.textContent = it ? `commit ${it.number}, sequence number ${it.sqnum}` : 'now';
        slider.setAttribute('aria-valuetext', where.textContent);
        fill(line, command(`eraseblock ls -R ${quoted(world.target)}${it ? ` --as-of commit:${it.number}` : ''}`));
        picture.draw();
        shownState += 1;
        const state = shownState;
        try {
            if (isFile && it) throw new Error('files of the past are not in this file: run eraseblock explore');
            const root = await ask('tree', { vol, asof: world.asof, from: 0 });
            if (state !== shownState) return;
            fill(tree, el('h2', {}, 'The root directory then'), el('p', { class: 'mono' }, root.entries.map((entry) => entry.name + (entry.kind === 'directory' ? '/' : '')).join('  ') || 'empty'),
                el('a', { href: `#/files/${vol}` }, 'All files of that state'));
        } catch (error) {
            if (state === shownState) fill(tree, failure(error));
        }
    };
    const slider = el('input', { type: 'range', id: 'slider', min: '0', max: String(commits.length), value: String(current), 'aria-label': 'State of the file system',
        oninput: (event) => { current = Number(event.target.value); show().then(() => say(where.textContent)); } });
    const left = (it) => (it.root_gone ? 'nothing' : it.gone === 0 && it.index_nodes_gone === 0 ? 'all' : it.index_nodes_gone ? 'parts' : `${grouped(it.leaves - it.gone)} of ${grouped(it.leaves)}`);
    const table = pages('Commits', [
        ['commit', (it) => it.number, 'number'], ['sqnum', (it) => grouped(it.sqnum), 'number'], ['files', (it) => grouped(it.files), 'number'],
        ['left', left], ['changes from', (it) => time(it.earliest)], ['to', (it) => time(it.latest)],
        ['state', (it) => el('button', { onclick: () => { current = commits.indexOf(it); slider.value = String(current); show(); } }, 'Go there')],
    ], commits, 50);
    fill(place, head, el('div', { class: 'stack' },
        el('div', { class: 'panel' }, el('div', { class: 'bar' }, el('label', {}, 'Show files as of'), slider, where), el('div', {}, picture.node), line),
        tree,
        el('div', { class: 'panel', id: 'commits' }, el('h2', {}, 'Commits'), table), gone));
    await show();
    await listDeleted(vol, gone);
}
