//! Click-through prediction with hashed features: FTRL in a keyed table, and a replica that answers queries.
use gradstep::{hash_texts, Error, KeyedTable, RowContent, StepOptions};

const BATCH: usize = 256;
const STEPS: i64 = 300;

/// The keys of the features of each impression, and whether there was a click.
fn read_log(random: &mut u64) -> Result<(Vec<u64>, Vec<f32>), Error> {
    let mut next = |below: u64| {
        *random = random
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (*random >> 33) % (1 + (*random >> 40) % below) // small numbers are frequent
    };
    let (mut texts, mut clicks) = (Vec::new(), Vec::new());
    for _ in 0..BATCH {
        let (advertiser, site, user) = (next(1000), next(300), next(1_000_000));
        texts.extend([
            format!("advertiser={advertiser}"),
            format!("site={site}"),
            format!("user={user}"),
            "bias".to_string(),
        ]);
        clicks.push(if advertiser % 3 == 0 && site % 2 == 0 { 1.0 } else { 0.0 });
    }
    Ok((hash_texts("", &texts)?, clicks))
}

// [train]
fn train(features: &mut KeyedTable<f32>, keys: &[u64], clicks: &[f32]) -> Result<f32, Error> {
    let mut weights = vec![0.0; keys.len()];
    features.rows_into(keys, &mut weights)?; // a key without a row has its initial values: 0 here
    let (mut gradients, mut loss) = (Vec::new(), 0.0);
    for (weights, click) in weights.chunks(keys.len() / clicks.len()).zip(clicks) {
        let probability = 1.0 / (1.0 + (-weights.iter().sum::<f32>()).exp());
        gradients.extend(weights.iter().map(|_| probability - click));
        loss -= (1.0 - (probability - click).abs()).ln() / clicks.len() as f32;
    }
    features.update(keys, &gradients, &StepOptions::default())?;
    Ok(loss)
}
// [train]

// [send]
fn send(features: &mut KeyedTable<f32>, replica: &mut KeyedTable<f32>) -> Result<(), Error> {
    features.evict_older_than(features.clock()?.step - 50)?; // rows that the last 50 steps did not contain
    features.evict(|row| row.touch_count() < 5 && row.values()[0].abs() < 0.01)?;
    let changes = features.changed_since(replica.clock()?.step, RowContent::Values)?; // Vec<u8>, for the process of the replica
    replica.apply_changes(&changes)
}
// [send]

// [strongest]
/// The key with the largest weight, and the weight.
fn strongest(replica: &KeyedTable<f32>) -> Result<(u64, f32), Error> {
    let mut out = (0, 0.0);
    for key in replica.iter_keys() {
        let key = key?;
        let weight = replica.row(key)?[0];
        if weight.abs() > f32::abs(out.1) {
            out = (key, weight);
        }
    }
    Ok(out)
}
// [strongest]

fn main() -> Result<(), Error> {
    // [create]
    let config = r#"{"rule": {"name": "ftrl", "l1": 0.001, "l2": 0.001}, "schedule": {"name": "constant", "rate": 0.1},
        "keyed_table": {"width": 1, "admit_after": 2, "max_rows": 100000, "touch_counts": true}}"#;
    let mut features = KeyedTable::<f32>::new(config)?;
    let mut replica = KeyedTable::<f32>::new(config)?;
    // [create]
    let (mut random, mut loss) = (1, 0.0);
    for step in 1..=STEPS {
        let (keys, clicks) = read_log(&mut random)?;
        loss = train(&mut features, &keys, &clicks)?;
        if step % 100 == 0 {
            send(&mut features, &mut replica)?;
            let (rows, counts) = (replica.describe()?.rows, features.counts()?);
            println!("step {step}  loss {loss:.4}  rows {rows}  evicted {}", counts.evicted);
        }
    }
    assert!(loss < 0.3);
    let (key, weight) = strongest(&replica)?;
    let sites: Vec<_> = (0..300).map(|site| format!("site={site}")).collect();
    let found = hash_texts("", &sites)?.iter().position(|&of_site| of_site == key);
    println!("the strongest feature: site {found:?}, with the weight {weight:.2}");
    assert_eq!(found, Some(1)); // the most frequent site without clicks
    Ok(())
}
