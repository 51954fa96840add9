//! Four threads train one table. A document is a bag of words, and its score the sum of their rows.
use gradstep::{Bags, Error, SharedTable, StepOptions};

const WORDS: u32 = 1000;
const WIDTH: usize = 4;
const DOCUMENTS: usize = 64;

/// Documents, of which b begins at offsets[b]. Words with even numbers praise, the others complain.
struct Batch {
    ids: Vec<i64>,
    offsets: Vec<i64>,
    labels: Vec<f32>,
}

fn make_batch(random: &mut u32) -> Batch {
    let mut next = || {
        *random = random.wrapping_mul(1664525).wrapping_add(1013904223);
        *random >> 8
    };
    let (mut ids, mut offsets, mut labels) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..DOCUMENTS {
        let begin = ids.len();
        ids.extend((0..3 + next() % 9).map(|_| i64::from(next() % WORDS)));
        let praise = ids[begin..].iter().filter(|id| *id % 2 == 0).count();
        offsets.push(begin as i64);
        labels.push(if 2 * praise > ids.len() - begin { 1.0 } else { 0.0 });
    }
    Batch { ids, offsets, labels }
}

/// One gradient for all words of a document, and the mean loss.
fn gradients_of(labels: &[f32], sums: &[f32]) -> (Vec<f32>, f32) {
    let (mut gradients, mut loss) = (Vec::new(), 0.0);
    for (label, sum) in labels.iter().zip(sums.chunks(WIDTH)) {
        let score: f32 = sum.iter().sum();
        let probability = 1.0 / (1.0 + (-score).exp());
        gradients.extend([probability - label; WIDTH]);
        loss -= (1.0 - (probability - label).abs()).ln() / DOCUMENTS as f32;
    }
    (gradients, loss)
}

// [train]
fn train(words: &SharedTable<f32>, mut seed: u32) -> Result<f32, Error> {
    let mut last = 0.0;
    for _ in 0..200 {
        let batch = make_batch(&mut seed);
        let bags = Bags::new(&batch.ids, &batch.offsets);
        let mut sums = vec![0.0; DOCUMENTS * WIDTH];
        words.bags_into(&bags, &mut sums)?;
        let (gradients, loss) = gradients_of(&batch.labels, &sums);
        words.update_bags(&bags, &gradients, &StepOptions::default())?;
        last = loss;
    }
    Ok(last)
}
// [train]

// [threads]
fn train_on_four_threads() -> Result<Vec<f32>, Error> {
    let config = r#"{"rule": {"name": "adagrad"}, "schedule": {"name": "constant", "rate": 0.1}, "type": "float32",
        "table": {"rows": 1000, "width": 4, "max_norm": 5, "concurrent": true,
                  "initial": {"name": "normal", "mean": 0, "deviation": 0.01, "seed": 1}}}"#;
    let words = SharedTable::<f32>::new(config)?;
    let losses = std::thread::scope(|scope| {
        let threads = [1, 2, 3, 4].map(|seed| {
            let words = &words;
            scope.spawn(move || train(words, seed))
        });
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    println!("{} steps", words.table().clock()?.step);
    losses
}
// [threads]

fn main() -> Result<(), Error> {
    let losses = train_on_four_threads()?;
    assert!(losses.iter().all(|loss| *loss < 0.3), "{losses:?}");
    Ok(())
}
