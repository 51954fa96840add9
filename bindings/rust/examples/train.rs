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
    let adamw = r#"{"rule": {"name": "adam"}, "regularizer": {"name": "decoupled", "rate": 0.01},
        "schedule": {"name": "cosine", "rate": 1e-3, "steps": 10000}}"#;
    let mut line = Parameter::new(adamw, &[0.0, 0.0])?; // or an error such as "rule.beta1: 1.5 is out of range; expected [0, 1)"
    for _ in 0..10_000 {
        let gradient = gradient_of(line.values()?);
        line.update(&gradient, &StepOptions::default())?;
    }
    let w = line.values()?;
    println!("slope {:.2}, intercept {:.2}", w[0], w[1]);
    Ok(w.to_vec())
}
// [train]

fn main() -> Result<(), Error> {
    let w = train()?;
    assert!((w[0] - 2.0).abs() < 0.01 && (w[1] + 1.0).abs() < 0.01);
    Ok(())
}
