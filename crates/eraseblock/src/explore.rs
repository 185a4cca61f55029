//! The answers for the local page over an image: everything comes from the calls that the commands
//! make, with the names of fields that they print.
//!
//! # Invariants
//! 1. Nothing is written, but the image of a raw dump into a file without a name.
//! 2. An answer has at most [`ROWS`] rows; what takes long is worked out once, on a thread of its own.
//! 3. The census is taken once, when the image is opened.

mod block;
mod dump;
mod files;
mod index;
mod judged;
mod later;
mod past;
mod space;

use crate::documents::Sum;
use crate::error::{Error, Words};
use crate::info::{Info, VolumeFacts};
use crate::observe::{Notes, Observer};
use crate::target::image;
use crate::target::structures::{self, Cut};
use crate::target::{Place, Shape, span};
use crate::text;
use dump::Dump;
use eraseblock_base::Findings;
use eraseblock_census::Census;
pub use eraseblock_explore::{Answer, Question, Refusal, Server, ServerOptions, Source};
use eraseblock_explore::{LARGEST, report};
use eraseblock_nand_recipe::Recipe;
use files::Files;
use index::Index;
use judged::Judged;
use past::Pasts;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io;
use tempfile::NamedTempFile;

/// Rows of an answer at most.
pub const ROWS: usize = 5000;
/// Bytes of the answers about blocks and structures in a report at most.
const REPORT: usize = 32 << 20;

/// Bytes that the page shows of a record at first.
const SHOWN: u64 = 2048;

/// How the program that shows the page calls the settings of the library.
pub type Spelling = fn(&Words) -> String;

/// An image that was opened to be explored.
#[derive(Debug)]
pub struct Explorer {
    /// The target, as the user named it.
    target: String,
    census: Census,
    index: Index,
    summary: Vec<u8>,
    volumes: Volumes,
    dump: Option<Dump>,
    files: Files,
    pasts: Pasts,
    judged: Judged,
    /// Keeps the locks of the files.
    _locks: Notes,
}

/// What to open for a volume.
#[derive(Clone, Debug)]
struct Volumes {
    place: Place,
    shape: Shape,
    /// The names of the volumes of a UBI, by their numbers.
    names: BTreeMap<u32, Vec<u8>>,
    /// The file that a raw dump was decoded to.
    _decoded: Option<std::sync::Arc<NamedTempFile>>,
}

impl Volumes {
    /// Returns the numbers of the volumes; 0 for the only one.
    fn numbers(&self) -> Vec<u32> {
        if self.names.is_empty() { vec![0] } else { self.names.keys().copied().collect() }
    }

    /// Returns the place of the volume that a question names; the only one for none.
    fn place(&self, question: &Question) -> Result<Place, Refusal> {
        let Some(text) = question.text("vol") else { return Ok(self.place.clone()) };
        let number: u32 =
            text.parse().map_err(|_| Refusal::bad("vol: expected the number of a volume"))?;
        if self.names.is_empty() && number == 0 {
            return Ok(self.place.clone());
        }
        let name = self.names.get(&number);
        let name = name.ok_or_else(|| Refusal::missing(format!("there is no volume {number}")))?;
        Ok(Place { volume: Some(name.clone()), ..self.place.clone() })
    }
}

/// The content of a file, or of a version of one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct WholeContent {
    size: u64,
    volume: u32,
    ino: u64,
    /// The highest sequence number of the version; `None` for the present content.
    sqnum: Option<u64>,
    /// The last commit that has the version: those of one commit are read fastest one after another.
    commit: Option<u64>,
}

impl WholeContent {
    fn query(&self) -> String {
        let Self { volume, ino, .. } = self;
        let sqnum = self.sqnum.map_or_else(String::new, |sqnum| format!("&sqnum={sqnum}"));
        format!("ino={ino}{sqnum}&vol={volume}")
    }

    fn question(&self) -> String {
        format!("content?{}", self.query())
    }
}

#[derive(Serialize)]
struct Summary<'a> {
    target: &'a str,
    size: u64,
    segments: Vec<index::SegmentRow>,
    blocks: usize,
    census: &'a BTreeMap<&'static str, Sum>,
    kinds: &'a [index::KindRow],
    /// What `info` prints.
    info: Option<Located<'a>>,
    /// Why that is not known.
    info_error: Option<String>,
    is_dump: bool,
    findings: Vec<&'a eraseblock_base::Finding>,
    findings_dropped: u64,
}

#[derive(Serialize)]
struct Located<'a> {
    offset: u64,
    #[serde(flatten)]
    info: &'a Info,
}

impl Explorer {
    /// Opens what `place` names, decodes it if it is a raw dump whose recipe is certain or given, and takes
    /// the census. Fails if the file cannot be read.
    pub fn open(
        place: &Place,
        shape: &Shape,
        recipe: Option<&Recipe>,
        spelling: Spelling,
        observer: &mut dyn Observer,
    ) -> Result<Self, Error> {
        let mut notes = Notes::new(observer.is_strict());
        observer.keep_still(&place.path)?;
        let whole = Place { volume: None, ..place.clone() };
        let target = whole.target().to_string_lossy().into_owned();
        let mut cut = structures::cut(&whole, shape, &mut notes)?;
        let dump = Dump::look(&whole, shape, &cut.plan, recipe)?;
        let decoded = dump.as_ref().and_then(Dump::decoded);
        let whole = match &decoded {
            Some(file) => Place { path: file.path().to_owned(), at: None, volume: None },
            None => whole,
        };
        if decoded.is_some() {
            cut = structures::cut(&whole, shape, &mut notes)?;
        }
        let Cut { image, plan } = cut;
        let census = Census::new(image, plan)?;
        let index = Index::take(&census, dump.as_ref(), observer)?;
        let (info, offset, why) = match info(&whole, shape, &mut notes) {
            Ok((info, offset)) => (Some(info), offset, None),
            Err(error) => (None, 0, Some(error.message().to_owned())),
        };
        let names = match &info {
            Some(Info::Ubi(ubi)) => ubi.volumes.iter().map(|it| (it.id, name_of(it))).collect(),
            _ => BTreeMap::new(),
        };
        let summary = json(&Summary {
            target: &target,
            size: census.plan().size,
            segments: index.segments(&census),
            blocks: index.blocks.len(),
            census: &index.states,
            kinds: &index.kinds,
            info: info.as_ref().map(|info| Located { offset, info }),
            info_error: why,
            is_dump: dump.is_some(),
            findings: notes.findings.iter().collect(),
            findings_dropped: notes.findings.dropped(),
        })?;
        let shape = shape.clone();
        let volumes = Volumes { place: whole, shape, names, _decoded: decoded };
        let (files, pasts) = (Files::new(volumes.clone()), Pasts::new(volumes.clone()));
        let judged = Judged::new(volumes.clone(), spelling);
        Ok(Self {
            target,
            census,
            index,
            summary,
            volumes,
            dump,
            files,
            pasts,
            judged,
            _locks: notes,
        })
    }

    /// Returns the target, as the user named it.
    pub fn target(&self) -> &str {
        &self.target
    }

    fn json_of(&self, question: &Question) -> Result<Vec<u8>, Refusal> {
        match question.path()[..] {
            ["summary"] => Ok(self.summary.clone()),
            ["blocks"] => self.index.blocks_document(question),
            ["peb", number] => self.block(number, question),
            ["leb", volume, number] => self.leb(volume, number, question),
            ["node"] => self.node(question),
            ["bytes"] => self.bytes(question),
            ["tree"] => self.files.tree(question),
            ["inode", volume, number] => self.files.inode(volume, number, question, &self.index),
            ["history"] => self.pasts.document(question),
            ["findings"] => self.judged.findings(),
            ["plan"] => self.judged.plan(question),
            ["space"] => self.files.space(question, &self.index),
            ["dump"] => match &self.dump {
                Some(dump) => Ok(dump.document()),
                None => Err(Refusal::missing("it is no raw dump")),
            },
            _ => Err(Refusal::missing("there is no such question")),
        }
    }

    /// Writes the page with its answers into one file, and contents of files and of their versions as far
    /// as all of them together have at most `limit` bytes: the small ones. Fails if `out` does.
    pub fn report(&self, limit: u64, out: &mut dyn io::Write) -> Result<(), Error> {
        let mut answers: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        for question in self.questions() {
            let (path, query) = question.split_once('?').unwrap_or((&question, ""));
            let asked = Question::parse(path, query).map_err(|it| Error::new(it.message))?;
            if let Ok(answer) = self.patient(&asked) {
                answers.insert(question, answer);
            }
        }
        self.blocks_of_report(&mut answers);
        let answers = answers.iter().map(|(question, answer)| (question.as_str(), &answer[..]));
        let contents = self.contents(limit).into_iter();
        let contents = contents.filter_map(|it| Some((it.question(), self.whole(&it)?)));
        Ok(report::write(answers, contents, out)?)
    }

    /// Returns the smallest contents whose sizes do not exceed `limit` together.
    fn contents(&self, limit: u64) -> Vec<WholeContent> {
        let mut all = Vec::new();
        for volume in self.volumes.numbers() {
            all.extend(self.files.contents(volume, limit));
            all.extend(self.pasts.contents(volume, limit));
        }
        all.sort();
        let mut left = limit;
        let fits = |it: &WholeContent| match left.checked_sub(it.size) {
            Some(rest) => {
                left = rest;
                true
            }
            None => false,
        };
        let mut chosen: Vec<WholeContent> = all.into_iter().take_while(fits).collect();
        chosen.sort_by_key(|it| (it.volume, it.sqnum.is_some(), it.commit, it.ino, it.sqnum));
        chosen
    }

    /// Reads a content; `None` if a part of it cannot be read.
    fn whole(&self, it: &WholeContent) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < it.size {
            let query = format!("{}&from={}&len={LARGEST}", it.query(), bytes.len());
            let part = self.content(&Question::parse("content", &query).ok()?).ok()?;
            if part.is_empty() {
                return None;
            }
            bytes.extend(part);
        }
        Some(bytes)
    }

    /// Answers a question, however long that takes.
    fn patient(&self, question: &Question) -> Result<Vec<u8>, Refusal> {
        loop {
            match self.json_of(question) {
                Err(refusal) if refusal.status == 503 => {}
                other => return other,
            }
        }
    }

    /// Returns the questions of a report.
    fn questions(&self) -> Vec<String> {
        let mut all = vec!["summary".to_owned(), "findings".to_owned()];
        let blocks = self.index.blocks.len();
        all.extend((0..blocks).step_by(ROWS).map(|from| format!("blocks?from={from}")));
        if self.dump.is_some() {
            all.push("dump".to_owned());
        }
        for volume in self.volumes.numbers() {
            for what in ["commits", "deleted"] {
                all.push(format!("history?from=0&vol={volume}&what={what}"));
            }
            all.push(format!("plan?vol={volume}"));
            let files = self.files.questions(volume, &self.volumes);
            all.extend(files);
            all.extend(self.pasts.questions(volume));
        }
        all
    }

    /// Adds the records of as many blocks as fit, with the first bytes of each.
    fn blocks_of_report(&self, answers: &mut BTreeMap<String, Vec<u8>>) {
        let mut size = 0;
        for number in 0..self.index.blocks.len() {
            let mut questions = vec![format!("peb/{number}?from=0")];
            for (at, len) in self.records_of(number) {
                questions.push(format!("node?at={at}"));
                questions.push(format!("bytes?at={at}&len={}", len.min(SHOWN)));
            }
            for question in questions {
                let (path, query) = question.split_once('?').unwrap_or((&question, ""));
                let Ok(asked) = Question::parse(path, query) else { continue };
                let Ok(answer) = self.json_of(&asked) else { continue };
                size += answer.len();
                if size > REPORT {
                    return;
                }
                answers.insert(question, answer);
            }
        }
    }
}

impl Source for Explorer {
    fn answer(&self, question: &Question) -> Result<Answer, Refusal> {
        if question.path()[..] == ["content"] {
            return self.content(question).map(Answer::Bytes);
        }
        self.json_of(question).map(Answer::Json)
    }
}

/// By what a volume is named: its name, or its number if it has none.
fn name_of(volume: &VolumeFacts) -> Vec<u8> {
    let name = text::unescape(volume.name.as_bytes());
    let name = name.unwrap_or_else(|| volume.name.clone().into_bytes());
    if name.is_empty() { volume.id.to_string().into_bytes() } else { name }
}

/// What `info` says.
fn info(place: &Place, shape: &Shape, notes: &mut Notes) -> Result<(Info, u64), Error> {
    let span = span::one(place, shape)?;
    let image = image::open_span(place, span, shape, notes)?;
    let info = Info::of(image, place, notes)?;
    Ok((info, span.map_or(0, |span| span.offset)))
}

/// Findings as every document has them.
#[derive(Serialize)]
struct Found<'a> {
    findings: Vec<&'a eraseblock_base::Finding>,
    findings_dropped: u64,
}

impl<'a> Found<'a> {
    fn of(findings: &'a Findings) -> Self {
        Self { findings: findings.iter().collect(), findings_dropped: findings.dropped() }
    }
}

/// Returns a document as bytes.
fn json(document: &impl Serialize) -> io::Result<Vec<u8>> {
    serde_json::to_vec(document).map_err(io::Error::from)
}

/// The same for an answer.
fn answered(document: &impl Serialize) -> Result<Vec<u8>, Refusal> {
    json(document).map_err(|error| host(&error))
}

fn host(error: &io::Error) -> Refusal {
    Refusal { status: 500, message: error.to_string() }
}

fn failed(error: &Error) -> Refusal {
    Refusal::damaged(error.message())
}
