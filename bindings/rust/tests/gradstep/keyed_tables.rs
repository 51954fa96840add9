//! Keyed tables: beside tables, evictions, replicas, several threads, and what they refuse.
use super::tables::{EXACT, SGD};
use super::*;
use std::panic::{catch_unwind, AssertUnwindSafe};

/// The text of a keyed table of width 3 for this optimizer.
fn text(optimizer: &str, of_table: &str) -> String {
    format!(r#"{{{optimizer}, "keyed_table": {{"width": 3{of_table}}}}}"#)
}
fn made(optimizer: &str, of_table: &str) -> Result<KeyedTable<f32>, Error> {
    KeyedTable::new(&text(optimizer, of_table))
}
/// One step of each list of keys, with gradients that differ.
fn steps(table: &mut KeyedTable<f32>, batches: &[&[u64]]) -> Result<(), Error> {
    for (step, keys) in batches.iter().enumerate() {
        let gradients = values(3 * keys.len(), |i| (i + step as f64).cos());
        table.update(keys, &gradients, &default())?;
    }
    Ok(())
}
/// An iterator gives the keys in pages, also if the last page is full, and reads are allowed meanwhile.
#[test]
fn an_iterator_over_keys() -> Result<(), Error> {
    let mut table = made(SGD, "")?;
    assert!(table.iter_keys().next().is_none());
    let mut count = 0;
    for until in [1, 1023, 1024, 1025, 2048, 3000] {
        let keys: Vec<u64> = (count..until).map(|i| i << 40).collect();
        table.update(&keys, &vec![1.0; 3 * keys.len()], &default())?;
        count = until;
        let mut iterator = table.iter_keys();
        let all = iterator.by_ref().collect::<Result<Vec<_>, _>>()?;
        assert_eq!(all, table.keys()?);
        assert_eq!(all.len() as u64, count);
        assert!(iterator.next().is_none());
    }
    for key in table.iter_keys().take(1500) {
        assert_eq!(table.row(key?)?, table.row(0u64)?);
    }
    let shared = SharedKeyedTable::<f32>::new(&text(SGD, r#", "concurrent": true"#))?;
    shared.update(&[7u64], &[1.0; 3], &default())?;
    assert_eq!(shared.table().iter_keys().collect::<Result<Vec<_>, _>>()?, [7]);
    Ok(())
}

fn sorted_keys(table: &KeyedTable<f32>) -> Vec<u64> {
    let mut keys = table.keys().unwrap();
    keys.sort_unstable();
    keys
}
fn same_rows(a: &KeyedTable<f32>, b: &KeyedTable<f32>) {
    let keys = sorted_keys(a);
    assert_eq!(keys, sorted_keys(b));
    for key in keys {
        assert_eq!(a.row(key).unwrap(), b.row(key).unwrap());
    }
}

/// Rows whose keys are row numbers have the bits of a table.
#[test]
fn a_keyed_table_is_a_table() -> Result<(), Error> {
    let averaged = format!(r#"{SGD}, "average": {{"name": "ema", "decay": 0.5}}"#);
    for optimizer in [SGD, EXACT, &averaged] {
        let mut keyed = made(optimizer, "")?;
        let mut table = Table::<f32>::new(&format!(r#"{{{optimizer}, "table": {{"rows": 6, "width": 3}}}}"#))?;
        let mut both = |ids: &[u64], gradients: &[f32]| -> Result<(), Error> {
            keyed.update(ids, gradients, &default())?;
            table.update(ids, gradients, &default())?;
            keyed.update_bags(&Bags::new(ids, &[0, 1]).mean(), &gradients[..6], &default())?;
            table.update_bags(&Bags::new(ids, &[0, 1]).mean(), &gradients[..6], &default())
        };
        let gradients = values(24, f64::cos);
        both(&[0, 1, 2, 3, 4, 5], &gradients[..18])?;
        both(&[3, 0, 3], &gradients[..9])?;
        both(&[5, 1], &gradients[..6])?;
        assert_eq!(keyed.clock()?, table.clock()?);
        let (mut a, mut b) = ([0.0; 18], [0.0; 18]);
        let signed = [0i64, 1, 2, 3, 4, 5];
        let mut compare = |keyed: &KeyedTable<f32>, table: &Table<f32>| -> Result<(), Error> {
            keyed.rows_into(&signed, &mut a)?;
            table.rows_into(&signed, &mut b)?;
            assert_eq!(a, b);
            Ok(())
        };
        compare(&keyed, &table)?;
        if optimizer == averaged {
            let (mut a, mut b) = ([0.0; 3], [0.0; 3]);
            keyed.averages_into(&[3u64], &mut a)?;
            table.averages_into(&[3u64], &mut b)?;
            assert_eq!(a, b);
            keyed.apply_average()?;
            assert_eq!(keyed.row(3u64)?, a);
            refused(keyed.evict_to(0), Code::BadSequence, &["restore"]);
            keyed.restore()?;
        }
        keyed.reset(&[1u64])?;
        table.reset(&[1u64])?;
        keyed.flush()?;
        table.flush()?;
        compare(&keyed, &table)?;
    }
    Ok(())
}

#[test]
fn keys_are_admitted() -> Result<(), Error> {
    let mut table = made(SGD, r#", "admit_after": 2, "max_rows": 2, "initial": 1"#)?;
    table.reserve(2)?;
    steps(&mut table, &[&[7, u64::MAX], &[7]])?;
    assert_eq!((table.contains(7)?, table.contains(u64::MAX)?), (true, false));
    assert_eq!(table.row(u64::MAX)?, [1.0; 3]); // its initial values
    steps(&mut table, &[&[u64::MAX, 8], &[8]])?;
    assert_eq!(sorted_keys(&table), [7, u64::MAX]);
    assert!(table.contains(-1i64 as u64)?);
    let counts = table.counts()?;
    assert_eq!((counts.admitted, counts.turned_away, counts.no_room), (2, 3, 1));
    assert_eq!((counts.skipped, counts.evicted), (0, 0));
    assert_eq!(table.describe()?.rows, 2);
    assert!(table.config()?.contains(r#""max_rows":2"#));
    Ok(())
}

#[test]
fn rows_are_evicted() -> Result<(), Error> {
    let mut table = made(EXACT, r#", "touch_counts": true"#)?;
    steps(
        &mut table,
        &[&[1, 2, 3, 4, 5, 6], &[2, 3, 4, 5, 6], &[3, 4, 5, 6], &[6]],
    )?;
    assert_eq!(table.evict_older_than(2)?, 1);
    assert_eq!(sorted_keys(&table), [2, 3, 4, 5, 6]);
    assert_eq!(table.evict_to(4)?, 1);
    assert_eq!(sorted_keys(&table), [3, 4, 5, 6]);

    let mut seen = Vec::new();
    let evicted = table.evict(|row| {
        assert_eq!((row.state("m").unwrap().len(), row.state("v")), (3, None));
        seen.push((row.key(), row.age(), row.touch_count(), row.values().to_vec()));
        row.key() == 4
    })?;
    assert_eq!(evicted, 1);
    seen.sort_by_key(|row| row.0);
    let facts: Vec<_> = seen.iter().map(|row| (row.0, row.1, row.2)).collect();
    assert_eq!(facts, [(3, 1, 3), (4, 1, 3), (5, 1, 3), (6, 0, 4)]);
    assert_eq!(table.row(5u64)?, seen[2].3);
    assert_eq!(sorted_keys(&table), [3, 5, 6]);

    table.hold(&[3u64])?;
    assert_eq!(table.evict_to_by(1, |row| row.key() as f64)?, 2);
    assert_eq!(sorted_keys(&table), [3]);
    assert_eq!(table.evict(|_| true)?, 0);
    table.unhold(&[3u64])?;
    assert_eq!(table.evict(|_| true)?, 1);
    assert_eq!((table.describe()?.rows, table.counts()?.evicted), (0, 6));
    assert_eq!(table.evict(|_| true)?, 0);
    Ok(())
}

/// A slot of the state has its name, and one number if the rule has one for each row.
#[test]
fn state_of_a_row() -> Result<(), Error> {
    let rowwise = SGD.replace("sgd", "rowwise_adagrad") + r#", "catch_up": "exact", "threads": 2"#;
    let mut one_a_row = made(&rowwise, "")?;
    one_a_row.update(&[9u64], &[1.0, 2.0, 3.0], &default())?;
    let mut seen = Vec::new();
    one_a_row.evict(|row| {
        seen.extend_from_slice(row.state("n").unwrap());
        false
    })?;
    assert_eq!(seen.len(), 1);
    assert!(seen[0] > 4.6 && seen[0] < 14.1, "{seen:?}");

    let adam = SGD.replace("sgd", "adam") + r#", "type": "bfloat16", "element": "mixed""#;
    let mut halves = KeyedTable::<BFloat16>::new(&text(&adam, ""))?;
    halves.update(&[9u64], &[BFloat16(0x3f80); 3], &default())?;
    halves.evict(|row| {
        let (m, master) = (row.state("m").unwrap(), row.state("master").unwrap());
        assert!((m[2] - 0.1).abs() < 1e-6 && (master[2] + 1.0).abs() < 1e-6, "{row:?}");
        assert_eq!(row.values(), [BFloat16(0xbf80); 3]);
        assert_eq!(f32::from(row.values()[0]), -1.0);
        assert_eq!((row.state("v").unwrap().len(), row.age(), row.touch_count()), (3, 0, 0));
        false
    })?;
    let replays = EXACT
        .replace("momentum", "adam")
        .replace(r#""exact""#, r#"{"name": "replay", "max_steps": 8}"#);
    for (optimizer, slots) in [
        (
            SGD.to_string() + r#", "average": {"name": "ema", "decay": 0.5}"#,
            &["average"][..],
        ),
        (replays, &["m"]),
    ] {
        let mut table = made(&optimizer, "")?;
        table.update(&[9u64], &[1.0; 3], &default())?;
        table.evict(|row| {
            assert!(slots.iter().all(|slot| row.state(slot).unwrap()[2] != 0.0), "{row:?}");
            false
        })?;
    }
    let adds = SGD.replace("sgd", "add_delta") + r#", "type": "uint64""#;
    let mut sums = KeyedTable::<u64>::new(&text(&adds, ""))?;
    sums.update(&[9u64], &[1, 2, u64::MAX], &default())?;
    assert_eq!(sums.evict(|row| row.values() == [1, 2, u64::MAX])?, 1);
    Ok(())
}

/// A panic of a function goes through the call, and nothing is evicted.
#[test]
fn a_panic_evicts_nothing() -> Result<(), Error> {
    let mut table = made(SGD, "")?;
    steps(&mut table, &[&[1, 2, 3, 4, 5]])?;
    let before = table.save()?;
    let mut calls = 0;
    let mut fail = |row: &KeyedRow<'_, f32>| {
        calls += 1;
        assert!(calls != 3, "key {}", row.key());
        true
    };
    let mut panic_of = |evict: &mut dyn FnMut(&mut KeyedTable<f32>)| {
        let panic = catch_unwind(AssertUnwindSafe(|| evict(&mut table))).unwrap_err();
        assert!(panic.downcast_ref::<String>().unwrap().starts_with("key "));
        assert!(table.save().unwrap() == before);
    };
    panic_of(&mut |table| drop(table.evict(&mut fail)));
    assert_eq!(calls, 3); // it is not called again
    calls = 0;
    let mut fail = |row: &KeyedRow<'_, f32>| {
        calls += 1;
        assert!(calls != 3, "key {}", row.key());
        1.0
    };
    panic_of(&mut |table| drop(table.evict_to_by(1, &mut fail)));
    assert_eq!(calls, 3);
    refused(table.evict_to_by(1, |_| f64::NAN), Code::BadValue, &["NaN"]);
    assert!(table.save()? == before);
    Ok(())
}

#[test]
fn changes_of_a_keyed_table() -> Result<(), Error> {
    let (mut table, mut replica) = (made(SGD, "")?, made(SGD, "")?);
    steps(&mut table, &[&[1, 2, 3], &[2, 3]])?;
    replica.apply_changes(&table.changed_since(0, RowContent::Values)?)?;
    same_rows(&table, &replica);
    table.evict_older_than(2)?;
    steps(&mut table, &[&[3, 4]])?;
    let changes = table.changed_since(replica.clock()?.step, RowContent::Values)?;
    assert!(changes.len() < table.changed_since(0, RowContent::State)?.len());
    replica.apply_changes(&changes)?;
    assert_eq!(sorted_keys(&replica), [2, 3, 4]);
    same_rows(&table, &replica);

    let mut damaged = changes;
    damaged[9] ^= 1;
    let before = replica.save()?;
    refused(replica.apply_changes(&damaged), Code::BadValue, &[]);
    refused(replica.apply_changes(&[]), Code::BadValue, &[]);
    refused(table.changed_since(99, RowContent::Values), Code::BadValue, &["99"]);
    assert!(replica.save()? == before);

    // In 8 bits, a replica has the rows that the codes stand for.
    let (mut small, keys) = (made(SGD, "")?, sorted_keys(&table));
    small.apply_changes(&table.changed_since(0, RowContent::Int8)?)?;
    let mut coded = vec![0; keys.len() * (3 + 8)];
    table.int8_rows_into(&keys, &mut coded)?;
    for (key, row) in keys.iter().zip(coded.chunks(11)) {
        let number = |at: usize| f32::from_le_bytes([row[at], row[at + 1], row[at + 2], row[at + 3]]);
        let decoded: Vec<f32> = row[..3]
            .iter()
            .map(|&code| f32::from(code) * number(3) + number(7))
            .collect();
        assert_eq!(small.row(*key)?, decoded);
    }
    refused(table.int8_rows_into(&keys, &mut coded[1..]), Code::BadSize, &["out"]);

    let ahead = Clock {
        step: table.clock()?.step + 90,
        ..table.clock()?
    };
    table.seek(ahead)?;
    assert_eq!(table.clock()?, ahead);
    refused(table.seek(Clock::default()), Code::BadValue, &["seek"]);

    // With the state a replica continues the training.
    let (mut table, mut trains) = (made(EXACT, "")?, made(EXACT, "")?);
    steps(&mut table, &[&[1, 2, 3], &[2, 3]])?;
    trains.apply_changes(&table.changed_since(0, RowContent::State)?)?;
    steps(&mut table, &[&[1, 3]])?;
    steps(&mut trains, &[&[1, 3]])?;
    same_rows(&table, &trains);
    Ok(())
}

#[test]
fn a_keyed_table_resumes() -> Result<(), Error> {
    let start = || {
        made(
            EXACT,
            r#", "admit_after": 2, "initial": {"name": "normal", "mean": 0, "deviation": 1, "seed": 3}"#,
        )
    };
    let mut table = start()?;
    steps(&mut table, &[&[1, 2, 3], &[2, 3], &[1 << 60, 2]])?;
    table.evict_older_than(3)?;
    let (mut from_bytes, mut from_file) = (start()?, start()?);
    steps(&mut from_bytes, &[&[70], &[70]])?; // rows that `load` replaces
    from_bytes.load(&table.save()?)?;
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("keyed_table.safetensors");
    table.save_file(&path)?;
    assert!(file_names(&path)?.contains(&"values".to_string()));
    let report = from_file.load_file_with(&path, &LoadOptions::default())?;
    assert_eq!(report.loaded, ["values"]);
    for table in [&mut table, &mut from_bytes, &mut from_file] {
        steps(table, &[&[1, 2, 3], &[1 << 60, 2]])?;
    }
    let want = table.save()?;
    assert!(from_bytes.save()? == want && from_file.save()? == want);
    std::fs::remove_file(path).unwrap();
    Ok(())
}

/// Threads update and read one table at once while another evicts, and no update is lost.
#[test]
fn threads_share_a_keyed_table() -> Result<(), Error> {
    const THREADS: usize = 4;
    const STEPS: usize = 100;
    let shared = SharedKeyedTable::<f32>::new(&text(SGD, r#", "concurrent": true"#))?;
    std::thread::scope(|scope| {
        for thread in 0..THREADS as u64 {
            let shared = &shared;
            scope.spawn(move || {
                for step in 0..STEPS as u64 {
                    let keys = [5 << 40, 1 + thread * 1000 + step];
                    if thread == 0 {
                        shared
                            .update_bags(&Bags::new(&keys, &[0]), &[-1.0; 3], &default())
                            .unwrap();
                    } else {
                        shared.update(&keys, &[-1.0; 6], &default()).unwrap();
                    }
                    assert!(shared.row(5u64 << 40).unwrap()[0] >= (step + 1) as f32);
                }
            });
        }
        let mut own = shared.table(); // moves to another thread
        scope.spawn(move || {
            own.hold(&[5u64 << 40]).unwrap();
            for _ in 0..20 {
                own.evict_to(100).unwrap();
                own.evict(|row| row.key() % 7 == 0).unwrap();
                assert!(own.keys().unwrap().len() <= own.counts().unwrap().admitted as usize);
                own.changed_since(0, RowContent::Values).unwrap();
            }
            own.unhold(&[5u64 << 40]).unwrap();
        });
    });
    let mut own = shared.table();
    assert_eq!(own.row(5u64 << 40)?, [(THREADS * STEPS) as f32; 3]);
    assert_eq!(own.clock()?.step as usize, THREADS * STEPS);
    let counts = own.counts()?;
    assert_eq!(own.describe()?.rows as u64, counts.admitted - counts.evicted);
    assert_eq!(own.keys()?.len() as u64, counts.admitted - counts.evicted);
    own.evict_to(1)?;
    assert_eq!(shared.table().describe()?.rows, 1);
    Ok(())
}

#[test]
fn keyed_tables_refuse() -> Result<(), Error> {
    let numbered = format!(r#"{{{SGD}, "table": {{"rows": 4, "width": 3, "concurrent": true}}}}"#);
    let keyed = text(SGD, "");
    refused(
        Table::<f32>::new(&keyed),
        Code::BadConfig,
        &["Table: its rows have keys; expected a KeyedTable"],
    );
    refused(
        KeyedTable::<f32>::new(&numbered),
        Code::BadConfig,
        &["KeyedTable: its rows have numbers; expected a Table"],
    );
    refused(
        SharedKeyedTable::<f32>::new(&numbered),
        Code::BadConfig,
        &["expected a Table"],
    );
    refused(
        SharedKeyedTable::<f32>::new(&keyed),
        Code::BadConfig,
        &["keyed_table.concurrent: false"],
    );
    refused(
        KeyedTable::<f64>::new(&keyed),
        Code::BadConfig,
        &["type: float32 is not the type of a KeyedTable<f64>"],
    );
    refused(
        made(SGD, r#", "admit_after": 0"#),
        Code::BadConfig,
        &["keyed_table.admit_after: 0"],
    );

    let mut table = KeyedTable::<f32>::new(&keyed)?;
    refused(
        table.update(&[1i32], &[1.0; 3], &default()),
        Code::BadValue,
        &["int32", "uint64"],
    );
    refused(table.update(&[1u64], &[1.0; 2], &default()), Code::BadSize, &[]);
    refused(table.unhold(&[1u64]), Code::BadValue, &["1"]);
    let mut ageless = made(SGD, r#", "last_touches": false"#)?;
    refused(ageless.evict_older_than(1), Code::BadSequence, &["last_touches"]);
    refused(
        ageless.changed_since(0, RowContent::Values),
        Code::BadSequence,
        &["last_touches"],
    );

    has_not!(KeyedTable<f32>, Clone);
    has_not!(KeyedTable<f32>, Sync);
    fn sent<T: Send>() {}
    fn shared<T: Send + Sync>() {}
    sent::<KeyedTable<BFloat16>>();
    shared::<SharedKeyedTable<f64>>();
    let config = table.config()?;
    assert_eq!(
        format!("{table:?}"),
        format!("KeyedTable {{ element: f32, config: {config} }}")
    );
    Ok(())
}

/// The keys of gs::stable_hash, computed by C++ (test/core/stable_hash.cpp, test/c/keyed_tables.cpp).
#[test]
fn keys_of_texts() -> Result<(), Error> {
    let keys = hash_texts("", &["news", "größe", ""])?;
    assert_eq!(keys[..2], [0xf2d3fb1a158dd4f2, 0xa9b541425f6e8284]);
    assert_eq!(hash_texts("ne", &["ws"])?, keys[..1]);
    let numbers = hash_integers("site=", &[8, i64::MIN])?;
    assert_eq!(numbers, hash_texts("site=", &["8", "-9223372036854775808"])?);
    assert_eq!(numbers[0], 8231492868206863162);
    assert_eq!(hash_texts("site=", &[""; 0])?, []);
    Ok(())
}
