//! Several cases in one boot: each with its script and variables, on its own chip and with its own
//! verdict.

use crate::guest::{Guest, GuestReport, JobDir};
use crate::oracle::Paths;
use anyhow::{Context, Result, bail};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// One case.
#[derive(Debug)]
pub(crate) struct BatchCase {
    /// Its name, and that of its directory.
    pub(crate) name: String,
    /// What the guest runs.
    pub(crate) script: &'static str,
    /// Shell variables for the script; `OUT` is set to the case's directory.
    pub(crate) variables: Vec<(&'static str, String)>,
    /// Files for the script.
    pub(crate) files: Vec<(&'static str, PathBuf)>,
}

/// The result of a batch.
#[derive(Debug)]
pub(crate) struct Batch {
    job: JobDir,
    report: GuestReport,
}

impl Batch {
    /// Boots and runs every case. `programs` are in the guest's PATH.
    pub(crate) fn run(
        guest: &Guest,
        paths: &Paths,
        name: &str,
        programs: &[&Path],
        cases: &[BatchCase],
    ) -> Result<Self> {
        let job = JobDir::create(&paths.work.join(name))?;
        for program in programs.iter().chain(&[paths.manifest_program.as_path()]) {
            job.add_program(program)?;
        }
        job.write("lib.sh", include_str!("../../guest/lib.sh"))?;
        let mut main = String::from("dmesg -c >/dev/null\n");
        for case in cases {
            let dir = job.path().join(&case.name);
            fs::create_dir(&dir)?;
            fs::write(dir.join("case.sh"), case.script)?;
            for (file, from) in &case.files {
                fs::copy(from, dir.join(file))
                    .with_context(|| format!("cannot copy {}", from.display()))?;
            }
            writeln!(main, "echo {} >current", case.name)?;
            write!(main, "OUT=/job/{} ", case.name)?;
            for (variable, value) in &case.variables {
                write!(main, "{variable}='{value}' ")?;
            }
            writeln!(
                main,
                "sh -c '. ./lib.sh; . ./{0}/case.sh' >{0}/output 2>&1; echo $? >{0}/status\n\
                 sh -c '. ./lib.sh; unload'",
                case.name
            )?;
        }
        job.write("job.sh", main)?;
        let report = guest.run(&job)?;
        Ok(Self { job, report })
    }

    /// Returns the seconds from power on to power off.
    pub(crate) fn seconds(&self) -> f64 {
        self.report.elapsed.as_secs_f64()
    }

    /// Returns the directory of a successful case; otherwise the error has the end of its output.
    pub(crate) fn case_dir(&self, name: &str) -> Result<PathBuf> {
        let dir = self.job.path().join(name);
        let output = fs::read(dir.join("output")).unwrap_or_default();
        let output = String::from_utf8_lossy(&output);
        match fs::read_to_string(dir.join("status")) {
            Ok(status) if status.trim() == "0" => Ok(dir),
            Ok(status) => bail!("exited with {}:\n{}", status.trim(), output.trim()),
            Err(_) => {
                let reason = self.report.failure().unwrap_or_default();
                bail!("did not end: {reason}\n{}", output.trim())
            }
        }
    }

    /// Removes the files shared by guest and host.
    pub(crate) fn remove(self) -> Result<()> {
        Ok(fs::remove_dir_all(self.job.path())?)
    }
}
