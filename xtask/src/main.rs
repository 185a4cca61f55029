//! Repository tasks: the kernel oracle, benches against peers, mutated images, tidiness.
#![allow(clippy::print_stdout, clippy::print_stderr)] // printing is what these tasks are for

mod abi;
mod api;
mod bench;
mod binwalk;
mod browser;
mod capi;
mod circles;
mod command;
mod consumer;
mod copy;
mod cuts;
mod damage;
mod dist;
mod evaluate;
mod explore;
mod guest;
mod kernel;
mod mutants;
mod mutate;
mod oracle;
mod planted;
mod posix;
mod python;
mod site;
mod subject;
mod suite;
mod tidy;
mod turns;

use std::process::ExitCode;

/// Measurements in this process use the same allocator as the command.
#[cfg(not(feature = "heap"))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The same allocator, counting the bytes in use. Counting takes about as long as allocating, so it is
/// left to the one measurement that needs it.
#[cfg(feature = "heap")]
#[global_allocator]
static ALLOCATOR: cap::Cap<mimalloc::MiMalloc> = cap::Cap::new(mimalloc::MiMalloc, usize::MAX);

/// Returns the bytes of the heap in use, if they are counted.
#[cfg(feature = "heap")]
#[allow(clippy::unnecessary_wraps)] // without the feature there is no count
pub(crate) fn heap() -> Option<usize> {
    Some(ALLOCATOR.allocated())
}

/// Returns the bytes of the heap in use, if they are counted.
#[cfg(not(feature = "heap"))]
pub(crate) const fn heap() -> Option<usize> {
    None
}

const USAGE: &str = "usage: cargo xtask TASK
  api [--baseline REVISION]        the public interface of the library against its list, and with that
                                   of a revision, for C as well
  oracle [--only NAME] [--list] [--keep] [--fresh] [--bin FILE] [--builder ours|debian]
         [--short] [--prepare]
                                   real Linux judges what is written and read here
  bench [--tree DIR] [--rounds N] [--only PART] [--strict]
                                   our command against its peers in one run; --strict fails when
                                   a figure is missed
  binwalk                          the signatures for binwalk-ng, a workspace of their own
  capi                             the C library, used by C and C++ programs
  circles FOLDER                   circles of calls between the files of a folder
  consumer                         a project outside uses the packaged crates alone
  cuts [--only LAYER] [--full] [--bin FILE]
                                   power cuts of UBI, JFFS2 and UBIFS, judged
  damage [--asm] [--count N] [--shard I/N]
                                   random damage of UBIFS, UBI and JFFS2 with a known past,
                                   repaired; or of images that disasm and asm must make again
  damage --linux [--count N] [--peer DIR] [--bin FILE]
                                   real Linux mounts what was repaired, and fsck.ubifs in DIR
                                   repairs what the damage scripts damaged
  dist [--check]                   static program, packages, sources, man pages, checksums and SBOM;
                                   --check builds them again elsewhere, and installs and uses them
  evaluate [--quick | --no-guest] [--guests nand,card,disk,cuts] [--linux-from FILE] [--fresh]
         [--write] [--out DIR] [--bin FILE]
                                   all published tables, measured again in process and in real
                                   Linux: target/evaluate/index.html and results.json; --write
                                   also writes docs/evaluation.md; --fresh takes nothing kept;
                                   --linux-from takes what no guest measures from a results.json
  evaluate card [--tables] [--bin FILE]
                                   measurements of cards against the model, UBIFS on a card, and a
                                   stranger's measurements in real Linux; --tables without Linux
  evaluate cuts [--system NAME,...] [--level V0,...] [--states N] [--pile N] [--quick] [--fresh]
         [--planted | --replay ID]
                                   power cuts on block file systems of real Linux, and on UBIFS in
                                   process; --planted: faults that must be found
  evaluate disk [--quick | --no-guest] [--system NAME,...] [--bin FILE]
                                   file systems of real Linux, and UBIFS in process, on a card
  evaluate nand [--table NAME,...] [--partition MIB,...] [--json FILE] [--linux | --linux-from FILE]
                                   published tables of raw NAND alone, as text
  explore [--bin FILE] [--figures] [--screenshots]
                                   the page of `eraseblock explore` in Chromium
  mutants [--count N] [--seed S] [--shard I/N] [--only TEXT] [--jobs N] [--survivors | --again]
         [--list] [--report]
                                   mistakes made by machine in the write paths must be caught
  mutate [--count N] [--seed S]    damaged images of every format
  planted [--table | --renew]      bugs planted in a copy of the sources must be caught
  posix [--short] [--only KIND] [--suite NAME]
                                   public suites on mounts of UBIFS, JFFS2 and the model
  python [--wheel]                 tests of the Python package, with --wheel also of its plug-ins
  wheel [--profile NAME]           the Python package as a wheel, in target/wheels
  site [--bin FILE] [--check] [--screenshots]
                                   the documentation as a site, in target/site; --check follows its
                                   links and searches it in Chromium
  subject ...                      what the oracle judges and the command cannot show
  test [--full] [--list] [--only STEP]
                                   every step of make test or make test-full, with times and counts
  tidy                             the rules that neither compiler nor clippy checks";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some((task, rest)) = args.split_first() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    if rest.iter().any(|arg| arg == "--help" || arg == "-h") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let outcome = match task.as_str() {
        "oracle" => oracle::run(rest),
        "api" => api::run(rest),
        "bench" => bench::run(rest),
        "capi" => capi::run(rest),
        "circles" => circles::run(rest),
        "consumer" => consumer::run(),
        "cuts" => cuts::run(rest),
        "damage" => damage::run(rest),
        "binwalk" => binwalk::run(rest),
        "dist" => dist::run(rest),
        "explore" => explore::run(rest),
        "evaluate" => evaluate::run(rest),
        "mutants" => mutants::run(rest),
        "mutate" => mutate::run(rest),
        "planted" => planted::run(rest),
        "posix" => posix::run(rest),
        "python" => python::run(rest),
        "wheel" => python::wheel(rest),
        "test" => suite::run(rest),
        "site" => site::run(rest),
        "subject" => subject::run(rest),
        "tidy" => tidy::run(),
        "--help" | "-h" => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
