// Small parts of every view. Text of the image only ever becomes text nodes.

// Letters that change the order or look of others, or have no look.
const ODD = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202f\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff]|[\u{e0000}-\u{e0fff}]/gu;

// Returns text in which nothing is invisible and nothing is turned around.
export function shown(text) {
    return String(text).replace(ODD, (letter) => '\\u{' + letter.codePointAt(0).toString(16) + '}');
}

// Makes an element. Properties: class, data and aria attributes, on* functions, and what HTML has.
export function el(tag, properties, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(properties || {})) {
        if (value === undefined || value === null || value === false) continue;
        if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
        else if (name === 'style') for (const [key, own] of Object.entries(value)) node.style.setProperty(key, own);
        else node.setAttribute(name, value === true ? '' : value);
    }
    for (const child of children.flat()) {
        if (child === undefined || child === null || child === false) continue;
        node.append(child instanceof Node ? child : document.createTextNode(shown(child)));
    }
    return node;
}

export function fill(node, ...children) {
    node.replaceChildren(...children.flat().filter((child) => child));
    return node;
}

// Tells screen readers what changed.
export function say(text) {
    document.getElementById('said').textContent = shown(text);
}

export function grouped(number) {
    return String(number).replace(/\B(?=(\d{3})+(?!\d))/g, '\u2009');
}

export function size(bytes) {
    const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
    let unit = 0;
    let value = bytes;
    while (value >= 1024 && unit < units.length - 1) { value /= 1024; unit += 1; }
    return (unit ? value.toFixed(value < 10 ? 1 : 0) : value) + ' ' + units[unit];
}

export function time(moment) {
    if (moment === null || moment === undefined) return '';
    const seconds = typeof moment === 'number' ? moment : moment.seconds;
    const date = new Date(seconds * 1000);
    return Number.isNaN(date.getTime()) ? String(seconds) : date.toISOString().replace('T', ' ').slice(0, 19);
}

// Makes a table. Columns: [title, value of a row, class].
export function table(caption, columns, rows, properties) {
    const head = columns.map(([title, , kind]) => el('th', { scope: 'col', class: kind }, title));
    const line = (row) => el('tr', properties && properties(row), columns.map(([, value, kind]) => el('td', { class: kind }, value(row))));
    return el('table', {}, el('caption', { class: 'hidden' }, caption), el('thead', {}, el('tr', {}, head)), el('tbody', {}, rows.map(line)));
}

// Makes pages of a long table.
export function pages(caption, columns, rows, count, properties) {
    const place = el('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': caption });
    const where = el('span', { class: 'soft' });
    let from = 0;
    const show = (next) => {
        from = Math.max(0, Math.min(next, Math.max(0, rows.length - 1)));
        fill(place, table(caption, columns, rows.slice(from, from + count), properties));
        where.textContent = `${grouped(rows.length ? from + 1 : 0)} to ${grouped(Math.min(from + count, rows.length))} of ${grouped(rows.length)}`;
    };
    const step = (text, by) => el('button', { onclick: () => show(from + by) }, text);
    show(0);
    return rows.length > count
        ? el('div', {}, el('div', { class: 'bar' }, step('Before', -count), step('After', count), where), place)
        : place;
}

export function facts(rows) {
    return el('dl', {}, rows.filter((row) => row && row[1] !== undefined && row[1] !== null && row[1] !== '')
        .flatMap(([name, value]) => [el('dt', {}, name), el('dd', {}, value)]));
}

// Returns an argument as a shell takes it.
export function quoted(text) {
    return /^[A-Za-z0-9_./:@+=,-]+$/.test(text) ? text : "'" + text.replaceAll("'", "'\\''") + "'";
}

// Shows a command line with a button that copies it.
export function command(text) {
    const code = el('code', {}, text);
    const copy = el('button', {
        'aria-label': 'Copy the command',
        onclick: async () => {
            try {
                await navigator.clipboard.writeText(text);
                say('copied');
                copy.textContent = 'Copied';
            } catch {
                getSelection().selectAllChildren(code);
            }
        },
    }, 'Copy');
    return el('div', { class: 'command' }, code, copy);
}

export function failure(error) {
    return el('p', { class: 'error' }, error.message || String(error));
}

// A canvas as sharp as the screen; `draw` gets its context and its size.
export function canvas(node, width, height, draw) {
    const ratio = window.devicePixelRatio || 1;
    const [wide, high] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
    if (node.width !== wide || node.height !== high) [node.width, node.height] = [wide, high];
    node.style.setProperty('height', height + 'px');
    node.style.setProperty('width', width + 'px');
    const context = node.getContext('2d');
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    draw(context, width, height);
}

// Draws a canvas once it is in the page, and again when the colours change.
export function whenShown(node, draw) {
    let left = 600;
    const wait = () => {
        left -= 1;
        if (node.isConnected) draw();
        else if (left) requestAnimationFrame(wait);
    };
    requestAnimationFrame(wait);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => node.isConnected && draw());
}

export function style(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
