//! Measures what a step costs through the C library. `benchmarks/callers/callers.py` says what it reads and writes.
use gradstep::{update_all, Error, KeyedTable, Parameter, StepOptions};
use std::time::Instant;

const ADAM: &str = r#"{"rule": {"name": "adam"}, "schedule": {"name": "constant", "rate": 0.1}}"#;
const ADAGRAD: &str =
    r#"{"rule": {"name": "adagrad"}, "schedule": {"name": "constant", "rate": 0.1}, "keyed_table": {"width": 16}}"#;
const ROWS: u64 = 65_536;
const WIDTH: u64 = 16;
const TENSORS: usize = 1000;
const ELEMENTS: usize = 1000;
const FEW: usize = 16;

/// The time of a call whose data is in the cache.
fn nanoseconds(calls: u32, mut f: impl FnMut() -> Result<(), Error>) -> Result<f64, Error> {
    for _ in 0..5 {
        f()?;
    }
    let begin = Instant::now();
    for _ in 0..calls {
        f()?;
    }
    Ok(begin.elapsed().as_nanos() as f64 / f64::from(calls))
}

fn main() -> Result<(), Error> {
    let options = StepOptions::default();
    let gradients = vec![(0..ELEMENTS).map(|i| (i % 7) as f32 - 3.0).collect::<Vec<_>>(); TENSORS];
    let mut small = Parameter::new(ADAM, &[0.0; FEW])?;
    let mut model = (0..TENSORS)
        .map(|_| Parameter::new(ADAM, &[0.0; ELEMENTS]))
        .collect::<Result<Vec<_>, _>>()?;
    let mut features: KeyedTable<f32> = KeyedTable::new(ADAGRAD)?;
    let keys = (1..=ROWS)
        .map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15))
        .collect::<Vec<_>>();
    let of_keys = vec![0.5; (ROWS * WIDTH) as usize];
    for _ in std::io::stdin().lines() {
        let of_few = nanoseconds(20_000, || small.update(&gradients[0][..FEW], &options))?;
        let one_call = nanoseconds(20, || {
            update_all(model.iter_mut().zip(&gradients).map(|(p, g)| p.with(g)), &options)
        })?;
        let a_thousand = nanoseconds(20, || {
            model
                .iter_mut()
                .zip(&gradients)
                .try_for_each(|(p, g)| p.update(g, &options))
        })?;
        let keyed = nanoseconds(5, || features.update(&keys, &of_keys, &options))?;
        let one_key = nanoseconds(20_000, || {
            features.update(&keys[..1], &of_keys[..WIDTH as usize], &options)
        })?;
        println!("{of_few:.1} {one_call:.1} {a_thousand:.1} {keyed:.1} {one_key:.1}");
    }
    Ok(())
}
