//! Tables: beside parameters, from several threads, and what they refuse.
use super::*;

/// The text of a table of 10 rows of width 3 for this optimizer.
fn text(optimizer: &str, of_table: &str) -> String {
    format!(r#"{{{optimizer}, "table": {{"rows": 10, "width": 3{of_table}}}}}"#)
}
pub const SGD: &str = r#""rule": {"name": "sgd"}, "schedule": {"name": "constant", "rate": 1}"#;
pub const EXACT: &str =
    r#""rule": {"name": "momentum"}, "schedule": {"name": "constant", "rate": 0.125}, "catch_up": "exact""#;

fn all_rows<T: Element>(table: &Table<T>) -> Vec<T> {
    let info = table.describe().unwrap();
    let ids: Vec<i64> = (0..info.rows as i64).collect();
    let mut out = vec![T::default(); info.rows * info.width];
    table.rows_into(&ids, &mut out).unwrap();
    out
}

/// Steps of ids of a type give the bits of a parameter, whose inactive rows catch up as well.
fn is_a_parameter<T: Element, I: RowId>(optimizer: &str, name: &str, ids: &[I], gradients: &[T]) -> Result<(), Error> {
    let mut want = Parameter::<T>::zeros(&format!("{{{optimizer}}}"), 10, 3)?;
    let mut table = Table::<T>::new(&text(&format!(r#"{optimizer}, "type": "{name}""#), ""))?;
    for step in 0..6 {
        let ids = [&ids[step % 2..], &ids[..2]].concat(); // some several times
        let (gradients, half) = (
            &gradients[..3 * ids.len()],
            StepOptions {
                rate_scale: 0.5,
                samples: 8,
                ..default()
            },
        );
        want.update_rows(&ids, gradients, &half)?;
        table.update(&ids, gradients, &half)?;
    }
    assert_eq!(table.row(ids[0])?, want.row(ids[0])?);
    table.flush()?;
    assert_eq!(all_rows(&table), want.values()?);
    assert_eq!(table.clock()?, want.clock()?);
    Ok(())
}

#[test]
fn a_table_is_a_parameter() -> Result<(), Error> {
    let gradients = values(18, f64::cos);
    let adam = &ADAM[1..ADAM.len() - 1];
    is_a_parameter(adam, "float32", &[7i64, 2, 7, 9], &gradients)?;
    is_a_parameter(EXACT, "float32", &[7i32, 2, 7, 9], &gradients)?;
    is_a_parameter(adam, "float64", &[7u64, 2, 7, 9], &[0.25f64; 18])?;
    is_a_parameter(adam, "bfloat16", &[1i64, 2, 3, 0], &[BFloat16(0x3f80); 18])
}

/// Each id of a bag gets the gradient of the bag.
#[test]
fn bags_of_a_table() -> Result<(), Error> {
    let config = text(EXACT, r#", "duplicates": "mean""#);
    let (mut bags, mut rows) = (Table::<f32>::new(&config)?, Table::<f32>::new(&config)?);
    let (ids, gradients) = ([4i32, 1, 4, 0, 9], values(9, f64::cos));
    let of_each = [0, 0, 0, 2, 2]
        .map(|bag: usize| &gradients[3 * bag..3 * bag + 3])
        .concat();
    for _ in 0..3 {
        bags.update_bags(&Bags::new(&ids, &[0, 3, 3]), &gradients, &default())?; // bag 1 is empty
        rows.update(&ids, &of_each, &default())?;
    }
    assert_eq!(all_rows(&bags), all_rows(&rows));
    let before = bags.save()?;
    for (offsets, count, code) in [
        ([0, 6, 6], 9, Code::BadValue),
        ([1, 3, 3], 9, Code::BadValue),
        ([0, 3, 2], 9, Code::BadValue),
        ([0, 3, 3], 8, Code::BadSize),
    ] {
        refused(
            bags.update_bags(&Bags::new(&ids, &offsets), &gradients[..count], &default()),
            code,
            &[],
        );
    }
    assert!(bags.save()? == before);
    Ok(())
}

/// Weights multiply the gradient of a bag and its rows, and padding does not count in the mean.
#[test]
fn weights_of_bags() -> Result<(), Error> {
    let config = text(SGD, r#", "ignore_id": 9"#);
    let (mut bags, mut rows) = (Table::<f32>::new(&config)?, Table::<f32>::new(&config)?);
    let (ids, weights) = ([4i32, 1, 9, 4], [2.0, 0.5, 7.0, 3.0]);
    let of_bags = Bags::new(&ids, &[0, 3]).weights(&weights);
    bags.update_bags(&of_bags, &[1.0, 2.0, 3.0, 1.0, 1.0, 1.0], &default())?;
    rows.update(
        &[4i64, 1, 4],
        &[2.0, 4.0, 6.0, 0.5, 1.0, 1.5, 3.0, 3.0, 3.0],
        &default(),
    )?;
    assert_eq!(all_rows(&bags), all_rows(&rows));
    let mut out = [1.0; 6];
    bags.bags_into(&of_bags, &mut out)?;
    assert_eq!(out, [-10.25, -14.5, -18.75, -15.0, -21.0, -27.0]);
    bags.bags_into(&of_bags.mean(), &mut out)?;
    assert_eq!(out, [-5.125, -7.25, -9.375, -15.0, -21.0, -27.0]);
    let short = Bags::new(&ids, &[0, 3]).weights(&weights[..3]);
    refused(bags.bags_into(&short, &mut out), Code::BadSize, &["weights"]);
    refused(
        bags.update_bags(&short, &[1.0; 6], &default()),
        Code::BadSize,
        &["weights"],
    );
    refused(bags.bags_into(&of_bags, &mut out[..5]), Code::BadSize, &["out"]);

    let mut doubles = Table::<f64>::new(&text(&format!(r#"{SGD}, "type": "float64""#), ""))?;
    let half = Bags::new(&[2i64, 2], &[0]).weights(&[0.5, 0.25]).mean();
    doubles.update_bags(&half, &[8.0; 3], &default())?;
    assert_eq!(doubles.row(2i64)?, [-3.0; 3]);
    Ok(())
}

#[test]
fn options_of_a_table() -> Result<(), Error> {
    let with = |of_table: &str| Table::<f32>::new(&text(SGD, of_table));
    let (ids, gradients) = ([2i64, 2, 5], [-1.0, -2.0, -3.0, -3.0, -4.0, -5.0, -6.0, -6.0, -6.0]);

    let mut mean = with(r#", "duplicates": "mean", "initial": 1"#)?;
    mean.update(&ids, &gradients, &default())?;
    assert_eq!((mean.row(2i64)?, mean.row(0i64)?), (vec![3.0, 4.0, 5.0], vec![1.0; 3]));

    let mut unique = with(r#", "duplicates": "unique""#)?;
    refused(unique.update(&ids, &gradients, &default()), Code::BadValue, &["2"]);
    assert_eq!(unique.clock()?.step, 0);

    let mut short = with(r#", "max_norm": 1, "ignore_id": 5"#)?;
    short.update(&ids, &gradients, &default())?;
    let row = short.row(2i64)?;
    assert!((row.iter().map(|x| x * x).sum::<f32>() - 1.0).abs() < 1e-5, "{row:?}");
    assert_eq!(short.row(5i64)?, [0.0; 3]);

    let skip = format!(r#"{SGD}, "on_nonfinite": "skip""#);
    let mut skips = Table::<f32>::new(&text(&skip, ""))?;
    skips.update(&[1i64, 2], &[f32::NAN, 1.0, 1.0, 1.0, 1.0, 1.0], &default())?;
    let info = skips.describe()?;
    assert_eq!(
        (info.rows, info.width, info.concurrent, info.skipped),
        (10, 3, false, 1)
    );
    assert_eq!(all_rows(&skips)[3..9], [0.0, 0.0, 0.0, -1.0, -1.0, -1.0]);
    Ok(())
}

#[test]
fn deltas_of_unsigned_integers() -> Result<(), Error> {
    let of = |name: &str| text(&format!(r#"{}, "type": "{name}""#, SGD.replace("sgd", "add_delta")), "");
    let mut small = Table::<u32>::new(&of("uint32"))?;
    small.update(&[2i32, 2], &[u32::MAX, 1, 2, 2, 1, 2], &default())?;
    assert_eq!(small.row(2i32)?, [1, 2, 4]); // sums wrap around
    let mut large = Table::<u64>::new(&of("uint64"))?;
    large.update(&[2i32], &[u64::MAX, 1, 2], &default())?;
    assert_eq!(large.row(2i32)?, [u64::MAX, 1, 2]);
    Ok(())
}

#[test]
fn rows_of_a_table_change() -> Result<(), Error> {
    let mut table = Table::<f32>::new(&text(EXACT, r#", "initial": 1"#))?;
    table.keep(&[true, false, true, false, false, false, false, false, false, false])?;
    table.set_rows(&[1i32, 0], &[2.0, 2.0, 2.0, 3.0, 3.0, 3.0])?;
    table.grow(3)?;
    table.append(&[4.0; 3])?;
    table.permute(&[3u64, 0, 1, 2])?;
    assert_eq!(all_rows(&table), [[4.0; 3], [3.0; 3], [2.0; 3], [1.0; 3]].concat());
    table.update(&[0i64, 1], &[1.0; 6], &default())?;
    table.reset(&[0i64])?;
    assert_eq!(table.row(0i64)?, [1.0; 3]);
    assert!(table.row(1i64)?[0] < 3.0);
    assert!(table.config()?.contains(r#""rows":4"#));
    let before = table.save()?;
    refused(table.grow(3), Code::BadValue, &["3", "4"]);
    refused(table.append(&[1.0]), Code::BadSize, &["1 "]);
    refused(table.keep(&[true]), Code::BadSize, &["the mask has 1 elements"]);
    refused(table.permute(&[1i32, 1, 0, 2]), Code::BadValue, &["twice"]);
    refused(table.reset(&[4i32]), Code::BadValue, &["4"]);
    refused(table.set_rows(&[0i32], &[1.0]), Code::BadSize, &[]);
    assert!(table.save()? == before);
    Ok(())
}

#[test]
fn averages_of_a_table() -> Result<(), Error> {
    let mut table = Table::<f32>::new(&text(
        &format!(r#"{SGD}, "average": {{"name": "ema", "decay": 0.5}}"#),
        "",
    ))?;
    table.update(&[3i64], &[-1.0; 3], &default())?;
    table.update(&[3i64], &[-1.0; 3], &default())?;
    let (trained, mut averages) = (table.row(3i64)?, [0.0; 3]);
    table.averages_into(&[3i64], &mut averages)?;
    assert_eq!(trained, [2.0; 3]);
    assert!(averages[0] > 0.0 && averages[0] < 2.0, "{averages:?}");
    table.apply_average()?;
    assert_eq!(table.row(3i64)?, averages);
    refused(
        table.update(&[3i64], &[1.0; 3], &default()),
        Code::BadSequence,
        &["restore"],
    );
    table.restore()?;
    assert_eq!(table.row(3i64)?, trained);
    let mut plain = Table::<f32>::new(&text(SGD, ""))?;
    refused(
        plain.averages_into(&[3i64], &mut averages),
        Code::BadValue,
        &["average"],
    );
    refused(plain.apply_average(), Code::BadValue, &["average"]);
    Ok(())
}

#[test]
fn refusals_of_a_table() -> Result<(), Error> {
    let bad = |config: &str, parts: &[&str]| refused(Table::<f32>::new(config), Code::BadConfig, parts);
    bad(ADAM, &["table", "rows"]);
    bad(&text(SGD, r#", "widths": 3"#), &["widths"]);
    bad(
        &text(SGD, r#", "duplicates": "max""#),
        &["table.duplicates", "assume_unique"],
    );
    bad(&text(SGD, r#", "max_norm": -1"#), &["table.max_norm", "-1"]);
    bad(
        &text(&format!(r#"{SGD}, "type": "float64""#), ""),
        &["type", "float64", "Table<f32>", "float32"],
    );
    refused(
        Table::<f64>::new(&text(SGD, "")),
        Code::BadConfig,
        &["float32", "Table<f64>"],
    );
    refused(
        SharedTable::<f32>::new(&text(SGD, "")),
        Code::BadConfig,
        &["table.concurrent", "true"],
    );
    let replay = format!(
        r#"{}, "catch_up": {{"name": "replay", "max_steps": 9}}"#,
        &ADAM[1..ADAM.len() - 1]
    );
    Table::<f32>::new(&text(&replay, ""))?;
    refused(
        SharedTable::<f32>::new(&text(&replay, r#", "concurrent": true"#)),
        Code::BadConfig,
        &["table.concurrent", "replay", "exact"],
    );

    let mut table = Table::<f32>::new(&text(SGD, ""))?;
    let before = table.save()?;
    refused(table.update(&[10i64], &[1.0; 3], &default()), Code::BadValue, &["10"]);
    refused(table.update(&[-1i32], &[1.0; 3], &default()), Code::BadValue, &["-1"]);
    refused(
        table.update(&[1u32], &[1.0; 3], &default()),
        Code::BadValue,
        &["uint32", "int32, int64 or uint64"],
    );
    refused(
        table.update(&[1i64, 2], &[1.0; 3], &default()),
        Code::BadSize,
        &["3 elements", "2 ids x width 3"],
    );
    refused(table.rows_into(&[1i64], &mut [0.0; 2]), Code::BadSize, &[]);
    refused(table.row(10i64), Code::BadValue, &["10"]);
    refused(table.load(b"something else"), Code::BadValue, &[]);
    let negative = StepOptions {
        rate_scale: -1.0,
        ..default()
    };
    refused(
        table.update(&[1i64], &[1.0; 3], &negative),
        Code::BadValue,
        &["rate_scale"],
    );
    assert!(table.save()? == before);
    table.update::<i64>(&[], &[], &default())?; // a step of nothing
    assert_eq!(table.clock()?.step, 1);
    Ok(())
}

fn step(table: &mut Table<f32>, steps: usize) -> Result<(), Error> {
    for _ in 0..steps {
        let now = table.clock()?.step;
        table.update(&[now % 10, 3], &values(6, |i| (i + now as f64).sin()), &default())?;
    }
    Ok(())
}

/// Inactive rows get the decay and the moments of the steps that they missed.
#[test]
fn rows_of_a_table_catch_up() -> Result<(), Error> {
    let decay = r#""regularizer": {"name": "decoupled", "rate": 0.5}, "catch_up": "exact""#;
    let mut exact = Table::<f32>::new(&text(&format!("{SGD}, {decay}"), r#", "initial": 1"#))?;
    let adam = &ADAM[1..ADAM.len() - 1];
    let replay = format!(r#"{adam}, "catch_up": {{"name": "replay", "max_steps": 9}}"#);
    let mut replay = Table::<f32>::new(&text(&replay, ""))?;
    let mut dense = Parameter::<f32>::zeros(ADAM, 10, 3)?;
    for step in 0..4 {
        let row = usize::from(step == 0); // row 1, and then row 0
        let mut gradient = [0.0; 30];
        gradient[3 * row..][..3].fill(1.0);
        exact.update(&[row as i64], &[0.0; 3], &default())?;
        replay.update(&[row as i64], &[1.0; 3], &default())?;
        dense.update(&gradient, &default())?;
    }
    assert_eq!(exact.row(2i64)?, [0.5f32.powi(4); 3]);
    let want: Vec<f64> = dense.row(1i64)?.iter().map(|x| f64::from(*x)).collect();
    near(&replay.row(1i64)?, &want);
    Ok(())
}

/// A run in two halves, through bytes and through files, gives the bits of one run.
#[test]
fn a_table_resumes() -> Result<(), Error> {
    let start = || Table::<f32>::new(&text(EXACT, ""));
    let (mut once, mut half) = (start()?, start()?);
    step(&mut once, 14)?;
    step(&mut half, 7)?;
    let want = once.save()?;
    let finish = |mut resumed: Table<f32>| -> Result<(), Error> {
        step(&mut resumed, 7)?;
        assert!(resumed.save()? == want, "the state has other bits");
        Ok(())
    };
    let mut from_bytes = start()?;
    from_bytes.load(&half.save()?)?;
    finish(from_bytes)?;

    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("table.safetensors");
    half.save_file(&path)?;
    assert_eq!(file_names(&path)?, ["values"]);
    let mut from_file = start()?;
    from_file.load_file(&path)?;
    finish(from_file)?;
    let missing = path.with_extension("not");
    let error = half.load_file(&missing).unwrap_err();
    assert_eq!(
        (error.code(), error.io_kind()),
        (Code::Io, Some(std::io::ErrorKind::NotFound))
    );

    // A table grows to the rows of the file, and does not shrink to them.
    let (mut shorter, mut longer) = (start()?, start()?);
    shorter.keep(&[false; 10])?;
    shorter.load_file(&path)?;
    finish(shorter)?;
    longer.grow(12)?;
    refused(longer.load_file(&path), Code::BadSize, &["10 rows", "12"]);
    let other_name = |_: &str| "words".to_string();
    let keep = LoadOptions {
        keep_missing: true,
        ignore_unexpected: true,
        resize_rows: false,
        rename: Some(&other_name),
    };
    let report = half.load_file_with(&path, &keep)?;
    assert_eq!(
        (report.kept, report.ignored),
        (vec!["values".into()], vec!["values".into()])
    );
    finish(half)?;
    std::fs::remove_file(path).unwrap();
    Ok(())
}

/// Threads update, read, save and change one table at once, and no update is lost.
#[test]
fn threads_share_a_table() -> Result<(), Error> {
    const THREADS: usize = 4;
    const STEPS: usize = 200;
    // Each step adds its gradients, and a longer history to what `save` writes.
    let adds = EXACT
        .replace(r#""momentum""#, r#""momentum", "mu": 0"#)
        .replace("0.125", "1");
    let config = text(&adds, r#", "concurrent": true"#);
    let table = SharedTable::<f32>::new(&config)?;
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let table = &table;
            scope.spawn(move || {
                for step in 0..STEPS {
                    let ids = [step as i64 % 9, 9];
                    if thread == 0 {
                        table
                            .update_bags(&Bags::new(&ids, &[0]), &[-1.0; 3], &default())
                            .unwrap();
                    } else {
                        table.update(&ids, &[-1.0; 6], &default()).unwrap();
                    }
                    let row = table.row(9i64).unwrap();
                    assert!(row[0] >= (step + 1) as f32 && row == [row[0]; 3], "{row:?}");
                }
            });
        }
        let mut own = table.table(); // moves to another thread
        scope.spawn(move || {
            for rows in 11..30 {
                own.grow(rows).unwrap();
                own.save().unwrap();
                own.flush().unwrap();
                assert!(own.config().unwrap().contains(&format!(r#""rows":{rows},"#)));
            }
        });
    });
    let own = table.table();
    assert_eq!(own.describe()?.rows, 29);
    assert_eq!(own.clock()?.step as usize, THREADS * STEPS);
    assert_eq!(own.row(9i64)?, [(THREADS * STEPS) as f32; 3]);
    let sum: f32 = all_rows(&own).chunks(3).take(9).map(|row| row[0]).sum();
    assert_eq!(sum, (THREADS * STEPS) as f32);
    drop(table); // `own` keeps the rows
    assert_eq!(own.row(9i64)?, [(THREADS * STEPS) as f32; 3]);
    Ok(())
}

#[test]
fn tables_are_handles() -> Result<(), Error> {
    has_not!(Table<f32>, Clone);
    has_not!(Table<f32>, Sync);
    has_not!(SharedTable<f32>, Clone);
    fn sent<T: Send>() {}
    fn shared<T: Send + Sync>() {}
    sent::<Table<BFloat16>>();
    shared::<SharedTable<f64>>();
    let table = Table::<f32>::new(&text(SGD, ""))?;
    let config = table.config()?;
    assert_eq!(
        format!("{table:?}"),
        format!("Table {{ element: f32, config: {config} }}")
    );
    Table::<f32>::new(&config)?;
    Ok(())
}

/// Threads of the program's own give the same bits.
#[test]
fn executor_of_a_table() -> Result<(), Error> {
    use std::sync::atomic::{AtomicUsize, Ordering};
    const ROWS: i64 = 20_000; // enough to be split
    let config = text(EXACT, "").replace("10", &ROWS.to_string());
    let (ids, gradients) = ((0..ROWS).collect::<Vec<_>>(), values(3 * ROWS as usize, f64::sin));
    let (mut plain, mut given) = (Table::<f32>::new(&config)?, Table::<f32>::new(&config)?);
    let calls = std::sync::Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let two = Executor::new(2, move |work| {
        counted.fetch_add(1, Ordering::Relaxed);
        work.run();
    })?;
    given.set_executor(Some(&two))?;
    drop(two); // the table keeps it
    for table in [&mut plain, &mut given] {
        table.update(&ids, &gradients, &default())?;
    }
    assert!(plain.save()? == given.save()?);
    let before = calls.load(Ordering::Relaxed);
    assert!(before > 0);
    given.set_executor(None)?;
    given.update(&ids, &gradients, &default())?;
    assert_eq!(calls.load(Ordering::Relaxed), before);
    Ok(())
}
