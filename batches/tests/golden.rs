//! Frozen batches: bits never change in silence. A change here is a new version of every batch.

// Helpers outside `#[test]` functions are tests too.
#![allow(clippy::unwrap_used, dead_code)]

mod common;

use batches::{AccountKind, Neighbouring, Population, SamplingEvent, SamplingLaw, Scheme, Unit};
use common::{all, everything, run};

/// FNV-1a over round, length and ids of all batches.
fn hash(scheme: &Scheme, population: Population) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for batch in all(&run(scheme, population, 20, 42)) {
        for word in [batch.round, batch.ids.len() as u64].iter().chain(&batch.ids) {
            for byte in word.to_le_bytes() {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
    }
    hash
}

#[test]
fn batches_are_what_they_were() {
    let found: Vec<String> = everything(200, 0.15, Some(12))
        .into_iter()
        .map(|(scheme, population)| format!("{} {:016x}", scheme.name(), hash(&scheme, population)))
        .collect();
    assert_eq!(found, GOLDEN);
    let scheme = Scheme::Poisson { sampling_probability: 0.05, cap: None };
    assert_eq!(run(&scheme, Population::Records(100), 3, 42).batch(2).unwrap().ids, POISSON);
}

const GOLDEN: [&str; 17] = [
    "uls efc70706d5ff1f3a",
    "uls a4be25507426a174",
    "uls 78ff7c7e3735773e",
    "uls 4ba51e06d4ef8365",
    "uls b269cbc3a4c9a60d",
    "uls ca2b4f62a17556ac",
    "uls 532b16de1127713b",
    "uls d1d77d303c5ce08c",
    "els f15e0899bef2466b",
    "poisson b0e6793c6bbf1125",
    "cyclic-poisson b3d8f04d932b30b1",
    "cyclic-poisson 59dfcfb4b2405dc7",
    "balls-in-bins 697e590ed070ecc2",
    "b-min-sep 8e1fbb773c8a1bf3",
    "b-min-sep 01cff088e226dd6d",
    "random-allocation 29a437764da85e0f",
    "fixed-order c6d77f12763390af",
];
const POISSON: [u64; 7] = [9, 55, 56, 62, 82, 87, 93];

#[test]
fn schemes_are_read_as_they_were_written() {
    for (scheme, _) in everything(1, 0.25, Some(3)).into_iter().chain(everything(1, 0.25, None)) {
        let text = serde_json::to_string(&scheme).unwrap();
        assert_eq!(serde_json::from_str::<Scheme>(&text).unwrap(), scheme, "{text}");
    }
    assert!(
        serde_json::from_str::<Scheme>(r#"{"kind":"balls-in-bins","batches_per_epoch":3,"cup":1}"#).is_err()
    );
}

#[test]
fn events_say_what_is_run() {
    let text = |scheme: Scheme, population| {
        let event = run(&scheme, population, 20, 1).event();
        let text = serde_json::to_string(&event).unwrap();
        assert_eq!(serde_json::from_str::<SamplingEvent>(&text).unwrap(), event);
        text
    };
    let capped = Scheme::Poisson { sampling_probability: 0.25, cap: Some(9) };
    assert_eq!(
        text(capped.clone(), Population::Records(100)),
        concat!(
            r#"{"kind":"truncated-poisson-gaussian","sampling_probability":0.25,"dataset_size":100,"#,
            r#""batch_cap":9,"count":20,"unit":"record","account":"truncated-poisson","#,
            r#""neighbouring":["zero-out","add-remove","replace"],"#,
            r#""public_population":true}"#
        )
    );
    let people = || Population::Users(common::users(10));
    assert!(
        text(Scheme::Uls { group_size: 3, users: Box::new(capped) }, people())
            .contains(r#""dataset_size":10"#)
    );
    let els = text(Scheme::Els { group_size: 3, sampling_probability: 0.25 }, people());
    assert!(els.contains(r#""kind":"user-level""#) && els.contains(r#""unit":"user""#));
    for (scheme, population) in everything(10, 0.25, None) {
        let event = run(&scheme, population, 20, 1).event();
        let inner = if let Scheme::Uls { users, .. } = &scheme { users } else { &scheme };
        let split = matches!(inner, Scheme::FixedOrder { .. })
            || matches!(inner, Scheme::CyclicPoisson { partition: batches::Partition::EqualSplit, .. });
        let monte_carlo = matches!(event.account, AccountKind::BallsInBins | AccountKind::BMinSep);
        let moves = split || monte_carlo;
        assert_eq!(event.neighbouring.contains(&Neighbouring::AddRemove), !moves, "{scheme:?}");
        assert_eq!(event.neighbouring, event.account.relations());
        assert_eq!(event.public_population, split);
        assert_eq!(event.unit == Unit::User, scheme.user_level());
        if let SamplingLaw::AnyOrder { min_sep, max_participations, .. } = event.sampling {
            assert_eq!((min_sep, max_participations), (7, 3));
        }
    }
}

#[test]
fn a_cap_has_an_amplified_account_where_the_public_size_of_a_group_is_known() {
    let account = |scheme: &Scheme, population| run(scheme, population, 20, 1).event().account;
    let mut capped = 0;
    for (scheme, population) in everything(10, 0.25, Some(4)) {
        let Some(_) = scheme.cap() else { continue };
        capped += 1;
        let inner = if let Scheme::Uls { users, .. } = &scheme { users } else { &scheme };
        let expected = match inner {
            Scheme::Poisson { .. } => AccountKind::TruncatedPoisson,
            Scheme::CyclicPoisson { partition: batches::Partition::EqualSplit, .. } => {
                AccountKind::CyclicPoissonEqualSplit
            }
            _ => AccountKind::AnyOrderPublicSize,
        };
        assert_eq!(account(&scheme, population), expected, "{scheme:?}");
    }
    assert!(capped >= 6, "{capped}");
    let single = Scheme::CyclicPoisson {
        bands: 1,
        sampling_probability: 0.25,
        partition: batches::Partition::Independent,
        cap: Some(4),
    };
    assert_eq!(account(&single, Population::Records(10)), AccountKind::CyclicPoisson);
    let event = serde_json::to_value(run(&single, Population::Records(10), 20, 1).event()).unwrap();
    assert_eq!((event["batch_cap"].as_u64(), event["dataset_size"].as_u64()), (Some(4), Some(10)));
}
