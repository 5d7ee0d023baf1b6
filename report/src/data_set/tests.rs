use super::*;

fn line(job: &str, state: &str, epsilon: f64) -> ChargeLine {
    let event = Value::Null;
    ChargeLine {
        job: job.into(),
        state: state.into(),
        rows_bound: 7,
        branch: 1,
        epsilon,
        tenant: None,
        blocks: Vec::new(),
        event,
    }
}

fn of(jobs: Vec<ChargeLine>) -> DataSetReport {
    let at = |epsilon| Amount { epsilon, delta: 1e-6 };
    DataSetReport {
        data_set: "mails".into(),
        unit: "user".into(),
        neighbouring: "zero-out".into(),
        budget: at(4.0),
        spent: at(1.000_001),
        reserved: at(0.5),
        left: at(2.499_999),
        adaptive: false,
        entries: 3,
        head: "ab".repeat(32),
        shares: Vec::new(),
        per_block: false,
        blocks: Vec::new(),
        all_blocks: None,
        jobs,
        free_rewinds: None,
        approvals: Vec::new(),
        version: "0.1.0".into(),
    }
}

#[test]
fn a_page_has_all_charges_and_never_the_number_of_runs() {
    let lines = ["s.1", "s.2", "s.3"].map(|run| line(run, "run", 0.0));
    let jobs = [vec![line("a", "spent", 1.2), line("s", "sweep", 0.9)], lines.to_vec()].concat();
    let report = of(jobs);
    for page in [report.markdown(), report.html()] {
        for part in ["mails", &"ab".repeat(32), "1.50001", "2.49999", "2.10000", "Sweeps", "Signed"] {
            assert!(page.contains(part), "{part} is missing in {page}");
        }
        assert!(!page.contains("s.1") && !page.contains("entries"), "{page}");
    }
    let json = serde_json::to_value(&report).unwrap();
    let jobs = &json["jobs"];
    assert!(jobs[0]["job"] == "a" && jobs[1]["job"] == "s" && jobs[2].is_null(), "{json}");
    assert!(json["entries"].is_null() && json["head"] == report.head);
    let without = serde_json::to_value(of(vec![line("a", "spent", 1.2)])).unwrap();
    assert_eq!(without["entries"], 3);
    assert!(!of(Vec::new()).markdown().contains("Sweeps"));
}

#[test]
fn a_page_has_tenants_where_there_are_some() {
    let at = |epsilon| Amount { epsilon, delta: 1e-7 };
    let share = Some(at(1.0));
    let left = Some(at(0.499_999));
    let ads = ShareLine { tenant: "ads".into(), share, spent: at(0.300_001), reserved: at(0.2), left };
    let jobs = vec![ChargeLine { tenant: Some("ads".into()), ..line("a", "spent", 0.3) }];
    let report = DataSetReport { shares: vec![ads], ..of(jobs) };
    assert!(report.markdown().contains("Tenants") && report.html().contains("0.30001"));
    let json = serde_json::to_value(&report).unwrap();
    assert!(json["shares"][0]["left"]["delta"] == 1e-7 && json["jobs"][0]["tenant"] == "ads", "{json}");
    assert!(!of(Vec::new()).markdown().contains("Tenants"));
}

#[test]
fn a_page_of_blocks_says_whose_data_its_figures_hold_for() {
    let at = |epsilon| Amount { epsilon, delta: 1e-6 };
    let block = BlockLine {
        block: "november".into(),
        from: "2026-11-01".into(),
        until: "2026-12-01".into(),
        budget: at(2.0),
        spent: at(0.700_001),
        reserved: at(0.1),
        left: at(1.199_999),
    };
    let jobs = vec![ChargeLine { blocks: vec!["november".into()], ..line("a", "spent", 0.7) }];
    let whole = DataSetReport { blocks: vec![block], ..of(jobs) };
    let per_block = DataSetReport { per_block: true, all_blocks: Some(at(2.6)), ..whole.clone() };
    for page in [whole.markdown(), per_block.html()] {
        for part in ["november", "2026-12-01", "0.70001", "1.19999", "that lies in that block", "not checked"]
        {
            assert!(page.contains(part), "{part} is missing in {page}");
        }
    }
    let private = "private for one user, neighbouring";
    assert!(whole.markdown().contains(private) && !whole.markdown().contains("All blocks"));
    let of_blocks = "private for the part in any one block of the data of one user, neighbouring";
    let page = per_block.markdown();
    assert!(page.contains(of_blocks) && !page.contains(private), "{page}");
    assert!(page.contains("(2.60000, 0.000001)-differentially private. No budget bounds that"), "{page}");
    let json = serde_json::to_value(&per_block).unwrap();
    assert!(json["blocks"][0]["left"]["epsilon"] == 1.199_999 && json["jobs"][0]["blocks"][0] == "november");
    assert!(json["all_blocks"]["epsilon"] == 2.6 && json["per_block"] == true);
}
