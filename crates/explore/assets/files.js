// The files: the tree, with deleted names, and what is known of one file.
import { ask, askAll, askBytes, hasContent } from './api.js';
import { command, el, facts, failure, fill, grouped, quoted, say, size, table, time } from './ui.js';
import { miniMap, volumesOf, world } from './map.js';

const PREVIEW = 65536;
const IMAGE = 8 << 20;
const PIXELS = 32 << 20;
const MOST = 50000;

// Asks for the deleted names of a volume, by the path of their directory.
async function deletedNames(vol) {
    const byParent = new Map();
    try {
        const { rows } = await askAll('history', { vol, what: 'deleted' }, 'deleted', MOST);
        for (const row of rows) {
            const cut = row.path.lastIndexOf('/');
            const parent = cut < 0 ? '' : row.path.slice(0, cut);
            if (!byParent.has(parent)) byParent.set(parent, []);
            byParent.get(parent).push({ ...row, name: row.path.slice(cut + 1) });
        }
    } catch {
        // Only UBIFS and JFFS2 keep a past.
    }
    return byParent;
}

const KINDS = { directory: 'd', symlink: 'l', regular: ' ', fifo: 'p', socket: 's', 'block-device': 'b', 'char-device': 'c' };

class Tree {
    constructor(vol, deleted, choose) {
        Object.assign(this, { vol, deleted, choose });
        this.root = el('ul', { class: 'tree', role: 'tree', 'aria-label': 'Files' });
        this.root.addEventListener('keydown', (event) => this.key(event));
    }

    item(entry, path, level) {
        const isDirectory = entry.kind === 'directory';
        const twist = el('span', { class: 'twist', 'aria-hidden': 'true' }, isDirectory ? '\u25b8' : '');
        const name = el('span', { class: 'name' }, entry.name + (entry.target ? ' \u2192 ' + entry.target : ''));
        const note = entry.class ? el('span', { class: 'tag' }, entry.class) : entry.error ? el('span', { class: 'tag error' }, 'damaged') : null;
        const node = el('div', { role: 'treeitem', class: entry.class ? 'gone' : undefined, tabindex: '-1', 'aria-level': level, 'aria-selected': 'false', 'aria-expanded': isDirectory ? 'false' : undefined },
            twist, name, note, el('span', { class: 'size' }, entry.class ? `inode ${entry.ino}` : entry.size !== undefined && !isDirectory ? size(entry.size) : ''));
        node.style.setProperty('padding-left', (level - 1) * 16 + 4 + 'px');
        const line = el('li', { role: 'none' }, node);
        node.open = async () => {
            if (!isDirectory || line.children.length > 1) return;
            node.setAttribute('aria-expanded', 'true');
            twist.textContent = '\u25be';
            line.append(await this.list(entry.ino, path, level + 1));
        };
        node.shut = () => {
            if (line.children.length < 2) return false;
            line.lastChild.remove();
            node.setAttribute('aria-expanded', 'false');
            twist.textContent = '\u25b8';
            return true;
        };
        node.pick = () => {
            for (const other of this.root.querySelectorAll('[aria-selected=true]')) other.setAttribute('aria-selected', 'false');
            node.setAttribute('aria-selected', 'true');
            this.focus(node);
            this.choose(entry, path);
        };
        node.addEventListener('click', () => { node.pick(); if (!node.shut()) node.open(); });
        return line;
    }

    focus(node) {
        for (const other of this.root.querySelectorAll('[tabindex="0"]')) other.tabIndex = -1;
        node.tabIndex = 0;
        node.focus();
    }

    async list(ino, path, level) {
        const list = el('ul', { class: 'tree', role: 'group' });
        try {
            const values = { vol: this.vol, asof: world.asof, ...(ino ? { ino } : {}) };
            const { rows } = await askAll('tree', values, 'entries', MOST);
            const gone = (this.deleted.get(path) || []).filter((it) => !rows.some((row) => row.name === it.name && row.ino === it.ino));
            const below = (name) => (path ? path + '/' + name : name);
            for (const row of rows) list.append(this.item(row, below(row.name), level));
            for (const row of gone) list.append(this.item(row, row.path, level));
            if (!list.children.length) list.append(el('li', { class: 'soft', role: 'none' }, 'empty'));
        } catch (error) {
            list.append(el('li', { role: 'none' }, failure(error)));
        }
        return list;
    }

    key(event) {
        const all = [...this.root.querySelectorAll('[role=treeitem]')];
        const here = all.indexOf(document.activeElement);
        if (here < 0) return;
        const node = all[here];
        const level = (it) => Number(it.getAttribute('aria-level'));
        const go = (to) => to && this.focus(to);
        const keys = {
            ArrowDown: () => go(all[here + 1]), ArrowUp: () => go(all[here - 1]), Home: () => go(all[0]), End: () => go(all.at(-1)),
            ArrowRight: () => (node.getAttribute('aria-expanded') === 'false' ? node.open() : go(all[here + 1])),
            ArrowLeft: () => { if (!node.shut()) go(all.slice(0, here).reverse().find((it) => level(it) < level(node))); },
            Enter: () => node.pick(), ' ': () => node.pick(),
        };
        if (!(event.key in keys)) return;
        event.preventDefault();
        keys[event.key]();
    }
}

// Returns kind, width and height of a picture by its first bytes.
export function pictureOf(bytes) {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const begins = (...wanted) => wanted.every((byte, at) => bytes[at] === byte);
    if (bytes.length > 24 && begins(0x89, 0x50, 0x4e, 0x47)) return ['image/png', view.getUint32(16), view.getUint32(20)];
    if (bytes.length > 10 && begins(0x47, 0x49, 0x46, 0x38)) return ['image/gif', view.getUint16(6, true), view.getUint16(8, true)];
    if (bytes.length > 30 && begins(0x52, 0x49, 0x46, 0x46) && bytes[8] === 0x57) {
        const kind = String.fromCharCode(...bytes.slice(12, 16));
        if (kind === 'VP8 ') return ['image/webp', view.getUint16(26, true) & 0x3fff, view.getUint16(28, true) & 0x3fff];
        if (kind === 'VP8L') { const bits = view.getUint32(21, true); return ['image/webp', (bits & 0x3fff) + 1, ((bits >> 14) & 0x3fff) + 1]; }
        if (kind === 'VP8X') return ['image/webp', (view.getUint32(24, true) & 0xffffff) + 1, (view.getUint32(27, true) & 0xffffff) + 1];
    }
    if (begins(0xff, 0xd8)) {
        for (let at = 2; at + 9 < bytes.length && bytes[at] === 0xff;) {
            const marker = bytes[at + 1];
            if (marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker)) return ['image/jpeg', view.getUint16(at + 7), view.getUint16(at + 5)];
            at += 2 + view.getUint16(at + 2);
        }
    }
    return null;
}

function dump(bytes) {
    const lines = [];
    for (let at = 0; at < Math.min(bytes.length, 4096); at += 16) {
        const part = [...bytes.slice(at, at + 16)];
        lines.push(at.toString(16).padStart(8, '0') + '  ' + part.map((byte) => byte.toString(16).padStart(2, '0')).join(' ').padEnd(48) + ' '
            + part.map((byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : '.')).join(''));
    }
    return lines.join('\n');
}

// Shows the content of a file: a picture, text or bytes. Nothing of it is ever markup.
export async function preview(values, length) {
    if (!hasContent(values)) return el('p', { class: 'soft' }, 'This content is not in this file: run eraseblock explore.');
    let bytes = await askBytes({ ...values, from: 0, len: Math.min(length, PREVIEW) });
    const picture = pictureOf(bytes);
    if (picture && length <= IMAGE && picture[1] * picture[2] <= PIXELS) {
        if (length > bytes.length) bytes = await askBytes({ ...values, from: 0, len: length });
        const url = URL.createObjectURL(new Blob([bytes], { type: picture[0] }));
        const image = el('img', { src: url, alt: `${picture[1]} by ${picture[2]} pixels`, onload: () => URL.revokeObjectURL(url), onerror: () => URL.revokeObjectURL(url) });
        return el('div', { class: 'preview' }, image);
    }
    const text = (() => { try { return new TextDecoder('utf-8', { fatal: true }).decode(length > bytes.length ? bytes.slice(0, -3) : bytes); } catch { return null; } })();
    const place = el('pre', { class: 'preview', tabindex: '0', 'aria-label': 'Preview' });
    const isText = text !== null && !/[\u0000-\u0008\u000e-\u001a]/.test(text);
    // Line ends stay; every other odd letter is escaped, line by line.
    if (isText) for (const line of text.replace(/\n$/, '').split('\n')) place.append(el('span', {}, line.replaceAll('\t', '    ')), '\n');
    else place.append(dump(bytes));
    return place;
}

function versionsTable(vol, versions, place) {
    return table('Versions', [
        ['sqnum', (it) => grouped(it.newest_sqnum), 'number'],
        ['class', (it) => it.class + (it.blocks_missing ? `, ${it.blocks_missing} of ${it.blocks} blocks missing` : '')],
        ['seen in', (it) => (it.is_present ? 'now' : it.first_commit === null ? 'no commit' : `commit ${it.first_commit}` + (it.last_commit !== it.first_commit ? ` to ${it.last_commit}` : ''))],
        ['size', (it) => (it.size === null ? '' : grouped(it.size)), 'number'],
        ['modified', (it) => time(it.mtime)],
        ['content', (it) => (it.size && hasContent({ vol, ino: it.ino, sqnum: it.newest_sqnum }) ? el('button', { onclick: async () => {
            try { fill(place, el('h3', {}, `Version ${it.newest_sqnum}`), await preview({ vol, ino: it.ino, sqnum: it.newest_sqnum }, it.size)); } catch (error) { fill(place, failure(error)); }
        } }, 'Show') : '')],
    ], versions);
}

async function details(place, vol, entry, path) {
    fill(place, el('p', { class: 'wait' }, '\u2026'));
    const target = world.target;
    const parts = [el('h2', { id: 'file-name' }, '/' + path)];
    const content = el('div', {});
    const ino = entry.ino;
    if (!entry.class) {
        try {
            const it = await ask(`inode/${vol}/${ino}`, { asof: world.asof });
            parts.push(facts([
                ['kind', it.kind + (it.target ? ' \u2192 ' + it.target : '')], ['inode', it.ino], ['size', `${grouped(it.size)} bytes`],
                ['permissions', it.permissions], ['owner', `${it.uid}:${it.gid}`], ['names', it.nlink], ['device', it.device && it.device.join(':')],
                ['modified', time(it.mtime)], ['changed', time(it.ctime)], ['accessed', time(it.atime)], ['flags', it.flags.join(' ')],
                ...it.xattrs.map((xattr) => ['xattr ' + xattr.name, el('span', { class: 'mono' }, xattr.value)]),
            ]));
            if (it.places.length) parts.push(...placesOf(it.places, path, it.has_more_places));
            if (it.kind === 'regular') {
                parts.push(el('h3', {}, 'Content'), content);
                try { fill(content, it.size ? await preview({ vol, ino, asof: world.asof }, it.size) : el('p', { class: 'soft' }, 'empty')); } catch (error) { fill(content, failure(error)); }
            }
        } catch (error) {
            parts.push(failure(error));
        }
    } else {
        parts.push(facts([['inode', ino], ['class', entry.class], ['last seen in', entry.last_commit === null ? 'no commit' : 'commit ' + entry.last_commit],
            ['removed by sqnum', entry.removed_by_sqnum], ['has other names', entry.has_other_names ? 'yes' : null]]),
        command(`eraseblock recover ${quoted(target)} FOUND --ino ${ino}`), content);
    }
    try {
        const { rows } = await askAll('history', { vol, ino, what: 'versions' }, 'versions', MOST);
        if (rows.length) parts.push(el('h3', {}, 'Versions'), versionsTable(vol, rows, content));
    } catch {
        // Only UBIFS and JFFS2 keep a past.
    }
    fill(place, parts);
    say('/' + path);
}

function placesOf(places, path, hasMore) {
    const lit = new Map();
    for (const it of places) if (it.block !== null && (!lit.has(it.block) || it.state === 'live')) lit.set(it.block, it.state);
    const live = places.filter((it) => it.state === 'live');
    const links = [...lit.keys()].slice(0, 24).map((block) => el('a', { href: `#/block/${block}/${places.find((it) => it.block === block).at}` }, `block ${block}`)).flatMap((link) => [link, ' ']);
    return [
        el('h3', {}, 'On the flash'),
        miniMap(lit, `${live.length} live structures in ${lit.size} blocks`),
        el('p', { class: 'soft' }, `${grouped(live.length)} live structures, ${size(live.reduce((sum, it) => sum + it.len, 0))}, and ${grouped(places.length - live.length)} old ones${hasMore ? ' at least' : ''} in ${grouped(lit.size)} blocks: `, links,
            el('button', { onclick: () => { world.lit = lit; world.litTitle = '/' + path; location.hash = '#/map'; } }, 'Show on the map')),
    ];
}

export function volumeChoice(vol, to) {
    return el('label', {}, 'Volume', el('select', { id: 'volume', onchange: (event) => { location.hash = to(event.target.value); } },
        volumesOf().map(([id, name]) => el('option', { value: String(id), selected: String(id) === String(vol) }, `${id} ${name}`))));
}

// Returns the volume to begin with: the first one with a file system.
export function usualVolume() {
    const info = world.summary.info;
    const all = (info && info.volumes) || [];
    const found = all.find((it) => it.ubifs) || all[0];
    return found ? String(found.id) : '0';
}

export async function filesView(place, rest) {
    const vol = rest[0] || usualVolume();
    const detail = el('section', { class: 'panel', 'aria-label': 'The chosen file', tabindex: '0' }, el('p', { class: 'soft' }, 'Choose a file: arrow keys move, Enter chooses.'));
    const deleted = await deletedNames(vol);
    const tree = new Tree(vol, deleted, (entry, path) => details(detail, vol, entry, path));
    const top = tree.item({ name: '/', kind: 'directory', ino: null }, '', 1);
    tree.root.append(top);
    top.firstChild.tabIndex = 0;
    top.firstChild.pick = () => tree.focus(top.firstChild);
    fill(place, el('div', { class: 'bar' }, volumeChoice(vol, (id) => `#/files/${id}`),
        world.asof && el('span', { class: 'tag warning' }, `as of ${world.asof}`)),
    el('div', { class: 'files' }, el('section', { class: 'panel', 'aria-label': 'Tree' }, tree.root), detail));
    await top.firstChild.open();
    for (const node of [...tree.root.querySelectorAll('[aria-level="2"][aria-expanded]')].slice(0, 20)) await node.open();
}
