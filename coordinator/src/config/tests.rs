use node::config::settings::Source;

use super::*;

fn resolve(args: CoordinatorArgs, environment: &[(&str, &str)]) -> anyhow::Result<Options> {
    let environment = environment.iter().map(|(name, value)| (name.to_string(), value.to_string()));
    let data_dir = args.data_dir.or(Some("/data".into()));
    let args = CoordinatorArgs { data_dir, ..args };
    Ok(args.resolve_in(Layers::from_parts(environment, None)?)?.0)
}

#[test]
fn the_defaults_are_as_documented() {
    let options = resolve(CoordinatorArgs::default(), &[]).unwrap();
    assert_eq!(options.listen, "127.0.0.1:7300".parse().unwrap());
    assert_eq!(options.settings.checkpoint_url.as_deref(), Some("file:///data/checkpoints"));
    assert_eq!(options.settings.lease_ttl, Duration::from_secs(2));
    assert_eq!(options.settings.checkpoint_schedule, Schedule::Auto);
    assert!(!options.security.insecure_listen && options.ready_file.is_none());
    assert_eq!(options.security.limits, node::admission::Limits::default());
}

#[test]
fn flags_come_before_the_environment() {
    let environment =
        [("RUSTLE_HEARTBEAT", "50ms"), ("RUSTLE_LEASE_TTL", "1s"), ("RUSTLE_CHECKPOINT_URL", "none")];
    let args = CoordinatorArgs { heartbeat: Some("100ms".into()), ..CoordinatorArgs::default() };
    let settings = resolve(args, &environment).unwrap().settings;
    assert_eq!((settings.heartbeat.as_millis(), settings.lease_ttl.as_millis()), (100, 1000));
    assert_eq!(settings.checkpoint_url, None);
}

#[test]
fn bad_settings_are_refused_by_name() {
    for (name, value) in [
        ("RUSTLE_LEASE_TTL", "300ms"),
        ("RUSTLE_HEARTBEAT", "0"),
        ("RUSTLE_KEEP_CHECKPOINTS", "0"),
        ("RUSTLE_REPORT_DELTA", "1"),
        ("RUSTLE_CHECKPOINT_INTERVAL", "often"),
        ("RUSTLE_LISTEN", "here"),
    ] {
        let error = format!("{:#}", resolve(CoordinatorArgs::default(), &[(name, value)]).unwrap_err());
        let field = name.trim_start_matches("RUSTLE_").to_lowercase();
        assert!(error.contains(&field), "{error}");
    }
}

#[derive(clap::Parser)]
struct Cli {
    #[command(flatten)]
    args: CoordinatorArgs,
}

/// The old and the new name of each renamed setting.
const RENAMED: [(&str, &str); 4] = [
    ("between_failures", "mtbf"),
    ("longest_replay", "max_replay"),
    ("relieve_after", "straggler_timeout"),
    ("store_lease", "leader_lease_ttl"),
];

fn renamed_value(options: &Options, settings: &[Setting], name: &str) -> (Option<Duration>, Source) {
    let value = match name {
        "mtbf" => Some(options.settings.expectations.mtbf),
        "max_replay" => Some(options.settings.expectations.max_replay),
        "straggler_timeout" => Some(options.settings.straggler_timeout),
        // Without etcd it is checked and not used.
        _ => None,
    };
    let rows: Vec<_> = settings.iter().filter(|setting| setting.name == name).collect();
    assert_eq!(rows.len(), 1, "{name}: {settings:?}");
    assert_eq!(rows[0].value.as_deref().map(parse_duration), Some(Ok(Duration::from_secs(77))), "{name}");
    (value, rows[0].source.clone())
}

#[test]
fn renamed_settings_have_their_old_flags() {
    use clap::Parser;

    for (old, new) in RENAMED {
        for flag in [old, new] {
            let flag = format!("--{}", flag.replace('_', "-"));
            let args = Cli::parse_from(["coordinator", "--data-dir", "/data", &flag, "77s"]).args;
            let (options, settings) = args.resolve_in(Layers::from_parts([], None).unwrap()).unwrap();
            let (value, source) = renamed_value(&options, &settings, new);
            assert!(value.is_none_or(|value| value == Duration::from_secs(77)), "{flag}");
            assert_eq!(source, Source::Flag(format!("--{}", new.replace('_', "-"))));
        }
    }
}

#[test]
fn renamed_settings_have_their_old_variables_and_keys() {
    let path = Path::new("/rustle.toml");
    for (old, new) in RENAMED {
        for name in [old, new] {
            let args = || CoordinatorArgs { data_dir: Some("/data".into()), ..CoordinatorArgs::default() };
            let variable = format!("RUSTLE_{}", name.to_uppercase());
            let layers = Layers::from_parts([(variable.clone(), "77s".to_owned())], None).unwrap();
            let (options, settings) = args().resolve_in(layers).unwrap();
            let (value, source) = renamed_value(&options, &settings, new);
            assert!(value.is_none_or(|value| value == Duration::from_secs(77)), "{variable}");
            assert_eq!(source, Source::Environment(variable));

            let file = format!("{name} = \"77s\"\n");
            let layers = Layers::from_parts([], Some((path, &file))).unwrap();
            let (options, settings) = args().resolve_in(layers).unwrap();
            let (value, source) = renamed_value(&options, &settings, new);
            assert!(value.is_none_or(|value| value == Duration::from_secs(77)), "{file}");
            assert_eq!(source, Source::File(path.to_owned()));
        }
    }
}

#[test]
fn the_new_name_comes_before_the_old_one() {
    let environment = [("RUSTLE_MTBF", "5h"), ("RUSTLE_BETWEEN_FAILURES", "7h")];
    let settings = resolve(CoordinatorArgs::default(), &environment).unwrap().settings;
    assert_eq!(settings.expectations.mtbf, Duration::from_secs(5 * 3600));
    let error = resolve(CoordinatorArgs::default(), &[("RUSTLE_BETWEEN_FAILURES", "often")]).unwrap_err();
    assert!(error.to_string().contains("RUSTLE_BETWEEN_FAILURES"), "{error}");
}

#[tokio::test]
async fn public_addresses_need_the_flag() {
    let options = |insecure_listen| {
        let security = SecurityArgs { insecure_listen, ..Default::default() };
        let args = CoordinatorArgs { listen: Some("0.0.0.0:0".into()), security, ..Default::default() };
        resolve(args, &[]).unwrap()
    };
    let error = format!("{:#}", options(false).bind().await.unwrap_err());
    assert!(error.contains("--insecure-listen"), "{error}");
    options(true).bind().await.unwrap();
}
