use gradstep::*;
use std::error::Error as _;
use std::os::raw::c_void;

/// Compiles if the type does not have the trait: which of two items is meant would be open otherwise.
macro_rules! has_not {
    ($type:ty, $trait:path) => {{
        trait Open<Which> {
            fn item() {}
        }
        impl<T: ?Sized> Open<()> for T {}
        struct Other;
        impl<T: ?Sized + $trait> Open<Other> for T {}
        let _ = <$type as Open<_>>::item;
    }};
}

#[path = "gradstep/keyed_tables.rs"]
mod keyed_tables;
#[path = "gradstep/servers.rs"]
mod servers;
#[path = "gradstep/tables.rs"]
mod tables;

const ADAM: &str = r#"{"rule": {"name": "adam"}, "schedule": {"name": "constant", "rate": 0.1}}"#;
const MOMENTUM: &str =
    r#"{"rule": {"name": "momentum"}, "schedule": {"name": "constant", "rate": 0.01}, "threads": 2}"#;

fn values(n: usize, f: impl Fn(f64) -> f64) -> Vec<f32> {
    (0..n).map(|i| f(i as f64) as f32).collect()
}

/// Without a page of bytes where they differ.
#[track_caller]
fn same(a: &Parameter<impl Element>, state: &[u8]) {
    assert!(a.save().unwrap() == state, "the state has other bits");
}

fn default() -> StepOptions {
    StepOptions::default()
}

/// Compares by the error of 50 steps in float: some roundings a step, of numbers below 8.
fn near(got: &[f32], want: &[f64]) {
    assert_eq!(got.len(), want.len());
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        assert!(
            (f64::from(*got) - want).abs() < 50.0 * 8.0 * 8.0 / 16777216.0,
            "value {i} is {got}, want {want}"
        );
    }
}

#[track_caller]
fn refused<T>(result: Result<T, Error>, code: Code, parts: &[&str]) {
    let error = result.err().expect("an error");
    assert_eq!(error.code(), code, "{error}");
    assert!(!error.message().is_empty());
    for part in parts {
        assert!(error.message().contains(part), "\"{error}\" does not say {part}");
    }
}

/// Algorithm 1 of arXiv:1412.6980, with a rate for each step.
fn adam_in_double(w: &mut [f64], m: &mut [f64], v: &mut [f64], gradient: &[f32], step: i32, rate: f64) {
    for (i, g) in gradient.iter().enumerate() {
        let g = f64::from(*g);
        m[i] = 0.9 * m[i] + 0.1 * g;
        v[i] = 0.999 * v[i] + 0.001 * g * g;
        let (m, v) = (m[i] / (1.0 - 0.9f64.powi(step)), v[i] / (1.0 - 0.999f64.powi(step)));
        w[i] -= rate * m / (v.sqrt() + 1e-8);
    }
}

#[test]
fn update_is_adam() -> Result<(), Error> {
    const N: usize = 37;
    let initial = values(N, f64::sin);
    let mut p = Parameter::new(ADAM, &initial)?;
    let mut w: Vec<f64> = initial.iter().map(|x| f64::from(*x)).collect();
    let (mut m, mut v) = (vec![0.0; N], vec![0.0; N]);
    for step in 1..=50 {
        let gradient = values(N, |i| (i * f64::from(step)).cos());
        let (rate, options) = match step % 3 {
            0 => (
                0.05,
                StepOptions {
                    rate_scale: 0.5,
                    samples: 32,
                    ..default()
                },
            ),
            1 => (
                0.02,
                StepOptions {
                    rate: Some(0.02),
                    epoch: Some(7),
                    ..default()
                },
            ),
            _ => (0.1, default()),
        };
        p.update(&gradient, &options)?;
        adam_in_double(&mut w, &mut m, &mut v, &gradient, step, rate);
    }
    near(p.values()?, &w);
    let slots = p.slots()?;
    assert_eq!(
        slots.iter().map(|slot| slot.name.as_str()).collect::<Vec<_>>(),
        ["m", "v"]
    );
    near(slots[0].values.as_slice::<f32>().unwrap(), &m);
    near(slots[1].values.as_slice::<f32>().unwrap(), &v);
    assert_eq!(slots[0].values.as_slice::<f64>(), None);
    assert_eq!(
        p.clock()?,
        Clock {
            step: 50,
            samples: 16 * 32,
            epoch: 7,
            ..Clock::default()
        }
    );
    Ok(())
}

/// State that contains weights follows values that are set, in the library's memory and in slices.
#[test]
fn weights_that_are_set() -> Result<(), Error> {
    let madgrad = r#"{"rule": {"name": "madgrad"}, "schedule": {"name": "constant", "rate": 0.125}}"#;
    let mut p = Parameter::new(madgrad, &[1.0f32, 2.0])?;
    let mut updater = Updater::<f32>::new(madgrad)?;
    let mut values = [1.0f32, 2.0];
    let mut state = updater.initialize(&values)?;
    let mut step = |gradient: &[f32], values: &mut [f32], set: Option<&[f32]>| -> Result<(), Error> {
        if let Some(set) = set {
            p.set_values(set)?;
            values.copy_from_slice(set);
            updater.weights_set(values, &mut state)?;
        }
        p.update(gradient, &default())?;
        updater.next_step(&default())?.apply(values, gradient, &mut state)
    };
    step(&[1.0, -1.0], &mut values, None)?;
    step(&[0.0, 0.0], &mut values, Some(&[7.0, 8.0]))?;
    step(&[0.0, 0.0], &mut values, None)?;
    assert_eq!(values, [7.0, 8.0]);
    assert_eq!(p.values()?, &values[..]);
    refused(updater.weights_set(&[1.0], &mut state), Code::BadSize, &[]);
    Ok(())
}

/// Values that are set are trained on, with the state as it was.
#[test]
fn set_values() -> Result<(), Error> {
    let mut p = Parameter::new(ADAM, &[1.0f32, 2.0, 3.0])?;
    p.update(&[1.0, -1.0, 1.0], &default())?;
    let state = format!("{:?}", p.slots()?);
    p.set_values(&[7.0, 8.0, 9.0])?;
    assert_eq!((p.values()?, p.clock()?.step), (&[7.0, 8.0, 9.0][..], 1));
    assert_eq!(format!("{:?}", p.slots()?), state);
    refused(p.set_values(&[1.0]), Code::BadSize, &[]);
    Ok(())
}

#[test]
fn rows_change_while_training() -> Result<(), Error> {
    let mut p = Parameter::from_rows(MOMENTUM, 1, 2, &[1.0f32, 1.0])?;
    p.append(&[7.0, 7.0, 8.0, 8.0])?;
    p.update(&[0.0, 0.0, 1.0, 1.0, 2.0, 2.0], &default())?;
    let before = p.values()?.to_vec();
    p.permute(&[2u32, 0, 1])?;
    p.keep(&[true, false, true])?;
    p.reset(&[1i64])?;
    assert_eq!((p.rows(), p.width()), (2, 2));
    assert_eq!(p.values()?, [&before[4..], &before[2..4]].concat());
    match p.slots()?[0].values {
        Values::F32(m) => assert_eq!(m, [2.0, 2.0, 0.0, 0.0]),
        ref other => panic!("{other:?}"),
    }
    p.update_rows(&[1i64], &[1.0, 1.0], &default())?;
    refused(p.append(&[1.0]), Code::BadSize, &["append: 1 values"]);
    refused(p.keep(&[true]), Code::BadSize, &["the mask has 1 elements"]);
    refused(p.permute(&[1i32, 1]), Code::BadValue, &["row 1 is in the order twice"]);
    refused(p.reset(&[2i32]), Code::BadValue, &["expected a row in [0, 2)"]);
    assert_eq!(p.len(), 4);
    let mut vector = Parameter::new(ADAM, &[1.0f32, 2.0])?;
    vector.append(&[3.0])?;
    assert_eq!((vector.rows(), vector.width()), (1, 3));
    vector.update(&[1.0; 3], &default())?;
    Parameter::<f32>::zeros(ADAM, 1, 2)?.update_rows(&[0i64], &[1.0, 1.0], &default())
}

#[test]
fn update_and_zero_writes_the_gradient() -> Result<(), Error> {
    let (mut a, mut b) = (Parameter::new(ADAM, &[1.0f32; 5])?, Parameter::new(ADAM, &[1.0f32; 5])?);
    let mut gradient = [1.0, 2.0, 3.0, 4.0, 5.0];
    a.update(&gradient, &default())?;
    b.update_and_zero(&mut gradient, &default())?;
    assert_eq!(gradient, [0.0; 5]);
    assert_eq!(a.values()?, b.values()?);
    Ok(())
}

fn adds<T: Element>(from: T, by: T, want: T) -> Result<(), Error> {
    let add = r#"{"rule": {"name": "add_delta"}, "schedule": {"name": "constant", "rate": 1}}"#;
    let mut p = Parameter::new(add, &[from; 3])?;
    p.update(&[by; 3], &default())?;
    assert_eq!(p.values()?, [want; 3]);
    Ok(())
}

#[test]
fn every_element() -> Result<(), Error> {
    adds(2.0f32, 1.0, 3.0)?;
    adds(2.0f64, 1.0, 3.0)?;
    adds(BFloat16(0x4000), BFloat16(0x3f80), BFloat16(0x4040))?;
    adds(Float16(0x4000), Float16(0x3c00), Float16(0x4200))?;
    adds(-2i32, 1, -1)?;
    adds(u32::MAX, 1, 0)?;
    adds(i64::MAX, 1, i64::MIN)?;
    adds(1u64 << 40, 1, (1 << 40) + 1)
}

/// Every rule, preset, schedule, regularizer, average and clip, and every kind of memory, trains.
#[test]
fn configurations() -> Result<(), Error> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../test/c/configurations.txt");
    let list = std::fs::read_to_string(path).unwrap();
    for line in list.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (dtype, config) = line.split_once(' ').unwrap();
        let done = match dtype {
            "float32" => trains(config, |x| x),
            "float64" => trains(config, f64::from),
            "bfloat16" => trains(config, |x| BFloat16((x.to_bits() >> 16) as u16)),
            "float16" => trains(config, |x| {
                let of_magnitude = [0, 0x3c00, 0x4000, 0x4200][x.abs() as usize];
                Float16(of_magnitude | if x < 0.0 { 0x8000 } else { 0 })
            }),
            "int32" => trains(config, |x| x as i32),
            "int64" => trains(config, |x| x as i64),
            other => panic!("the dtype is {other}"),
        };
        done.unwrap_or_else(|error| panic!("{line}: {error}"));
    }
    Ok(())
}

fn trains<T: Element + PartialEq>(config: &str, of: impl Fn(f32) -> T) -> Result<(), Error> {
    let numbers = |seed: i64, span: i64| {
        (0..24)
            .map(|i| of(((i + seed) % span - span / 2) as f32))
            .collect::<Vec<T>>()
    };
    let initial = numbers(0, 5);
    let mut p = Parameter::from_rows(config, 4, 6, &initial)?;
    for step in 0..8 {
        let options = StepOptions {
            loss: Some(0.5),
            samples: 2,
            epoch: Some(step),
            ..default()
        };
        p.update(&numbers(step, 7), &options)?;
    }
    assert!(p.values()? != initial, "{config}: no value has moved");
    if let Ok(found) = first_nonfinite(&[p.values()?]) {
        assert_eq!(found, None, "{config}"); // an error: integers are finite
    }
    Ok(())
}

#[test]
fn threads_give_the_bits_of_one() -> Result<(), Error> {
    const N: usize = 300_000; // enough to be split
    let (initial, gradient) = (values(N, f64::sin), values(N, f64::cos));
    let mut one = Parameter::new(ADAM, &initial)?;
    let mut two = Parameter::new(&ADAM.replacen('{', r#"{"threads": 2, "#, 1), &initial)?;
    one.update(&gradient, &default())?;
    two.update(&gradient, &default())?;
    same(&one, &two.save()?);
    Ok(())
}

#[test]
fn gradients_that_are_not_finite() -> Result<(), Error> {
    let of = |what: &str| {
        let config = r#"{"rule": {"name": "sgd"}, "schedule": {"name": "constant", "rate": 1}, "on_nonfinite": "#;
        Parameter::new(&format!("{config}\"{what}\"}}"), &[1.0f32, 2.0])
    };
    let (mut propagates, mut skips, mut raises) = (of("propagate")?, of("skip")?, of("raise")?);
    propagates.update(&[1.0, f32::NAN], &default())?;
    assert!(propagates.values()?[0] == 0.0 && propagates.values()?[1].is_nan());
    skips.update(&[1.0, f32::NAN], &default())?;
    refused(
        raises.update(&[1.0, f32::NAN], &default()),
        Code::NotFinite,
        &["element 1"],
    );
    assert_eq!((skips.values()?, raises.values()?), (&[1.0, 2.0][..], &[1.0, 2.0][..]));
    Ok(())
}

#[test]
fn clips() -> Result<(), Error> {
    for (clip, limit, want) in [
        ("clip_norm", 2.5, [-1.5, 2.0]), // of the gradient (3, -4), whose norm is 5
        ("clip_global_norm", 2.5, [-1.5, 2.0]),
        ("clip_value", 3.5, [-3.0, 3.5]),
    ] {
        let config = format!(
            r#"{{"rule": {{"name": "sgd"}}, "schedule": {{"name": "constant", "rate": 1}},
               "clip": {{"name": "{clip}", "limit": {limit}}}}}"#
        );
        let mut p = Parameter::new(&config, &[0.0f32, 0.0])?;
        p.update(&[3.0, -4.0], &default())?;
        assert_eq!(p.values()?, want, "{clip}");
    }
    Ok(())
}

#[test]
fn numbers_change_between_steps() -> Result<(), Error> {
    let of = |beta1: f64| ADAM.replace(r#""adam""#, &format!(r#""adam", "beta1": {beta1}"#));
    let (mut p, mut other) = (
        Parameter::new(&of(0.5), &[1.0f32, 2.0])?,
        Parameter::new(&of(0.25), &[1.0f32, 2.0])?,
    );
    p.update(&[1.0, -1.0], &default())?;
    other.load(&p.save()?)?;
    p.set_numbers(&[("rule.beta1", 0.25)])?;
    assert_eq!(p.config()?, other.config()?);
    p.update(&[0.5, 2.0], &default())?;
    other.update(&[0.5, 2.0], &default())?;
    same(&p, &other.save()?);
    refused(p.set_numbers(&[("rule.beta1", 1.5)]), Code::BadConfig, &["rule.beta1"]);
    Ok(())
}

#[test]
fn rows() -> Result<(), Error> {
    let mut p = Parameter::<f32>::zeros(ADAM, 10, 3)?;
    p.update_rows(&[7i64, 2], &[1.0; 6], &default())?;
    for id in 0..10u32 {
        near(&p.row(id)?, &[if id == 7 || id == 2 { -0.1 } else { 0.0 }; 3]);
    }
    let mut out = [5.0; 6];
    p.rows_into(&[0i32, 7], &mut out)?;
    near(&out, &[0.0, 0.0, 0.0, -0.1, -0.1, -0.1]);

    let before = p.save()?;
    refused(
        p.update_rows(&[10i64, 2], &[1.0; 6], &default()),
        Code::BadValue,
        &["10"],
    );
    refused(
        p.update_rows(&[-1i64, 2], &[1.0; 6], &default()),
        Code::BadValue,
        &["-1"],
    );
    refused(p.update_rows(&[1u64], &[1.0; 6], &default()), Code::BadSize, &[]);
    refused(p.rows_into(&[0u64, 1, 2], &mut out), Code::BadSize, &[]);
    refused(p.row(10i64), Code::BadValue, &["10"]);
    same(&p, &before);
    p.update_rows::<i64>(&[], &[], &default())?;
    p.flush()?;
    assert_eq!((p.rows(), p.width(), p.len(), p.is_empty()), (10, 3, 30, false));
    Ok(())
}

#[test]
fn update_all_draws_different_numbers() -> Result<(), Error> {
    let noisy = r#"{"rule": {"name": "sgld"}, "schedule": {"name": "constant", "rate": 0.125}}"#;
    let make = || Parameter::new(noisy, &[0.0f32; 16]);
    let (mut a, mut b, g) = (make()?, make()?, [0.0; 16]);
    update_all([a.with(&g), b.with(&g)], &default())?;
    assert_ne!(a.values()?, b.values()?);
    let (mut c, mut d, mut added) = (make()?, make()?, make()?);
    c.load(&a.save()?)?;
    d.load(&b.save()?)?;
    for _ in 0..2 {
        update_all([a.with(&g), b.with(&g)], &default())?;
        update_all([added.with(&g), d.with(&g), c.with(&g)], &default())?;
    }
    assert_eq!(a.values()?, c.values()?);
    assert_eq!(b.values()?, d.values()?);
    assert_ne!(added.values()?, d.values()?);
    Ok(())
}

#[test]
fn update_all_is_every_update() -> Result<(), Error> {
    let make = || -> Result<_, Error> {
        let a = Parameter::new(ADAM, &values(1000, f64::sin))?;
        let b = Parameter::new(MOMENTUM, &[1.0f64, 2.0, 3.0])?;
        Ok((a, b, Parameter::from_rows(MOMENTUM, 7, 9, &values(63, f64::cos))?))
    };
    let (mut a, mut b, mut c) = make()?;
    let (mut d, mut e, mut f) = make()?;
    let options = StepOptions {
        rate_scale: 0.5,
        ..default()
    };
    for step in 0..5 {
        let (g, h, i) = (
            values(1000, |i| i / f64::from(step + 1)),
            [0.5, -0.5, 1.0],
            values(63, f64::sqrt),
        );
        a.update(&g, &options)?;
        b.update(&h, &options)?;
        c.update(&i, &options)?;
        update_all([d.with(&g), e.with(&h), f.with(&i)], &options)?;
    }
    same(&a, &d.save()?);
    same(&b, &e.save()?);
    same(&c, &f.save()?);
    update_all([], &options)?;
    let before = a.save()?;
    refused(
        update_all([a.with(&[1.0; 1000]), b.with(&[1.0; 2])], &options),
        Code::BadSize,
        &[],
    );
    same(&a, &before); // all are checked before any is written
    Ok(())
}

/// The values move by rho along the gradients of norm 2.5, and the step begins at the values before.
#[test]
fn sharpness_aware_steps() -> Result<(), Error> {
    let momentum =
        r#"{"rule": {"name": "momentum"}, "schedule": {"name": "constant", "rate": 0.5}, "on_nonfinite": "skip"}"#;
    let mut wide = Parameter::new(momentum, &[1.0f32, -2.0])?;
    let mut deep = Parameter::new(momentum, &[0.5f64])?;
    let (g_wide, g_deep) = ([2.0, 0.0], [1.5]);
    let far = SamOptions {
        rho: 5.0,
        epsilon: 0.0,
        ..Default::default()
    };
    assert_eq!(ascend_all([wide.with(&g_wide), deep.with(&g_deep)], &far)?, Some(2.5));
    assert_eq!((wide.values()?, deep.values()?), (&[5.0, -2.0][..], &[3.5][..]));
    refused(wide.update(&g_wide, &default()), Code::BadSequence, &["descend()"]);
    refused(wide.ascend(&g_wide, &far), Code::BadSequence, &[]);
    refused(wide.save(), Code::BadSequence, &[]);
    refused(wide.keep_bfloat16_copy(), Code::BadSequence, &[]);
    let wrong = StepOptions {
        rate_scale: -1.0,
        ..default()
    };
    let (s_wide, s_deep) = ([1.0, 1.0], [-1.0]);
    refused(
        descend_all([wide.with(&s_wide), deep.with(&s_deep)], &wrong),
        Code::BadValue,
        &[],
    );
    descend_all([wide.with(&s_wide), deep.with(&s_deep)], &default())?;
    assert_eq!((wide.values()?, deep.values()?), (&[0.5, -2.5][..], &[1.0][..]));
    assert_eq!((wide.clock()?.step, deep.clock()?.step), (1, 1));
    refused(
        wide.descend(&s_wide, &default()),
        Code::BadSequence,
        &["parameter 0: ", "ascend() first"],
    );

    // A gradient that its parameter skips ends the step of all; in the second half, of its own parameter.
    assert_eq!(ascend_all([wide.with(&g_wide), deep.with(&[f64::NAN])], &far)?, None);
    assert_eq!(wide.values()?, [0.5, -2.5]);
    ascend_all([wide.with(&g_wide), deep.with(&g_deep)], &far)?;
    descend_all([wide.with(&s_wide), deep.with(&[f64::NAN])], &default())?;
    assert_eq!((wide.clock()?.step, deep.clock()?.step), (2, 1));
    assert_eq!(deep.values()?, [1.0]);

    // One parameter alone, by ASAM: a = 1 + |w|.
    let mut one = Parameter::new(&momentum.replace("momentum", "sgd"), &[1.0f64])?;
    let how = SamOptions {
        rho: 0.5,
        adaptive: true,
        eta: 1.0,
        epsilon: 0.0,
    };
    assert_eq!((one.ascend(&[3.0], &how)?, one.values()?), (Some(6.0), &[2.0][..]));
    refused(one.descend(&[], &default()), Code::BadSize, &[]);
    one.descend(&[0.5], &default())?;
    assert_eq!(one.values()?, [0.75]);
    one.ascend(&[3.0], &how)?;
    one.restore()?;
    assert_eq!(one.values()?, [0.75]);
    let backwards = SamOptions { rho: -1.0, ..how };
    refused(one.ascend(&[3.0], &backwards), Code::BadValue, &["rho"]);
    ascend_all([], &how)?;
    descend_all([], &default())
}

/// The lines of docs/how_to/rust.md.
#[test]
fn guide_of_both_halves_and_of_the_copy() -> Result<(), Error> {
    let (mut wide, mut deep) = (Parameter::new(ADAM, &[1.0f32; 3])?, Parameter::new(ADAM, &[1.0f32; 2])?);
    let backward = |wide: &Parameter<f32>, deep: &Parameter<f32>| -> Result<_, Error> {
        Ok((wide.values()?.to_vec(), deep.values()?.to_vec()))
    };
    let options = StepOptions::default();
    // [halves]
    let (of_wide, of_deep) = backward(&wide, &deep)?;
    let far = SamOptions {
        rho: 0.1,
        ..Default::default()
    };
    let norm = ascend_all([wide.with(&of_wide), deep.with(&of_deep)], &far)?;
    let (of_wide, of_deep) = backward(&wide, &deep)?; // at the values that `ascend_all` has left
    descend_all([wide.with(&of_wide), deep.with(&of_deep)], &options)?;
    // [halves]
    assert!(norm.unwrap() > 2.2);
    let gradient = of_wide;
    // [copy]
    wide.keep_bfloat16_copy()?; // writes the present values
    wide.update(&gradient, &options)?; // also writes the copy
    let halves: &[BFloat16] = wide.bfloat16_copy()?;
    // [copy]
    assert_eq!(halves, rounded(&wide));
    Ok(())
}

/// The values rounded to nearest, ties to even.
fn rounded(p: &Parameter<f32>) -> Vec<BFloat16> {
    let bits = p.values().unwrap().iter().map(|x| x.to_bits());
    bits.map(|x| BFloat16(((x + 0x7fff + ((x >> 16) & 1)) >> 16) as u16))
        .collect()
}

#[test]
fn each_step_writes_the_copy_in_bfloat16() -> Result<(), Error> {
    let initial = values(30, f64::sin);
    let mut p = Parameter::from_rows(ADAM, 6, 5, &initial)?;
    assert!(p.bfloat16_copy()?.is_empty());
    p.keep_bfloat16_copy()?;
    assert_eq!(p.bfloat16_copy()?, rounded(&p));
    p.update(&values(30, f64::cos), &default())?;
    assert_eq!(p.bfloat16_copy()?, rounded(&p));
    p.update_rows(&[4i64], &initial[..5], &default())?;
    assert_eq!(p.bfloat16_copy()?, rounded(&p));
    p.set_values(&initial)?;
    assert_ne!(p.bfloat16_copy()?, rounded(&p));
    p.keep_bfloat16_copy()?;
    assert_eq!(p.bfloat16_copy()?, rounded(&p));
    let mut moved = vec![p]; // to other memory, and the copy stays where it is
    let p = &mut moved[0];
    p.update(&initial, &default())?;
    assert_eq!(p.bfloat16_copy()?, rounded(p));
    refused(p.append(&initial[..5]), Code::BadValue, &["bfloat16_copy"]);
    refused(
        p.ascend(&initial, &SamOptions::default()),
        Code::BadValue,
        &["bfloat16_copy"],
    );
    p.end_bfloat16_copy()?;
    assert!(p.bfloat16_copy()?.is_empty());
    p.append(&initial[..5])?;
    p.keep_bfloat16_copy()?;
    assert_eq!(p.bfloat16_copy()?, rounded(p));

    // Rows that catch up: the copy follows when it is read.
    let config = r#"{"rule": {"name": "sgd"}, "regularizer": {"name": "decoupled", "rate": 0.5}, "catch_up": "exact",
        "schedule": {"name": "constant", "rate": 0.5}}"#;
    let mut away = Parameter::from_rows(config, 6, 5, &initial)?;
    away.keep_bfloat16_copy()?;
    away.update_rows(&[4i64], &initial[..5], &default())?;
    assert_eq!(away.bfloat16_copy()?, rounded(&away));
    let mut empty = Parameter::<f32>::zeros(ADAM, 0, 5)?;
    empty.keep_bfloat16_copy()?;
    empty.append(&initial[..5])?;
    empty.keep_bfloat16_copy()?;
    assert_eq!(empty.bfloat16_copy()?, rounded(&empty));
    let mut sent = Parameter::new(&ADAM.replace("adam", "dgc_momentum"), &[1.0f32])?;
    refused(sent.keep_bfloat16_copy(), Code::BadValue, &["dgc_momentum"]);
    assert!(sent.bfloat16_copy()?.is_empty());
    Ok(())
}

#[test]
fn updater_is_a_parameter() -> Result<(), Error> {
    const N: usize = 100;
    let (mut w, mut other) = (values(N, f64::sin), values(N, f64::sin));
    let mut p = Parameter::new(ADAM, &w)?;
    let mut u = Updater::<f32>::new(ADAM)?;
    let (mut state, mut of_other) = (u.initialize(&w)?, u.initialize(&other)?);
    let mut none = u.initialize(&[])?;
    for step in 0..5 {
        let gradient = values(N, |i| (i + f64::from(step)).sin());
        p.update(&gradient, &default())?;
        let step = u.next_step(&default())?;
        step.apply(&mut w, &gradient, &mut state)?;
        step.apply_all(&mut [
            Tensor {
                values: &mut other,
                gradient: &gradient,
                state: &mut of_other,
            },
            Tensor {
                values: &mut [],
                gradient: &[],
                state: &mut none,
            },
        ])?;
    }
    assert_eq!(p.values()?, w);
    assert_eq!(other, w);
    assert_eq!(of_other, state);
    assert_eq!(state.names().collect::<Vec<_>>(), ["m", "v"]);
    for slot in p.slots()? {
        assert_eq!(Some(slot.values), state.slot(&slot.name));
    }
    assert_eq!(state.slot("momentum"), None);

    assert_eq!(u.clock()?.step, 5);
    u.seek(Clock {
        step: 100,
        ..Clock::default()
    })?;
    for rate in [f64::NAN, f64::INFINITY, -1.0] {
        let options = StepOptions {
            rate: Some(rate),
            ..default()
        };
        refused(u.next_step(&options), Code::BadValue, &["step_options.rate"]);
    }
    for epoch in [-1, -2, i64::MIN] {
        let options = StepOptions {
            epoch: Some(epoch),
            ..default()
        };
        refused(u.next_step(&options), Code::BadValue, &["step_options.epoch"]);
    }
    let step = u.next_step(&StepOptions {
        rate: Some(0.0),
        ..default()
    })?;
    refused(step.apply(&mut w, &[0.0; N - 1], &mut state), Code::BadSize, &["99"]);
    refused(
        step.apply(&mut w, &[0.0; N], &mut none),
        Code::BadSize,
        &["0 elements", "100"],
    );
    let mut foreign = Updater::<f32>::new(MOMENTUM)?.initialize(&w)?;
    refused(step.apply(&mut w, &[0.0; N], &mut foreign), Code::BadSize, &["slots"]);
    let before = w.clone();
    step.apply(&mut w, &[0.0; N], &mut state)?;
    assert_eq!(w, before);
    Ok(())
}

#[test]
fn tensors_of_one_call_have_their_own_decay_and_are_clipped_together() -> Result<(), Error> {
    let config = |decay: f64, clip: &str| {
        format!(
            r#"{{"rule": {{"name": "adam"}}, "regularizer": {{"name": "decoupled", "rate": {decay}}},
               "schedule": {{"name": "constant", "rate": 0.0625}}{clip}}}"#
        )
    };
    let clip = r#", "clip": {"name": "clip_global_norm", "limit": 0.5}"#;
    let mut all = Updater::<f32>::new(&config(0.5, clip))?;
    let mut alone = [
        Updater::<f32>::new(&config(0.5, ""))?,
        Updater::<f32>::new(&config(0.0, ""))?,
    ];
    let mut w = [values(60, f64::sin), values(40, f64::cos)];
    let mut of_alone = w.clone();
    let (mut first, mut second) = (all.initialize(&w[0])?, all.initialize(&w[1])?);
    let mut states = [first.clone(), second.clone()];
    let options = [
        TensorOptions::default(),
        TensorOptions {
            decay: 0.0,
            rate_scale: 0.5,
            ..Default::default()
        },
    ];
    for step in 0..4 {
        let g = [
            values(60, |i| (i + f64::from(step)).cos()),
            values(40, |i| (i - f64::from(step)).sin()),
        ];
        let norm = global_norm(&[&g[0], &g[1]])?;
        assert!(norm > 0.5);
        let [w0, w1] = &mut w;
        let mut tensors = [
            Tensor {
                values: w0,
                gradient: &g[0],
                state: &mut first,
            },
            Tensor {
                values: w1,
                gradient: &g[1],
                state: &mut second,
            },
        ];
        all.next_step(&default())?.apply_all_with(&mut tensors, &options)?;
        for k in 0..2 {
            let clipped = StepOptions {
                gradient_scale: 0.5 / norm,
                rate_scale: options[k].rate_scale,
                ..default()
            };
            let step = alone[k].next_step(&clipped)?;
            step.apply(&mut of_alone[k], &g[k], &mut states[k])?;
        }
    }
    assert!(
        w == of_alone,
        "the tensors of one call have other bits than two updaters"
    );
    let step = all.next_step(&default())?;
    let before = w.clone();
    let g = values(60, f64::sin);
    let mut refuses = |options: &[TensorOptions], code, parts: &[&str]| {
        let mut tensors = [Tensor {
            values: &mut w[0],
            gradient: &g,
            state: &mut first,
        }];
        refused(step.apply_all_with(&mut tensors, options), code, parts);
    };
    refuses(&options, Code::BadSize, &["options", "2", "1"]);
    let of = |rate_scale, decay, step| {
        [TensorOptions {
            rate_scale,
            decay,
            step,
        }]
    };
    refuses(&of(-1.0, 1.0, None), Code::BadValue, &["rate_scale", "-1"]);
    refuses(&of(1.0, f64::NAN, None), Code::BadValue, &["decay"]);
    refuses(&of(1.0, 1.0, Some(0)), Code::BadValue, &["step", "0"]);
    refuses(&of(1.0, 1.0, Some(-1)), Code::BadValue, &["step", "-1"]);
    assert!(w == before);
    Ok(())
}

#[test]
fn norms_and_nonfinite_elements() -> Result<(), Error> {
    assert_eq!(global_norm(&[&[3.0f64, 0.0][..], &[], &[4.0]])?, 5.0);
    assert_eq!(global_norm::<f32>(&[])?, 0.0);
    assert_eq!(first_nonfinite(&[&[1.0f32][..], &[1.0, 2.0]])?, None);
    assert_eq!(
        first_nonfinite(&[&[1.0f32][..], &[1.0, f32::NAN]])?,
        Some(NonFinite { tensor: 1, element: 1 })
    );
    refused(global_norm(&[&[1i32][..]]), Code::UnsupportedType, &["int32"]);
    refused(first_nonfinite(&[&[1u64][..]]), Code::UnsupportedType, &["uint64"]);
    Ok(())
}

#[test]
fn float64_names_float32() {
    let lion = ADAM.replace("adam", "lion");
    refused(
        Parameter::new(&lion, &[1.0f64]),
        Code::NotCompiled,
        &["float64", "float32"],
    );
    refused(Updater::<f64>::new(&lion), Code::NotCompiled, &["float64", "float32"]);
}

#[test]
fn errors() -> Result<(), Error> {
    let wrong = r#"{"rule": {"name": "adam", "beta1": 1.5}, "schedule": {"name": "constant", "rate": 0.1}}"#;
    refused(
        Parameter::new(wrong, &[1.0f32]),
        Code::BadConfig,
        &["rule.beta1", "1.5", "[0, 1)"],
    );
    refused(Updater::<f64>::new("no JSON"), Code::BadConfig, &[]);
    refused(Parameter::new("", &[1.0f32]), Code::BadConfig, &[]);
    refused(Parameter::new(ADAM, &[1i32]), Code::UnsupportedType, &[]);
    refused(
        Parameter::from_rows(ADAM, 2, 3, &[1.0f32; 5]),
        Code::BadSize,
        &["5 values", "2 rows of width 3"],
    );
    assert!(Parameter::<f32>::zeros(ADAM, usize::MAX, usize::MAX).is_err());

    let mut p = Parameter::new(ADAM, &[1.0f32, 2.0])?;
    refused(p.update(&[1.0], &default()), Code::BadSize, &[]);
    refused(p.update(&[], &default()), Code::BadSize, &[]);
    let negative = StepOptions {
        rate_scale: -1.0,
        ..default()
    };
    refused(p.update(&[1.0, 2.0], &negative), Code::BadValue, &[]);
    refused(
        p.seek(Clock {
            step: -1,
            ..Clock::default()
        }),
        Code::BadValue,
        &[],
    );
    refused(p.load(b"something else"), Code::BadValue, &[]);
    refused(p.load(b""), Code::BadValue, &[]);
    assert_eq!(p.values()?, [1.0, 2.0]);
    let error = p.update(&[1.0], &default()).unwrap_err();
    assert_eq!(
        (error.to_string(), error.source().is_none()),
        (error.message().to_string(), true)
    );
    Ok(())
}

#[test]
fn config_is_complete() -> Result<(), Error> {
    let config = Parameter::new(ADAM, &[1.0f32])?.config()?;
    assert!(config.contains("\"beta2\""), "{config}");
    assert_eq!(canonical_config(&config)?, config);
    assert_eq!(Updater::<f32>::new(&config)?.config()?, config);
    refused(canonical_config(r#"{"oops": 1}"#), Code::BadConfig, &["oops"]);
    assert!(!version().is_empty() && !simd_level().is_empty());
    Ok(())
}

#[test]
fn average() -> Result<(), Error> {
    let config =
        r#"{"rule": {"name": "sgd"}, "average": {"name": "polyak"}, "schedule": {"name": "constant", "rate": 1}}"#;
    let mut p = Parameter::new(config, &[0.0f32, 0.0])?;
    for _ in 0..3 {
        p.update(&[-1.0, -2.0], &default())?;
    }
    near(&p.average()?, &[2.0, 4.0]); // of 1, 2, 3
    p.apply_average()?;
    near(p.values()?, &[2.0, 4.0]);
    p.restore()?;
    near(p.values()?, &[3.0, 6.0]);
    refused(
        Parameter::new(&config.replace("sgd", "adam"), &[0.0f64]),
        Code::NotCompiled,
        &["average polyak", "float64"],
    );
    Ok(())
}

fn run(p: &mut Parameter<f32>, steps: usize) -> Result<(), Error> {
    for _ in 0..steps {
        let step = p.clock()?.step as f64;
        p.update(&values(50, |i| (i * step).sin()), &default())?;
    }
    Ok(())
}

/// A run in two halves, through bytes and through a file, gives the bits of one run.
#[test]
fn resume() -> Result<(), Error> {
    let start = || Parameter::new(ADAM, &values(50, f64::cos));
    let mut once = start()?;
    run(&mut once, 20)?;
    let want = once.save()?;

    let mut first = start()?;
    run(&mut first, 10)?;
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("model.safetensors");
    save_file(&path, &[("w", &first), ("b", &start()?)])?;

    let mut second = start()?;
    second.load(&first.save()?)?;
    run(&mut second, 10)?;
    same(&second, &want);

    let mut third = start()?;
    load_file(&path, &mut [("b", &mut start()?), ("w", &mut third)])?;
    run(&mut third, 10)?;
    same(&third, &want);

    refused(
        load_file(path.with_extension("not"), &mut [("w", &mut third)]),
        Code::Io,
        &["model.not"],
    );
    let missing = path.with_extension("not");
    let error = load_file(&missing, &mut [("w", &mut third)]).unwrap_err();
    assert_eq!(error.io_kind(), Some(std::io::ErrorKind::NotFound));
    let error = save_file(missing.join("x"), &[("w", &third)]).unwrap_err();
    assert_eq!(
        (error.code(), error.io_kind()),
        (Code::Io, Some(std::io::ErrorKind::NotFound))
    );
    assert_eq!(third.load(b"").unwrap_err().io_kind(), None);
    refused(
        load_file(&path, &mut [("w", &mut third), ("other", &mut start()?)]),
        Code::BadValue,
        &["other"],
    );
    same(&third, &want);
    std::fs::remove_file(path).unwrap();
    Ok(())
}

/// Texts that C would cut at a byte 0, or that no file can hold, are refused, and no file is written.
#[test]
fn texts() -> Result<(), Error> {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("texts");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("model");
    let (mut p, q) = (Parameter::new(ADAM, &[1.0f32])?, Parameter::new(ADAM, &[1.0f32])?);
    let before = p.save()?;
    let with = |bad: &str| folder.join(bad);
    for bad in ["\0", "w\0", "w\0x"] {
        let shown = format!("{bad:?}");
        refused(
            save_file(&path, &[(bad, &p)]),
            Code::BadValue,
            &["a name", &shown, "byte 0"],
        );
        refused(
            load_file(&path, &mut [(bad, &mut p)]),
            Code::BadValue,
            &["a name", &shown, "byte 0"],
        );
        refused(
            save_file(with(bad), &[("w", &p)]),
            Code::BadValue,
            &["the path", "byte 0"],
        );
        refused(
            load_file(with(bad), &mut [("w", &mut p)]),
            Code::BadValue,
            &["the path", "byte 0"],
        );
    }
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt;
        let bad = folder.join(std::ffi::OsStr::from_bytes(b"w\xff"));
        refused(save_file(&bad, &[("w", &p)]), Code::BadValue, &["the path", "UTF-8"]);
        refused(
            load_file(&bad, &mut [("w", &mut p)]),
            Code::BadValue,
            &["the path", "UTF-8"],
        );
    }
    for names in [["__metadata__", "v"], ["w", "w/m"], ["w/m", "w"], ["w", "w"]] {
        refused(
            save_file(&path, &[(names[0], &p), (names[1], &q)]),
            Code::BadValue,
            &[names[0]],
        );
    }
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    same(&p, &before);
    for bad in ["\0", "{\"\0\": 1}", &format!("{ADAM}\0"), &format!("{ADAM}\0garbage")] {
        refused(Parameter::new(bad, &[1.0f32]), Code::BadConfig, &[]);
        refused(Updater::<f32>::new(bad), Code::BadConfig, &[]);
        refused(canonical_config(bad), Code::BadConfig, &[]);
    }
    Ok(())
}

/// Readers borrow a parameter without `mut`, and what one of them has borrowed the others leave as it is.
#[test]
fn readers() -> Result<(), Error> {
    let momentum = r#"{"rule": {"name": "momentum"}, "catch_up": {"name": "exact"},
        "schedule": {"name": "constant", "rate": 0.1}}"#;
    let average = r#"{"rule": {"name": "adam"}, "average": {"name": "ema", "decay": 0.9},
        "schedule": {"name": "constant", "rate": 0.1}}"#;
    for config in [momentum, average, ADAM] {
        let mut changed = Parameter::<f32>::zeros(config, 6, 4)?;
        for step in 0..5 {
            changed.update_rows(&[step, 0], &[1.0; 8], &default())?;
        }
        let mut flushed = Parameter::<f32>::zeros(config, 6, 4)?;
        flushed.load(&changed.save()?)?;
        let p = &changed; // row 0 has taken all steps, the others wait
        let slots = p.slots()?;
        let (seen, values) = (format!("{slots:?}"), p.values()?);
        let before = values.to_vec();
        let (row, mut rows) = (p.row(3)?, [0.0; 8]);
        p.rows_into(&[3, 5], &mut rows)?;
        p.flush()?;
        assert_eq!((&row[..], &rows[4..]), (&before[12..16], &before[20..24]));
        if config == average {
            assert_eq!(p.average()?.len(), 24);
        }
        assert_eq!(
            (p.clock()?.step, p.config()?.is_empty(), p.save()?.is_empty()),
            (5, false, false)
        );
        let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("readers.safetensors");
        save_file(&path, &[("w", p), ("twice", p)])?;
        std::fs::remove_file(path).unwrap();
        assert_eq!(format!("{:?}", p.slots()?), seen);
        assert_eq!((values, format!("{slots:?}")), (&before[..], seen));
        flushed.flush()?;
        same(p, &flushed.save()?);
    }
    Ok(())
}

/// No handle is copied by its address, and none is used by two threads at a time but a step and an executor.
#[test]
fn handles_are_neither_copied_nor_shared() {
    has_not!(Parameter<f32>, Clone);
    has_not!(Parameter<f32>, Sync);
    has_not!(Updater<f32>, Clone);
    has_not!(Updater<f32>, Sync);
    has_not!(Step<'_, f32>, Clone);
    has_not!(Update<'_>, Clone);
    has_not!(Update<'_>, Sync);
    fn sent<T: Send>() {}
    fn shared<T: Send + Sync>() {}
    sent::<Parameter<BFloat16>>();
    sent::<Updater<f64>>();
    sent::<Update<'_>>();
    shared::<Step<'_, f32>>();
    shared::<Executor>();
    shared::<State>();
    shared::<Error>();
}

/// A copy of a state is one of its numbers.
#[test]
fn states_are_copied() -> Result<(), Error> {
    let mut u = Updater::<f32>::new(ADAM)?;
    let mut values = [1.0, 2.0];
    let mut state = u.initialize(&values)?;
    let before = state.clone();
    u.next_step(&default())?.apply(&mut values, &[1.0, 1.0], &mut state)?;
    assert_ne!(state, before);
    assert_eq!(before, u.initialize(&values)?);
    assert_eq!(before.slot("m").unwrap().as_slice(), Some(&[0.0f32; 2][..]));
    Ok(())
}

#[test]
fn debug_shows_the_configuration() -> Result<(), Error> {
    let p = Parameter::<f32>::zeros(ADAM, 10, 3)?;
    let config = p.config()?;
    assert_eq!(
        format!("{p:?}"),
        format!("Parameter {{ element: f32, rows: 10, width: 3, config: {config} }}")
    );
    assert!(config.starts_with(r#"{"rule":{"name":"adam""#), "{config}");
    let mut u = Updater::<BFloat16>::new(MOMENTUM)?;
    let config = u.config()?;
    let shown = format!("{u:?}");
    assert_eq!(shown, format!("Updater {{ element: BFloat16, config: {config} }}"));
    assert!(format!("{:?}", u.next_step(&default())?).contains(&shown));
    let two = Executor::new(2, |work| work.run())?;
    assert_eq!(format!("{two:?}"), "Executor { concurrency: 2 }");
    Ok(())
}

/// An error goes through `Box<dyn Error>` and threads, and its code prints its name.
#[test]
fn errors_of_programs() {
    fn of_another_thread() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        std::thread::spawn(|| Parameter::new("", &[1.0f32]).map(|_| ()))
            .join()
            .unwrap()?;
        Ok(())
    }
    let error = of_another_thread().unwrap_err();
    let error = error.downcast::<Error>().unwrap();
    assert!(error.source().is_none());
    assert_eq!(error.code(), Code::BadConfig);
    assert_eq!(error.code().to_string(), "BadConfig");
    for code in [Code::Io, Code::NotFinite, Code::Internal] {
        assert_eq!(code.to_string(), format!("{code:?}"));
    }
    assert_eq!(format!("{:>10}|", Code::Io), "        Io|");
}

/// No elements: a step of nothing. Counts that no memory has are refused.
#[test]
fn counts() -> Result<(), Error> {
    let config = r#"{"rule": {"name": "adam"}, "average": {"name": "ema", "decay": 0.9},
        "schedule": {"name": "constant", "rate": 0.1}}"#;
    for (rows, width) in [(0, 0), (0, 5), (5, 0), (1, 0)] {
        let mut p = Parameter::<f32>::from_rows(config, rows, width, &[])?;
        p.update(&[], &default())?;
        p.update_rows::<i64>(&[], &[], &default())?;
        p.rows_into::<u32>(&[], &mut [])?;
        update_all([p.with(&[])], &default())?;
        assert_eq!((p.values()?.len(), p.average()?.len(), p.slots()?.len()), (0, 0, 3));
        let state = p.save()?;
        p.load(&state)?;
        refused(p.update(&[1.0], &default()), Code::BadSize, &[]);
        assert!(p.is_empty());
    }
    for (rows, width) in [(usize::MAX, 1), (1, usize::MAX), (1 << 32, 1 << 32), (1 << 33, 1 << 31)] {
        let error = Parameter::<f32>::zeros(ADAM, rows, width).unwrap_err();
        assert!(matches!(error.code(), Code::BadSize | Code::OutOfMemory), "{error}");
        refused(
            Parameter::from_rows(ADAM, rows, width, &[1.0f32]),
            Code::BadSize,
            &["1 values"],
        );
    }
    Ok(())
}

/// A load takes a part of a file, or other names or numbers of rows, and says so; what it refuses changes nothing.
#[test]
fn partial_loads() -> Result<(), Error> {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("partial.safetensors");
    let table = |rows, start| Parameter::from_rows(ADAM, rows, 3, &values(3 * rows, |i| start + i));
    let vector = |start| Parameter::new(ADAM, &values(5, |i| start + i));
    let names = |of: &[&str]| of.iter().map(|name| name.to_string()).collect::<Vec<_>>();
    let (mut saved, mut words) = (vector(1.0)?, table(4, 2.0)?);
    for _ in 0..3 {
        saved.update(&values(5, f64::sin), &default())?;
        words.update(&values(12, f64::cos), &default())?;
    }
    save_file(&path, &[("model.w", &saved), ("words", &words)])?;
    assert_eq!(file_names(&path)?, ["model.w", "words"]);

    // The default is load_file.
    let (mut first, mut second) = (vector(7.0)?, table(4, 7.0)?);
    let report = load_file_with(
        &path,
        &mut [("words", &mut second), ("model.w", &mut first)],
        &LoadOptions::default(),
    )?;
    assert_eq!(
        report,
        LoadReport {
            loaded: names(&["words", "model.w"]),
            ..LoadReport::default()
        }
    );
    same(&first, &saved.save()?);
    same(&second, &words.save()?);

    // Each option allows what is refused without it.
    let (mut w, mut head, mut longer) = (vector(8.0)?, vector(9.0)?, table(6, 10.0)?);
    let before = [w.save()?, head.save()?, longer.save()?];
    let without_prefix = |name: &str| name.replacen("model.", "", 1);
    let all_to_w = |_: &str| "w".to_string();
    let with_a_zero = |_: &str| "w\0".to_string();
    let everything = LoadOptions {
        keep_missing: true,
        ignore_unexpected: true,
        resize_rows: true,
        rename: Some(&without_prefix),
    };
    for (options, part) in [
        (LoadOptions::default(), "\""),
        (
            LoadOptions {
                keep_missing: false,
                ..everything
            },
            "head",
        ),
        (
            LoadOptions {
                ignore_unexpected: false,
                rename: None,
                ..everything
            },
            "model.w",
        ),
        (
            LoadOptions {
                resize_rows: false,
                ..everything
            },
            "words",
        ),
        (
            LoadOptions {
                rename: Some(&all_to_w),
                ..everything
            },
            "w",
        ),
        (
            LoadOptions {
                rename: Some(&with_a_zero),
                ..everything
            },
            "byte 0",
        ),
    ] {
        let mut all: [(&str, &mut dyn AnyParameter); 3] = [("w", &mut w), ("head", &mut head), ("words", &mut longer)];
        let error = load_file_with(&path, &mut all, &options).expect_err(&format!("{options:?}"));
        assert!(error.message().contains(part), "{error}");
        assert!([w.save()?, head.save()?, longer.save()?] == before, "{error}");
    }
    let report = load_file_with(
        &path,
        &mut [("w", &mut w), ("head", &mut head), ("words", &mut longer)],
        &LoadOptions {
            ignore_unexpected: false,
            ..everything
        },
    )?;
    assert_eq!(
        (report.loaded, report.resized, report.kept, report.ignored),
        (names(&["w"]), names(&["words"]), names(&["head"]), vec![])
    );
    same(&w, &saved.save()?);
    same(&head, &before[1]);
    // The rows of the file with their state, the further ones as they were.
    assert_eq!(longer.values()?[..12], *words.values()?);
    assert_eq!(longer.values()?[12..], values(6, |i| 22.0 + i));
    let (of_longer, of_words) = (longer.slots()?, words.slots()?);
    for (ours, theirs) in of_longer.iter().zip(&of_words) {
        let (ours, theirs) = (
            ours.values.as_slice::<f32>().unwrap(),
            theirs.values.as_slice::<f32>().unwrap(),
        );
        assert_eq!((&ours[..12], &ours[12..]), (theirs, &[0.0; 6][..]));
    }

    let mut shorter = table(2, 0.0)?;
    let options = LoadOptions {
        ignore_unexpected: true,
        resize_rows: true,
        ..LoadOptions::default()
    };
    let report = load_file_with(&path, &mut [("words", &mut shorter)], &options)?;
    assert_eq!(
        (report.resized, report.ignored),
        (names(&["words"]), names(&["model.w"]))
    );
    assert_eq!(*shorter.values()?, words.values()?[..6]);
    let report = load_file_with(&path, &mut [], &options)?;
    assert_eq!(report.ignored, names(&["model.w", "words"]));
    std::fs::remove_file(&path).unwrap();
    for error in [
        file_names(&path).unwrap_err(),
        load_file_with(&path, &mut [], &options).unwrap_err(),
    ] {
        assert_eq!(
            (error.code(), error.io_kind()),
            (Code::Io, Some(std::io::ErrorKind::NotFound))
        );
    }
    Ok(())
}

/// Files and states carry shapes, and a parameter refuses another shape.
#[test]
fn shapes() -> Result<(), Error> {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("shapes.safetensors");
    let rows = |rows, width| Parameter::<f32>::zeros(ADAM, rows, width);
    save_file(&path, &[("w", &rows(2, 6)?)])?;
    let state = rows(2, 6)?.save()?;
    for (n, width) in [(6, 2), (3, 4), (4, 3)] {
        let mut p = rows(n, width)?;
        refused(load_file(&path, &mut [("w", &mut p)]), Code::BadSize, &[]);
        refused(p.load(&state), Code::BadSize, &[]);
    }
    let mut p = rows(2, 6)?;
    p.set_shape(&[2, 3, 2])?;
    refused(load_file(&path, &mut [("w", &mut p)]), Code::BadSize, &[]);
    save_file(&path, &[("w", &p)])?;
    refused(load_file(&path, &mut [("w", &mut rows(2, 6)?)]), Code::BadSize, &[]);
    load_file(&path, &mut [("w", &mut p)])?;
    refused(p.set_shape(&[2, 5]), Code::BadSize, &[]);
    refused(p.set_shape(&[usize::MAX, 2]), Code::BadSize, &[]);
    refused(p.set_shape(&[]), Code::BadSize, &[]);
    Parameter::new(ADAM, &[1.0f32])?.set_shape(&[])?;
    std::fs::remove_file(path).unwrap();
    Ok(())
}

/// The borrow checker keeps the tensors of one call apart. Callers of `sys` have no such help: there the library refuses what overlaps.
#[test]
fn tensors_that_overlap_are_refused() -> Result<(), Error> {
    let momentum = r#"{"rule": {"name": "momentum"}, "schedule": {"name": "constant", "rate": 0.1}}"#;
    let mut memory = [1.0f32; 64];
    let begin = memory.as_mut_ptr();
    let at = |offset: usize| unsafe { begin.add(offset) };
    let now = || (0..64).map(|offset| unsafe { *at(offset) }).collect::<Vec<f32>>();
    let mut u = std::ptr::null_mut();
    let apply = |u, values: [usize; 2], gradients: [usize; 2], slots: [usize; 2]| unsafe {
        let values = values.map(|offset| at(offset).cast());
        let gradients = gradients.map(|offset| at(offset) as *const c_void);
        let slots = slots.map(|offset| [at(offset).cast()]);
        let slots = [slots[0].as_ptr(), slots[1].as_ptr()];
        sys::gradstep_updater_apply_many(
            u,
            values.as_ptr(),
            gradients.as_ptr(),
            slots.as_ptr(),
            [4, 4].as_ptr(),
            2,
            std::ptr::null_mut(),
        )
    };
    unsafe {
        let null = std::ptr::null_mut();
        assert_eq!(
            sys::gradstep_updater_create(momentum.as_ptr().cast(), momentum.len(), f32::DTYPE, &mut u, null),
            sys::GRADSTEP_OK
        );
        assert_eq!(
            sys::gradstep_updater_next_step(u, std::ptr::null(), null),
            sys::GRADSTEP_OK
        );
    }
    for (values, gradients, slots) in [
        ([0, 0], [16, 20], [32, 36]),  // a tensor twice
        ([0, 3], [16, 20], [32, 36]),  // the last element of one is the first of the next
        ([4, 1], [16, 20], [32, 36]),  // in the other order
        ([0, 4], [16, 20], [32, 32]),  // one state for two tensors
        ([0, 4], [16, 20], [32, 35]),  // a part of it
        ([0, 4], [16, 2], [32, 36]),   // a gradient in the values of another tensor
        ([0, 4], [16, 20], [32, 0]),   // a state there
        ([0, 32], [16, 20], [32, 40]), // values in the state of another tensor
        ([0, 4], [36, 20], [32, 36]),  // a gradient in the state of another tensor
    ] {
        assert_eq!(
            apply(u, values, gradients, slots),
            sys::GRADSTEP_BAD_BUFFER,
            "{values:?} {gradients:?} {slots:?}"
        );
        assert_eq!(now(), [1.0; 64]);
    }
    // Beside each other; and one gradient, which is read alone, for two tensors.
    assert_eq!(apply(u, [0, 4], [8, 12], [16, 20]), sys::GRADSTEP_OK);
    assert_eq!(apply(u, [24, 28], [32, 32], [40, 44]), sys::GRADSTEP_OK);
    assert_ne!(now()[..4], [1.0; 4]);
    unsafe { sys::gradstep_updater_release(u) };

    let mut safe = Updater::<f32>::new(momentum)?;
    let mut values = [1.0f32; 8];
    let (a, b) = values.split_at_mut(4);
    let (mut of_a, mut of_b) = (safe.initialize(a)?, safe.initialize(b)?);
    let gradient = [1.0; 4];
    safe.next_step(&default())?.apply_all(&mut [
        Tensor {
            values: a,
            gradient: &gradient,
            state: &mut of_a,
        },
        Tensor {
            values: b,
            gradient: &gradient,
            state: &mut of_b,
        },
    ])?;
    assert_eq!(values[..4], values[4..]);
    assert_ne!(values[0], 1.0);
    Ok(())
}

/// Handles go to other threads, and several apply one step.
#[test]
fn threads() -> Result<(), Error> {
    let mut optimizer = Updater::<f32>::new(ADAM)?;
    let parameter = Parameter::new(ADAM, &values(300, f64::sin))?;
    let moved = std::thread::spawn(move || -> Result<Vec<f32>, Error> {
        let mut parameter = parameter;
        parameter.update(&values(300, f64::cos), &StepOptions::default())?;
        Ok(parameter.values()?.to_vec())
    });
    let want = moved.join().unwrap()?;
    let initial = values(300, f64::sin);
    let states = (0..8)
        .map(|_| optimizer.initialize(&initial))
        .collect::<Result<Vec<_>, _>>()?;
    let step = optimizer.next_step(&default())?;
    std::thread::scope(|scope| {
        for mut state in states {
            let (step, want, mut w) = (&step, &want, initial.clone());
            scope.spawn(move || {
                step.apply(&mut w, &values(300, f64::cos), &mut state).unwrap();
                assert_eq!(w, *want);
            });
        }
    });
    Ok(())
}

/// A dense step equals a step of momentum with the mean, bit for bit; a rejected call changes nothing.
#[test]
fn trainers_send_each_other_what_they_compress() -> Result<(), Error> {
    const N: usize = 40;
    let rule = r#"{"rule": {"name": "dgc_momentum", "rampup_begin_step": 2, "sparsity": [0.75], "num_trainers": 2, "dense_below": 0},
        "schedule": {"name": "constant", "rate": 0.5}}"#;
    let initial = values(N, f64::sin);
    let mut trainers = [Parameter::new(rule, &initial)?, Parameter::new(rule, &initial)?];
    let momentum = r#"{"rule": {"name": "momentum"}, "schedule": {"name": "constant", "rate": 0.5}}"#;
    let mut momentum = Parameter::new(momentum, &initial)?;
    for step in 0..4 {
        let gradients = [0.0, 1.0].map(|rank| values(N, |i| (i * f64::from(step + 1) + rank).cos()));
        let mut messages = Vec::new();
        for (trainer, gradient) in trainers.iter_mut().zip(&gradients) {
            messages.push(trainer.compress(gradient, &default())?);
        }
        let bytes = if step < 2 { 40 + 4 * N } else { 40 + 10 * 8 };
        assert!(messages.iter().all(|each| each.len() == bytes));
        let before = trainers[0].values()?.to_vec();
        refused(trainers[0].apply(&messages[1..]), Code::BadValue, &["expected 2"]);
        refused(
            trainers[0].apply(&[&messages[0][..], &[]]),
            Code::BadValue,
            &["messages[1]"],
        );
        refused(
            trainers[0].apply(&[&messages[0][..], &messages[1][1..]]),
            Code::BadValue,
            &["messages[1]"],
        );
        refused(
            trainers[0].compress(&initial, &default()),
            Code::BadSequence,
            &["apply() first"],
        );
        assert_eq!(trainers[0].values()?, before);
        for trainer in &mut trainers {
            trainer.apply(&messages)?;
        }
        let [first, second] = &mut trainers;
        assert_eq!(first.values()?, second.values()?);
        if step < 2 {
            let mean: Vec<f32> = gradients[0]
                .iter()
                .zip(&gradients[1])
                .map(|(a, b)| (a + b) / 2.0)
                .collect();
            momentum.update(&mean, &default())?;
            assert_eq!(first.values()?, momentum.values()?);
        }
        let state = second.save()?; // u and v are each trainer's own
        *second = Parameter::new(rule, &initial)?;
        second.load(&state)?;
    }
    refused(
        trainers[0].apply(&[[0u8; 0]; 0]),
        Code::BadSequence,
        &["compress() first"],
    );
    refused(
        momentum.compress(&initial, &default()),
        Code::BadValue,
        &["expected dgc_momentum"],
    );
    Ok(())
}

/// Threads of the program's own give the same bits, also where they leave most of the work, or panic.
#[test]
fn executor() -> Result<(), Error> {
    use std::sync::atomic::{AtomicUsize, Ordering};
    const N: usize = 300_000; // enough to be split
    let calls = std::sync::Arc::new(AtomicUsize::new(0));
    let (initial, gradient) = (values(N, f64::sin), values(N, f64::cos));
    let mut want = Parameter::new(ADAM, &initial)?;
    want.update(&gradient, &default())?;
    let want = want.save()?;

    let counted = calls.clone();
    let two = Executor::new(2, move |work| {
        assert!(work.parts() > 0);
        counted.fetch_add(1, Ordering::Relaxed);
        std::thread::scope(|scope| {
            scope.spawn(|| work.run());
            work.run();
        });
    })?;
    let lazy = Executor::new(2, |_| {})?;
    let panics = Executor::new(2, |_| panic!("of the test"))?;
    for executor in [&two, &lazy, &panics] {
        let mut p = Parameter::new(ADAM, &initial)?;
        p.set_executor(Some(executor))?;
        p.update(&gradient, &default())?;
        same(&p, &want);
    }
    assert!(calls.load(Ordering::Relaxed) > 0);

    let mut p = Parameter::new(ADAM, &initial)?;
    p.set_executor(Some(&two))?;
    drop(two); // the parameter keeps it
    p.update(&gradient, &default())?;
    same(&p, &want);
    let before = calls.load(Ordering::Relaxed);
    p.set_executor(None)?;
    p.update(&gradient, &default())?;
    assert_eq!(calls.load(Ordering::Relaxed), before);
    Ok(())
}

/// The state takes a byte an element; the first step has the bits of a float state.
#[test]
fn a_parameter_keeps_its_state_in_eight_bits() -> Result<(), Error> {
    let gradient = values(1000, f64::sin);
    let trained = |element: &str| -> Result<(Vec<f32>, usize), Error> {
        let config = format!(
            r#"{{"rule": {{"name": "adam"}}, "schedule": {{"name": "constant", "rate": 0.125}}, "element": "{element}"}}"#
        );
        let mut p = Parameter::new(&config, &[0.0f32; 1000])?;
        p.update(&gradient, &default())?;
        Ok((p.values()?.to_vec(), p.save()?.len()))
    };
    let (small, plain) = (trained("block8")?, trained("plain")?);
    assert_eq!(small.0, plain.0);
    assert!(small.1 < plain.1 * 2 / 3);
    Ok(())
}

/// A state goes through bytes of the program's own and continues bit for bit, for a rule of each kind of slots.
#[test]
fn an_updater_resumes_from_slots() -> Result<(), Error> {
    const N: usize = 5;
    for (rule, element) in [
        ("adam", "plain"),
        ("lamb", "plain"),
        ("rowwise_adam", "plain"),
        ("schedule_free_adam", "plain"),
        ("prodigy", "plain"),
        ("adam", "mixed"),
    ] {
        let config = format!(
            r#"{{"rule": {{"name": "{rule}"}}, "schedule": {{"name": "constant", "rate": 0.125}}, "element": "{element}"}}"#
        );
        if element == "mixed" {
            let halves = |f: fn(f64) -> f64| -> Vec<BFloat16> {
                values(N, f)
                    .iter()
                    .map(|x| BFloat16((x.to_bits() >> 16) as u16))
                    .collect()
            };
            resumes(&config, halves(f64::cos), &halves(f64::sin))?;
        } else {
            resumes(&config, values(N, f64::cos), &values(N, f64::sin))?;
        }
    }
    let mut state = Updater::<f32>::new(ADAM)?.initialize(&[1.0, 2.0])?;
    assert!(state.slot_mut::<f32>("x").is_none());
    assert!(state.slot_mut::<f64>("m").is_none());
    assert_eq!(
        Updater::<f32>::new(ADAM)?.initialize(&[])?.slot_mut::<f32>("m"),
        Some(&mut [][..])
    );
    Ok(())
}

fn resumes<T: Element + PartialEq + std::fmt::Debug>(config: &str, mut w: Vec<T>, gradient: &[T]) -> Result<(), Error> {
    let step = |u: &mut Updater<T>, w: &mut [T], state: &mut State| u.next_step(&default())?.apply(w, gradient, state);
    let mut trained = Updater::<T>::new(config)?;
    let mut state = trained.initialize(&w)?;
    for _ in 0..3 {
        step(&mut trained, &mut w, &mut state)?;
    }
    let slots: Vec<(String, Vec<f32>)> = state
        .names()
        .map(|name| (name.to_string(), state.slot(name).unwrap().as_slice().unwrap().to_vec()))
        .collect();

    let mut resumed = Updater::<T>::new(config)?;
    resumed.seek(trained.clock()?)?;
    let mut again = w.clone();
    let mut restored = resumed.initialize(&again)?;
    for (name, saved) in &slots {
        restored.slot_mut::<f32>(name).unwrap().copy_from_slice(saved);
    }
    assert_eq!(state, restored, "{config}");
    for _ in 0..3 {
        step(&mut trained, &mut w, &mut state)?;
        step(&mut resumed, &mut again, &mut restored)?;
    }
    assert_eq!((w, state), (again, restored), "{config}");
    Ok(())
}
