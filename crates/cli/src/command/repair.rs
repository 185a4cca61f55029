//! `eraseblock repair`: the plan of a repair, and the repair of a copy or of the file itself.

use crate::args::{TargetArgs, size64};
use crate::failure::{Context, Failure};
use crate::session::Session;
use eraseblock::Finding;
use eraseblock::documents::Outcome;
use eraseblock::raw::mtd::Access;
use eraseblock::raw::repair::{Action, Level, Loss, Plan};
use eraseblock::target::Place;
use eraseblock::target::repair::{Examined, examine, take_back_interrupted};
use eraseblock::text;
use std::io::{Seek, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// Arguments of `repair`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Without -o and --in-place only the plan is printed. Exit codes: 0 nothing to do, or repaired \
                        and nothing is lost; 1 there is a plan, or repaired and what the plan names is lost; 2 usage; \
                        3 could not: then nothing is delivered."
)]
pub(crate) struct RepairArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// Repair a copy of the file, and write it here
    #[arg(short, long, value_name = "FIXED")]
    output: Option<PathBuf>,
    /// Repair the file itself; --undo names the file by which that can be taken back
    #[arg(long, requires = "undo", conflicts_with = "output")]
    in_place: bool,
    /// Where the undo file is made; it must not exist
    #[arg(long, value_name = "FILE", requires = "in_place")]
    undo: Option<PathBuf>,
    /// How far the repair may go
    #[arg(long, value_name = "LEVEL", default_value = "safe")]
    level: LevelArg,
    /// Size of the flash that a UBI image is made for, if the image is shorter
    #[arg(long, value_name = "SIZE", value_parser = size64)]
    size: Option<u64>,
    /// Write the plan here, one JSON object a line
    #[arg(long, value_name = "FILE")]
    plan_out: Option<PathBuf>,
    /// Repair only if the plan is the one in this file, which --plan-out wrote
    #[arg(long, value_name = "FILE")]
    apply: Option<PathBuf>,
    /// Write the bytes of what is removed into this folder
    #[arg(long, value_name = "DIR")]
    quarantine: Option<PathBuf>,
}

/// How far a repair may go.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum LevelArg {
    /// Only what follows from something intact: no byte of a file is lost
    Safe,
    /// Also remove what cannot be what it claims to be; the plan names each loss
    Drop,
    /// Also make the index from a scan of all nodes
    Rebuild,
}

impl LevelArg {
    fn level(self) -> Level {
        match self {
            Self::Safe => Level::Safe,
            Self::Drop => Level::Drop,
            Self::Rebuild => Level::Rebuild,
        }
    }
}

/// Plans, and repairs.
pub(crate) fn run(args: &RepairArgs, session: &mut Session) -> Result<(), Failure> {
    let place = Place::parse(&args.target.target)?;
    let access = if args.in_place { Access::Write } else { Access::Read };
    if let Some(undo) = &args.undo
        && take_back_interrupted(undo, &place.path)?
    {
        let path = place.path.display();
        session.remark(&format!("{path}: an interrupted repair was taken back first"));
    }
    let examined =
        examine(&place, &args.target.shape.shape(), (access, args.level.level()), session)?;
    let examined = examined.flash_size(args.size);
    let plan = examined.plan();
    if let Some(path) = &args.plan_out {
        write_plan(path, plan, session)?;
    }
    if let Some(path) = &args.apply {
        expect_plan(path, plan)?;
    }
    let wants_repair = args.output.is_some() || args.in_place;
    if wants_repair {
        allow(args.level.level(), &place, plan)?;
    }
    if !session.options.json {
        print(args, plan, examined.left(), session)?;
    }
    if let Some(folder) = args.quarantine.as_ref().filter(|_| wants_repair) {
        examined.write_quarantine(folder)?;
    }
    let repaired = deliver(args, &place, &examined, session)?;
    let loses: Vec<&Loss> = plan.losses().collect();
    let left = examined.left();
    if !plan.is_empty() && (!wants_repair || !loses.is_empty()) || !left.is_empty() {
        session.differs();
    }
    if !session.options.json {
        return Ok(());
    }
    session.json(&Outcome::of(&examined, repaired))
}

/// Fails unless the plan needs no more than this level.
fn allow(level: Level, place: &Place, plan: &Plan) -> Result<(), Failure> {
    let Some(needed) = plan.level().filter(|needed| *needed > level) else { return Ok(()) };
    let beyond = plan.actions().iter().filter(|action| action.level > level).count();
    let count = text::count(beyond as u64, "action needs", "actions need");
    let path = place.path.display();
    Err(Failure::new(format!("{path}: {count} more than the level {}", level.name()))
        .hint(format!("--level {} allows them", needed.name())))
}

/// Repairs where that was asked for; returns whether anything was written.
fn deliver(
    args: &RepairArgs,
    place: &Place,
    examined: &Examined,
    session: &mut Session,
) -> Result<bool, Failure> {
    if let Some(path) = &args.output {
        let mut output = session.create(path)?;
        let mut source = std::fs::File::open(&place.path).context(place.path.display())?;
        std::io::copy(&mut source, &mut output.file).context(path.display())?;
        output.file.rewind().context(path.display())?;
        if !examined.plan().is_empty() {
            // A file that is not complete has no name yet.
            let copy = format!("/proc/self/fd/{}", output.file.as_raw_fd());
            examined
                .repair(Path::new(&copy), session)
                .map_err(|error| Failure::from(error).context(path.display()))?;
        }
        output.commit()?;
        let is_whole = examined.plan().is_empty();
        let done = if is_whole { "a copy" } else { "repaired, and verified" };
        session.remark(&format!("{}: {done}", path.display()));
        return Ok(!is_whole);
    }
    let Some(undo) = args.undo.as_ref().filter(|_| !examined.plan().is_empty()) else {
        return Ok(false);
    };
    let report = examined.in_place(undo, session)?;
    let places = text::count(report.places, "place", "places");
    let (shown, target) = (undo.display(), place.path.display());
    session.remark(&format!(
        "{target}: repaired in {places}; `eraseblock undo {shown} {target}` takes it back"
    ));
    Ok(true)
}

fn lines(plan: &Plan) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    for action in plan.actions() {
        serde_json::to_writer(&mut bytes, action).map_err(std::io::Error::from)?;
        bytes.push(b'\n');
    }
    Ok(bytes)
}

fn write_plan(path: &Path, plan: &Plan, session: &mut Session) -> Result<(), Failure> {
    let mut output = session.create(path)?;
    output.file.write_all(&lines(plan)?).context(path.display())?;
    output.commit()
}

fn expect_plan(path: &Path, plan: &Plan) -> Result<(), Failure> {
    let wanted = std::fs::read(path).context(path.display())?;
    if wanted == lines(plan)? {
        return Ok(());
    }
    let message = format!("{}: the image needs another plan than this", path.display());
    Err(Failure::new(message).hint("the image has changed since: look at its plan again"))
}

/// Returns a line for each problem that is left.
fn lines_of(left: &[Finding]) -> impl Iterator<Item = String> {
    left.iter().map(|one| format!("left: {}: {} [{}]", one.at, one.message, one.code))
}

fn print(
    args: &RepairArgs,
    plan: &Plan,
    left: &[Finding],
    session: &mut Session,
) -> Result<(), Failure> {
    let target = args.target.target.display();
    let Some(needed) = plan.level() else {
        let what =
            if left.is_empty() { "nothing to repair" } else { "nothing that a rule repairs" };
        return session.lines([format!("{target}: {what}")].into_iter().chain(lines_of(left)));
    };
    let actions = plan.actions();
    let level = args.level.level();
    let beyond = actions.iter().filter(|action| action.level > level).count() as u64;
    let mut head = format!("plan for {target}, level {}", needed.name());
    if beyond > 0 {
        let count = text::count(beyond, "action needs", "actions need");
        head = format!("{head}; {count} --level {}", needed.name());
    }
    let mut all = vec![head];
    all.extend(actions.iter().map(Action::line));
    let losses: Vec<&Loss> = plan.losses().collect();
    for loss in &losses {
        all.push(format!("loses {}", loss.describe()));
    }
    if losses.is_empty() {
        all.push("loses nothing".to_owned());
    }
    all.extend(lines_of(left));
    if args.output.is_none() && !args.in_place {
        let more = match needed {
            Level::Safe => String::new(),
            other => format!(" --level {}", other.name()),
        };
        all.push(format!(
            "nothing written; to repair a copy: eraseblock repair {target} -o FIXED{more}"
        ));
    }
    session.lines(all)?;
    // Remarks about the repair follow on standard error.
    Ok(session.out.flush()?)
}
