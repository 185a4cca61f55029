//! A sweep of one shape, for profiling: shape, seed, states.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use eraseblock_lab::powercut::{Options, Shape, ubi};

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let shape = Shape::find(&args[1]).unwrap();
    let (seed, states) = (args[2].parse().unwrap(), args[3].parse().unwrap());
    let judge_every = args.get(4).map_or(1, |n| n.parse().unwrap());
    let options =
        Options { shape, seed, judge_every, budget_states: Some(states), ..Options::default() };
    let report = ubi(&options).unwrap();
    println!(
        "{} seed {seed}: {} states {} distinct {} nested {} ops {:.1} s {:.0}/s, {} violations",
        report.shape,
        report.states,
        report.distinct_states,
        report.nested_states,
        report.operations,
        report.seconds,
        report.states as f64 / report.seconds,
        report.violations.len()
    );
    for one in report.violations.iter().take(5) {
        println!("  {} {}: {}: {}", one.id, one.operation, one.rule, one.message);
    }
}
