//! A configuration that serde_json builds from the values of a program.
use gradstep::{Error, KeyedTable, StepOptions};
use serde_json::{json, Value};

// [config]
fn config(rate: f64, width: usize, max_rows: Option<u64>) -> String {
    let mut table = json!({"width": width, "admit_after": 2});
    if let Some(rows) = max_rows {
        table["max_rows"] = rows.into();
    }
    json!({"rule": {"name": "adagrad"}, "schedule": {"name": "constant", "rate": rate}, "keyed_table": table})
        .to_string()
}
// [config]

fn main() -> Result<(), Error> {
    let mut table = KeyedTable::<f32>::new(&config(0.5, 2, Some(1)))?;
    for _ in 0..2 {
        table.update(&[7u64, 8], &[1.0, -1.0, 1.0, -1.0], &StepOptions::default())?;
    }
    assert_eq!(table.row(7u64)?, [-0.5, 0.5]);
    assert_eq!(table.counts()?.no_room, 1);
    let complete: Value = serde_json::from_str(&table.config()?).unwrap(); // with all defaults
    println!("{}", complete["keyed_table"]);
    assert_eq!(complete["schedule"]["rate"], 0.5);
    assert_eq!(complete["keyed_table"]["max_rows"], 1);
    Ok(())
}
