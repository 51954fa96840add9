//! Fits the line y = 2 x - 1 with an optimizer of the library's.
use gradstep::{Error, Parameter, StepOptions};

const POINTS: usize = 64;

/// The gradient of the mean squared error of y = w[0] x + w[1].
fn gradient_of(w: &[f32]) -> [f32; 2] {
    let mut gradient = [0.0; 2];
    for i in 0..POINTS {
        let x = i as f32 / POINTS as f32;
        let wrong = w[0] * x + w[1] - (2.0 * x - 1.0);
        gradient[0] += wrong * x / POINTS as f32;
        gradient[1] += wrong / POINTS as f32;
    }
    gradient
}

// [train]
fn train() -> Result<Vec<f32>, Error> {
    let adam = r#"{"rule": {"name": "adam"}, "schedule": {"name": "cosine", "rate": 0.1, "steps": 500}}"#;
    let mut line = Parameter::new(adam, &[0.0, 0.0])?; // fails for example with "rule.beta1: 1.5 is out of range; expected [0, 1)"
    for _ in 0..500 {
        let gradient = gradient_of(line.values()?);
        line.update(&gradient, &StepOptions::default())?;
    }
    Ok(line.values()?.to_vec())
}
// [train]

fn main() -> Result<(), Error> {
    let w = train()?;
    println!("y = {:.2} x + {:.2}", w[0], w[1]);
    assert!((w[0] - 2.0).abs() < 0.01 && (w[1] + 1.0).abs() < 0.01);
    Ok(())
}
