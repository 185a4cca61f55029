//! The files of the page.

/// A file of the page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asset {
    pub(crate) name: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) bytes: &'static [u8],
}

macro_rules! assets {
    ($($name:literal $kind:literal,)*) => {
        [$(Asset {
            name: $name,
            kind: $kind,
            bytes: include_bytes!(concat!("../assets/", $name)),
        },)*]
    };
}

/// The page.
pub(crate) const PAGE: Asset = Asset {
    name: "index.html",
    kind: "text/html; charset=utf-8",
    bytes: include_bytes!("../assets/index.html"),
};

/// How it looks.
pub(crate) const STYLE: Asset = Asset {
    name: "style.css",
    kind: "text/css; charset=utf-8",
    bytes: include_bytes!("../assets/style.css"),
};

/// The modules; each uses only those before it.
pub(crate) const MODULES: [Asset; 11] = assets![
    "api.js" "text/javascript; charset=utf-8",
    "ui.js" "text/javascript; charset=utf-8",
    "colour.js" "text/javascript; charset=utf-8",
    "map.js" "text/javascript; charset=utf-8",
    "block.js" "text/javascript; charset=utf-8",
    "files.js" "text/javascript; charset=utf-8",
    "past.js" "text/javascript; charset=utf-8",
    "findings.js" "text/javascript; charset=utf-8",
    "space.js" "text/javascript; charset=utf-8",
    "dump.js" "text/javascript; charset=utf-8",
    "main.js" "text/javascript; charset=utf-8",
];

/// Returns the file of a name.
pub(crate) fn named(name: &str) -> Option<&'static Asset> {
    const ALL: [Asset; 2] = [PAGE, STYLE];
    ALL.iter().chain(&MODULES).find(|asset| asset.name == name)
}
