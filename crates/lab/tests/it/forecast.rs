//! Forecasts of the life of a chip, compared with wearing it out.

use eraseblock_lab::Shape;
use eraseblock_lab::forecast::{
    Cause, Forecast, Life, Outcome, Question, System, Use, Workload, forecast,
};
use eraseblock_recording::{Kind, Name, Op, Reader, Step};

/// A chip whose blocks endure 200 erases, of which 20 are simulated.
fn question(system: System, workload: Workload) -> Question<'static> {
    Question {
        system,
        shape: Shape::named("128x16384-512-512-16").unwrap(),
        workload: Use::Made(workload),
        fill: 50,
        per_day: 1 << 20,
        endurance: Some(200),
        erases: 20,
        sigma: 0.1,
        retention: (365.0, 30.0),
        temperature: 52.0,
        seed: 1,
    }
}

fn asked(question: &Question<'_>) -> Forecast {
    forecast(question, &mut |_| {}).unwrap()
}

fn life(forecast: &Forecast) -> Life {
    match &forecast.outcome {
        Outcome::Life(life) => *life,
        Outcome::NotConverged(reason) => panic!("{reason}: {:#?}", forecast.windows),
    }
}

/// JFFS2 leaves to chance which blocks it collects: with other seeds, the same chip lives a tenth more or
/// less. So its forecast is that much less certain.
#[allow(clippy::cast_precision_loss)] // days
#[test]
fn a_tenth_of_the_life_predicts_the_rest() {
    let cases = [
        (System::Ubifs, Workload::Database, 0.9..=1.1),
        (System::Ubifs, Workload::SmallFiles, 0.9..=1.1),
        (System::Jffs2, Workload::SmallFiles, 0.8..=1.2),
    ];
    for (system, workload, expected) in cases {
        let short = question(system, workload);
        let predicted = life(&asked(&short)).rated;
        let whole = asked(&Question { erases: 200, ..short });
        let written: u64 = whole.windows.iter().map(|window| window.written).sum();
        let lived = written as f64 / short.per_day as f64;
        println!("{system:?}, {workload:?}: {predicted:.1} days predicted, {lived:.1} lived");
        assert!(expected.contains(&(predicted / lived)), "{system:?}: {predicted}, {lived}");
    }
}

#[test]
fn causes_add_up_to_what_was_programmed() {
    for system in [System::Ubifs, System::Jffs2] {
        let question = question(system, Workload::Database);
        let answer = asked(&Question { shape: Shape::Large, erases: 12, ..question });
        let causes: u64 = answer.causes.iter().map(|(_, bytes)| bytes).sum();
        let programmed: u64 = answer.windows.iter().map(|window| window.programmed).sum();
        assert_eq!(causes, programmed, "{system:?}");
        let written: u64 = answer.windows.iter().map(|window| window.written).sum();
        let of = |wanted| answer.causes.iter().find(|(cause, _)| *cause == wanted).unwrap().1;
        assert!(of(Cause::Content) >= written * 9 / 10 && of(Cause::Content) < written * 3 / 2);
        assert!(of(Cause::Names) > 0 && of(Cause::Collected) > 0);
        assert_eq!(of(Cause::Index) > 0, system == System::Ubifs);
    }
}

#[test]
fn what_does_not_settle_has_a_reason_instead_of_a_number() {
    let answer = asked(&question(System::Ubifs, Workload::Archive));
    let Outcome::NotConverged(reason) = answer.outcome else { panic!("{:?}", answer.outcome) };
    assert!(reason.contains("full after"), "{reason}");
    assert!(
        forecast(&Question { erases: 1, ..question(System::Ubifs, Workload::Log) }, &mut |_| {})
            .is_err()
    );
}

#[test]
fn the_same_question_has_the_same_answer() {
    let question = question(System::Jffs2, Workload::Camera);
    assert_eq!(asked(&question), asked(&question));
}

/// Returns the steps of a recording of the repository.
fn recorded(name: &str) -> Vec<Step> {
    let path = format!("{}/../../recordings/{name}.ops", env!("CARGO_MANIFEST_DIR"));
    let file = std::io::BufReader::new(std::fs::File::open(path).unwrap());
    Reader::new(file, b"/").unwrap().map(Result::unwrap).collect()
}

fn bytes(steps: &[Step]) -> u64 {
    steps.iter().map(|step| if let Op::Write { len, .. } = step.op { len } else { 0 }).sum()
}

/// A recording is repeated until the chip is worn, with its own names, sizes and syncs.
#[test]
fn a_recording_is_a_workload() {
    for (name, system) in [("log-rotation", System::Ubifs), ("sqlite-delete", System::Jffs2)] {
        let steps = recorded(name);
        let workload = Use::Recorded(&steps);
        let answer = asked(&Question { workload, ..question(system, Workload::Log) });
        let written: u64 = answer.windows.iter().map(|window| window.written).sum();
        assert!(written > 3 * bytes(&steps), "{name}: {written} bytes, {} a pass", bytes(&steps));
        let causes: u64 = answer.causes.iter().map(|(_, bytes)| bytes).sum();
        let programmed: u64 = answer.windows.iter().map(|window| window.programmed).sum();
        assert_eq!(causes, programmed, "{name}");
        assert!(life(&answer).rated > 0.0);
        let again = asked(&Question { workload, ..question(system, Workload::Log) });
        assert_eq!(answer, again, "{name}");
    }
}

/// What cannot be done twice is left out of the repetitions and counted; in the first pass, it is an
/// error.
#[test]
fn what_cannot_be_repeated_is_counted() {
    let name = |name: &str| Name::new(name.as_bytes());
    let step = |op| Step { at: 0, thread: 0, op };
    let (file, dir) = (1, 0);
    let mut steps = vec![
        step(Op::Create {
            file,
            dir,
            name: name("f"),
            kind: Kind::File,
            mode: 0o644,
            target: None,
        }),
        step(Op::Write { file, offset: 0, len: 32 << 10, dense: 100 }),
        step(Op::SyncFile { file }),
        step(Op::Link { file, dir, name: name("g") }),
    ];
    let ask = |steps: &[Step]| {
        let question = question(System::Ubifs, Workload::Log);
        forecast(&Question { workload: Use::Recorded(steps), ..question }, &mut |_| {})
    };
    assert!(ask(&steps).unwrap().left_out > 2);
    let again = steps[3].clone();
    steps.push(again);
    assert!(ask(&steps).unwrap_err().contains("exists"));
    assert!(ask(&steps[..1]).unwrap_err().contains("writes no content"));
}
