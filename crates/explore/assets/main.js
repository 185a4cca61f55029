// The frame: which view is shown.
import { ask, isFile } from './api.js';
import { el, failure, fill, say, shown } from './ui.js';
import { mapView, readBlocks, world } from './map.js';
import { blockView } from './block.js';
import { filesView } from './files.js';
import { pastView } from './past.js';
import { findingsView } from './findings.js';
import { spaceView } from './space.js';
import { dumpView } from './dump.js';

const VIEWS = {
    map: ['Map', mapView], block: ['Block', blockView], files: ['Files', filesView], past: ['History', pastView],
    findings: ['Findings', findingsView], space: ['Space', spaceView], dump: ['Dump', dumpView],
};
const view = document.getElementById('view');
let turn = 0;

async function show() {
    const [, name, ...rest] = location.hash.split('/');
    const [title, render] = VIEWS[name] || VIEWS.map;
    turn += 1;
    const own = turn;
    for (const link of document.querySelectorAll('nav a')) {
        if (link.textContent === title) link.setAttribute('aria-current', 'page');
        else link.removeAttribute('aria-current');
    }
    document.title = `${title}: ${shown(world.target)}`;
    // A view that comes too late fills a place that nobody sees any more.
    const place = el('div', { id: 'place' });
    place.style.setProperty('height', '100%');
    fill(view, place);
    view.dataset.ready = '';
    try {
        await render(place, rest);
    } catch (error) {
        fill(place, failure(error));
    }
    if (own === turn) {
        view.dataset.ready = name || 'map';
        say(title);
    }
}

async function start() {
    try {
        world.summary = await ask('summary');
        world.target = world.summary.target;
        document.getElementById('target').textContent = shown(world.target) + (isFile ? ' (a report)' : '');
        world.blocks = await readBlocks();
    } catch (error) {
        fill(view, failure(error));
        return;
    }
    const tabs = Object.entries(VIEWS).filter(([name]) => name !== 'dump' || world.summary.is_dump);
    fill(document.getElementById('tabs'), tabs.map(([name, [title]]) => el('a', { href: `#/${name}` }, title)));
    addEventListener('hashchange', show);
    await show();
}

start();
