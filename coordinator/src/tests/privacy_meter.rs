//! The privacy meter, and its figures on the page, in the status and in the metrics.

use proto::model::OpenBranch;

use super::*;

#[tokio::test(start_paused = true)]
async fn privacy_is_stated_once_it_was_looked_at_and_ends_with_the_job() {
    let folder = TempDir::new().unwrap();
    let coordinator = open(&folder);
    coordinator.create_job(create(2048, 2)).await.unwrap();
    coordinator.meter_jobs().await;
    assert_eq!(value(&coordinator, "rustle_job_rows_planned"), 8.0);
    assert_eq!(value(&coordinator, "rustle_job_privacy_spent_rho"), 0.0);
    // Two participations of ρ = 1/2, the second of them from row 4 on.
    assert!((value(&coordinator, "rustle_job_privacy_planned_rho") - 1.0).abs() < 1e-12);
    for (rows, rho) in [(0..4, 0.5), (4..5, 1.0)] {
        coordinator.bind_now(bind(rows)).await.unwrap();
        coordinator.meter_jobs().await;
        let spent = value(&coordinator, "rustle_job_privacy_spent_rho");
        assert!((spent - rho).abs() < 1e-12, "{spent} is not {rho}");
    }
    let page = coordinator.page();
    assert!(page.contains("Job job") && page.contains("5 of 8") && page.contains("ε spent"), "{page}");
    assert!(page.contains("aria-label=\"row 5 of 8\""), "{page}");
    assert!(coordinator.status()["jobs"][0]["privacy"]["epsilon_spent"].as_f64().unwrap() > 1.0);

    coordinator.destroy_job(job()).await.unwrap();
    coordinator.meter_jobs().await;
    assert!(!coordinator.job_metrics().contains("training_job="));
    assert!(coordinator.page().contains("Destroyed jobs: 1"));
}

#[tokio::test(start_paused = true)]
async fn going_back_is_charged_for() {
    let folder = TempDir::new().unwrap();
    let coordinator = open(&folder);
    coordinator.create_job(create(2048, 2)).await.unwrap();
    coordinator.bind_now(bind(0..5)).await.unwrap();
    coordinator.meter_jobs().await;
    let request = OpenBranch { job: job(), from_row: 2, expected_branch: 0, parent: None };
    coordinator.open_branch(request).await.unwrap();
    coordinator.meter_jobs().await;
    let spent = "rustle_job_privacy_spent_rho";
    let planned = "rustle_job_privacy_planned_rho";
    // Rows 0 and 1 with fresh rows to come, and rows 2..5 that were released and left: one participation each.
    assert!((value(&coordinator, spent) - 1.0).abs() < 1e-12);
    assert!((value(&coordinator, planned) - 1.5).abs() < 1e-12, "the plan's two and the one left behind");
    assert_eq!(coordinator.status()["jobs"][0]["privacy"]["exact"], false, "a sum of two worst cases");
    // To the plan's end on the new branch: all that was planned for, and never more.
    coordinator.bind_now(Bind { branch: 1, ..bind(2..8) }).await.unwrap();
    coordinator.meter_jobs().await;
    assert!((value(&coordinator, spent) - 1.5).abs() < 1e-12);
}

/// Returns the value of a metric of the one job.
fn value(coordinator: &Coordinator, name: &str) -> f64 {
    let series = coordinator.job_metrics();
    let start = format!("{name}{{training_job=\"job\"}} ");
    let line = series.lines().find_map(|line| line.strip_prefix(&start));
    line.unwrap_or_else(|| panic!("no {name} in {series}")).parse().unwrap()
}

fn bind(rows: std::ops::Range<u64>) -> Bind {
    let commitments = rows.clone().map(|row| Commitment::of_text(&format!("step {row}"))).collect();
    Bind {
        job: job(),
        branch: 0,
        rows: RowRange { start: rows.start, end: rows.end },
        commitments,
        extent: None,
    }
}
