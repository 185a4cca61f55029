// Questions to the server, or to the answers that the file itself holds.

const inside = document.getElementById('answers');
const answers = inside ? JSON.parse(inside.textContent) : null;
export const isFile = answers !== null;
const KEPT = 400;
const AGAIN = 300;
const cache = new Map();

function takeToken() {
    if (isFile) return '';
    if (/^#[0-9a-f]{64}$/.test(location.hash)) {
        sessionStorage.setItem('token', location.hash.slice(1));
        history.replaceState(null, '', '#/map');
    }
    return sessionStorage.getItem('token') || '';
}
const token = takeToken();

function questionOf(path, values) {
    const parts = Object.entries(values || {}).sort(([a], [b]) => (a < b ? -1 : 1));
    return parts.length ? path + '?' + parts.map(([name, value]) => name + '=' + value).join('&') : path;
}

async function request(question) {
    for (;;) {
        const response = await fetch('api/' + question, { headers: { 'x-eraseblock-token': token } });
        if (response.ok) return response;
        if (response.status !== 503) {
            const why = await response.text();
            const lost = response.status === 401 ? 'this page lost its secret: open the address again' : '';
            throw new Error(lost || why || 'the server answers ' + response.status);
        }
        await new Promise((done) => setTimeout(done, AGAIN));
    }
}

// Returns the answer to a question.
export async function ask(path, values) {
    const question = questionOf(path, values);
    if (isFile) {
        const answer = answers[question];
        if (answer === undefined) throw new Error('this report does not contain it: run eraseblock explore');
        return answer;
    }
    if (!cache.has(question)) {
        if (cache.size >= KEPT) cache.delete(cache.keys().next().value);
        cache.set(question, request(question).then((response) => response.json()));
        cache.get(question).catch(() => cache.delete(question));
    }
    return cache.get(question);
}

// Returns the content of a file as this file holds it, or undefined.
function contentOf({ vol, ino, sqnum, asof }) {
    return asof ? undefined : answers[questionOf('content', { vol, ino, ...(sqnum === undefined ? {} : { sqnum }) })];
}

// Returns whether a content can be shown.
export function hasContent(values) {
    return !isFile || contentOf(values) !== undefined;
}

// Returns bytes of a file in the image.
export async function askBytes(values) {
    if (isFile) {
        const content = contentOf(values);
        if (content === undefined) throw new Error('this report does not have this content: run eraseblock explore');
        const bytes = Uint8Array.from(atob(content), (letter) => letter.charCodeAt(0));
        return bytes.subarray(values.from, values.from + values.len);
    }
    const response = await request(questionOf('content', values));
    return new Uint8Array(await response.arrayBuffer());
}

// Returns all rows of a list that comes in pages.
export async function askAll(path, values, name, most) {
    const all = [];
    for (;;) {
        const page = await ask(path, { ...values, from: all.length });
        all.push(...page[name]);
        if (all.length >= page.total || all.length >= most || !page[name].length) return { rows: all, total: page.total };
    }
}
