// What scrolls must be reachable with the keyboard.
const reach = () => {
    for (const block of document.querySelectorAll("pre > code, .manual pre, .md-typeset__scrollwrap")) {
        const scrolls = block.scrollWidth > block.clientWidth || block.scrollHeight > block.clientHeight;
        if (scrolls) {
            block.tabIndex = 0;
        }
    }
};
addEventListener("load", reach);
addEventListener("resize", reach);
