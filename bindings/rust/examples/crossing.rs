//! What a call costs: nanoseconds of one of 16 floats, and of one step of 1000 parameters of 1000 floats, in one call and in a
//! thousand. cargo run --release --example crossing
use gradstep::{update_all, Error, Parameter, StepOptions};
use std::time::Instant;

const ADAM: &str = r#"{"rule": {"name": "adam"}, "schedule": {"name": "constant", "rate": 0.1}}"#;

/// The median of 31 rounds of `calls` each.
fn measure(name: &str, calls: u32, mut f: impl FnMut() -> Result<(), Error>) -> Result<(), Error> {
    let mut rounds = Vec::new();
    for _ in 0..31 {
        let begin = Instant::now();
        for _ in 0..calls {
            f()?;
        }
        rounds.push(begin.elapsed().as_nanos() as f64 / f64::from(calls));
    }
    rounds.sort_by(f64::total_cmp);
    println!("{name:28} {:12.1} ns", rounds[15]);
    Ok(())
}

fn main() -> Result<(), Error> {
    let options = StepOptions::default();
    let mut small = Parameter::new(ADAM, &[0.0f32; 16])?;
    let gradient: Vec<f32> = (0..1000).map(|i| (i % 7) as f32 - 3.0).collect();
    measure("16 floats", 10_000, || small.update(&gradient[..16], &options))?;

    let gradients = vec![gradient; 1000];
    let mut model = (0..1000)
        .map(|_| Parameter::new(ADAM, &[0.0f32; 1000]))
        .collect::<Result<Vec<_>, _>>()?;
    measure("1000 x 1000 in one call", 10, || {
        update_all(model.iter_mut().zip(&gradients).map(|(p, g)| p.with(g)), &options)
    })?;
    measure("1000 x 1000 in 1000 calls", 10, || {
        model
            .iter_mut()
            .zip(&gradients)
            .try_for_each(|(p, g)| p.update(g, &options))
    })
}
