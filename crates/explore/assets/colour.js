// Colours that are told apart with any eyes, each with a letter.

export const STATES = {
    live: ['L', '#3b7cc4'], superseded: ['S', '#e0a830'], deleted: ['D', '#d9643a'], doubtful: ['?', '#9a74c9'],
    torn: ['T', '#b3202c'], padding: ['.', '#b9c2cf'], free: [' ', '#e3e7ed'], garbage: ['G', '#8a6a45'],
    'old-block': ['O', '#4fa8a0'], foreign: ['F', '#d77fb4'], unknown: ['U', '#8b95a5'],
};
const DARK = { free: '#2b3442', padding: '#566274' };
const CIVIDIS = ['#00224e', '#123570', '#3b496c', '#575d6d', '#707173', '#8a8678', '#a59c74', '#c3b369', '#e1cc55', '#fee838'];
const VOLUMES = ['#3b7cc4', '#e0a830', '#4fa8a0', '#d9643a', '#9a74c9', '#7aa33f', '#d77fb4', '#8a6a45'];
const dark = matchMedia('(prefers-color-scheme: dark)');

export function onTheme(redraw) {
    dark.addEventListener('change', redraw);
}

export function stateColour(state) {
    return (dark.matches && DARK[state]) || (STATES[state] || STATES.unknown)[1];
}

// Returns the letter that is read best on a colour.
export function inkOn(colour) {
    const [r, g, b] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
    return 0.299 * r + 0.587 * g + 0.114 * b > 125 ? '#10151d' : '#ffffff';
}

export function empty() {
    return stateColour('free');
}

export function ramp(share) {
    return CIVIDIS[Math.max(0, Math.min(CIVIDIS.length - 1, Math.floor(share * CIVIDIS.length)))];
}

export function rampImage() {
    return 'linear-gradient(to right, ' + CIVIDIS.join(', ') + ')';
}

export function volumeColour(volume) {
    return volume > 0x7fff0000 ? '#8b95a5' : VOLUMES[volume % VOLUMES.length];
}

export function volumeLetter(volume) {
    return volume > 0x7fff0000 ? '#' : String.fromCharCode(97 + (volume % 26));
}
