//! The log of a served card: requests, and the marks of the guest.
//!
//! # Invariants
//! 1. The card's time of a log depends on its requests and the parameters alone: any card can replay it.
//! 2. A mark is a read that nothing but the guest's driver does; it belongs to no step.

use crate::evaluate::card::ours::Cost;
use anyhow::{Context, Result, bail, ensure};
use eraseblock_card::{Card, Parameters};
use std::collections::BTreeMap;

const SECTOR: u64 = 512;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Read,
    Write,
    WriteThrough,
    Flush,
    Trim,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Request {
    kind: Kind,
    offset: u64,
    length: u64,
    /// What the server said that it cost.
    service_ns: u64,
}

/// The requests of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Log {
    requests: Vec<Request>,
    /// Names of the marks, in order.
    marks: Vec<String>,
}

/// What each step costs the card, by its name.
pub(super) type Steps = BTreeMap<String, Cost>;

impl Log {
    /// Parses the log of `card serve --log` and the names of the marks.
    pub(super) fn parse(csv: &str, marks: &str) -> Result<Self> {
        let requests: Result<Vec<Request>> = csv.lines().skip(1).map(request).collect();
        let marks = marks.lines().map(str::to_owned).collect();
        Ok(Self { requests: requests?, marks })
    }

    /// Replays the requests on a new card; the cost of each step ends at the mark of its name.
    pub(super) fn replay(&self, parameters: &Parameters) -> Result<Steps> {
        self.replay_checked(parameters, |_, _| Ok(()))
    }

    /// The same on the card that was served: every request must cost what the log says.
    pub(super) fn replay_same(&self, parameters: &Parameters) -> Result<Steps> {
        self.replay_checked(parameters, |request, cost| {
            ensure!(
                cost == request.service_ns,
                "{request:?} costs {cost} ns now: the model has changed (hint: --fresh)"
            );
            Ok(())
        })
    }

    fn replay_checked(
        &self,
        parameters: &Parameters,
        check: impl Fn(&Request, u64) -> Result<()>,
    ) -> Result<Steps> {
        let card = Card::in_memory(parameters.clone())?;
        let mut marks = self.marks.iter().enumerate();
        let mut next = marks.next();
        let mut steps = Steps::new();
        let mut begin = card.counters();
        let mut buffer = Vec::new();
        for request in &self.requests {
            let before = card.counters();
            carry_out(&card, request, &mut buffer)?;
            let after = card.counters();
            check(request, after.total_ns() - before.total_ns())?;
            let Some((number, name)) = next else { continue };
            let place = parameters.capacity - SECTOR * (number as u64 + 1);
            let is_mark = request.kind == Kind::Read && request.length == SECTOR;
            if is_mark && request.offset == place {
                steps.insert(name.clone(), Cost::between(&begin, &before));
                begin = after;
                next = marks.next();
            }
        }
        if let Some((_, name)) = next {
            bail!("the log has no mark `{name}`");
        }
        Ok(steps)
    }
}

fn carry_out(card: &Card, request: &Request, buffer: &mut Vec<u8>) -> Result<()> {
    let length = usize::try_from(request.length)?;
    if buffer.len() < length && request.kind != Kind::Trim {
        buffer.resize(length, 0);
    }
    match request.kind {
        Kind::Read => card.read(request.offset, &mut buffer[..length])?,
        Kind::Write | Kind::WriteThrough => {
            buffer[..length].fill(0);
            let data = &buffer[..length];
            match request.kind {
                Kind::Write => card.write(request.offset, data)?,
                _ => card.write_through(request.offset, data)?,
            }
        }
        Kind::Flush => card.flush()?,
        Kind::Trim => card.trim(request.offset, request.length)?,
    }
    Ok(())
}

/// Parses a line: number, kind, FUA, offset, length, arrival, service, completion, result, hash.
fn request(line: &str) -> Result<Request> {
    let fields: Vec<&str> = line.split(',').collect();
    let [_, kind, fua, offset, length, _, service, _, result, _] = fields[..] else {
        bail!("no line of a log: {line}");
    };
    ensure!(result == "ok", "a request failed: {line}");
    let kind = match (kind, fua) {
        ("read", _) => Kind::Read,
        ("write", "0") => Kind::Write,
        ("write", _) => Kind::WriteThrough,
        ("flush", _) => Kind::Flush,
        ("trim", _) => Kind::Trim,
        _ => bail!("an unknown request: {line}"),
    };
    let number = |text: &str| text.parse::<u64>().with_context(|| line.to_owned());
    Ok(Request {
        kind,
        offset: number(offset)?,
        length: number(length)?,
        service_ns: number(service)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use eraseblock_card::presets;
    use std::fmt::Write as _;

    fn parameters() -> Parameters {
        presets::find("sd-2012-c10").unwrap().parameters.with_capacity(64 << 20)
    }

    /// Requests as a server logs them.
    fn csv(requests: &[(&str, u64, u64)]) -> String {
        let card = Card::in_memory(parameters()).unwrap();
        let mut text = "number,kind,...\n".to_owned();
        for (kind, offset, length) in requests {
            let before = card.counters().total_ns();
            let mut data = vec![0; usize::try_from(*length).unwrap()];
            match *kind {
                "read" => card.read(*offset, &mut data).unwrap(),
                _ => card.write(*offset, &data).unwrap(),
            }
            let service = card.counters().total_ns() - before;
            writeln!(text, "1,{kind},0,{offset},{length},0,{service},0,ok,").unwrap();
        }
        text
    }

    fn mark(number: u64) -> (&'static str, u64, u64) {
        ("read", (64 << 20) - 512 * number, 512)
    }

    #[test]
    fn steps_end_at_their_marks() {
        let requests = [
            ("write", 0, 4096),
            mark(1),
            ("write", 8 << 20, 1 << 20),
            ("read", 8 << 20, 4096),
            mark(2),
            // Not the next mark: a read like any other.
            mark(1),
            mark(3),
        ];
        let log = Log::parse(&csv(&requests), "begin\nwrite\nrest\n").unwrap();
        let replayed = log.replay_same(&parameters()).unwrap();
        assert_eq!(replayed["begin"].written, 4096);
        let write = replayed["write"];
        assert_eq!((write.written, write.read), (1 << 20, 4096));
        assert_eq!(replayed["rest"].read, 512);
        assert_eq!(replayed.len(), 3);
    }

    #[test]
    fn missing_marks_failed_requests_and_another_model_are_noticed() {
        let text = csv(&[("write", 0, 4096), mark(1)]);
        assert!(Log::parse(&text, "begin\nend\n").unwrap().replay(&parameters()).is_err());
        assert!(Log::parse(&text.replace(",ok,", ",error,"), "begin").is_err());
        assert!(Log::parse(&text.replace("read", "erase"), "begin").is_err());
        let log = Log::parse(&text, "begin").unwrap();
        let other = Parameters { write_command_ns: 1, ..parameters() };
        assert!(log.replay(&other).is_ok());
        let error = log.replay_same(&other).unwrap_err().to_string();
        assert!(error.contains("the model has changed"), "{error}");
    }
}
