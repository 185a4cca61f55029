//! Forecasts of the life of a chip, compared with wearing it out.

use eraseblock_lab::Shape;
use eraseblock_lab::forecast::{
    Cause, Forecast, Life, Outcome, Question, System, Workload, forecast,
};

/// A chip whose blocks endure 200 erases, of which 20 are simulated.
fn question(system: System, workload: Workload) -> Question {
    Question {
        system,
        shape: Shape::named("128x16384-512-512-16").unwrap(),
        workload,
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

fn asked(question: &Question) -> Forecast {
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
