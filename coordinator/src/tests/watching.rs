//! What people and Prometheus see of jobs.

use super::*;

#[tokio::test(start_paused = true)]
async fn privacy_is_stated_once_it_was_looked_at_and_ends_with_the_job() {
    let folder = TempDir::new().unwrap();
    let coordinator = open(&folder);
    coordinator.create_job(create(2048, 2)).await.unwrap();
    coordinator.look().await;
    let series = coordinator.job_series();
    assert!(series.contains("rustle_job_rows_planned{training_job=\"job\"} 8\n"), "{series}");
    assert!(series.contains("rustle_job_privacy_spent_rho{training_job=\"job\"} 0\n"), "{series}");
    // Two participations of ρ = 1/2, the second of them from row 4 on.
    assert!(series.contains("rustle_job_privacy_planned_rho{training_job=\"job\"} 1\n"), "{series}");
    for (rows, rho) in [(0..4, "0.5"), (4..5, "1")] {
        coordinator.bind(bind(rows)).await.unwrap();
        coordinator.look().await;
        let series = coordinator.job_series();
        assert!(
            series.contains(&format!("rustle_job_privacy_spent_rho{{training_job=\"job\"}} {rho}\n")),
            "{series}"
        );
    }
    let page = coordinator.page();
    assert!(page.contains("Job job") && page.contains("5 of 8") && page.contains("ε spent"), "{page}");
    assert_eq!(page.matches("<svg").count(), 2, "{page}");
    assert_eq!(coordinator.status()["jobs"][0]["privacy"]["rho_spent"], 1.0);

    coordinator.destroy_job(job()).await.unwrap();
    coordinator.look().await;
    assert!(!coordinator.job_series().contains("training_job="));
    assert!(coordinator.page().contains("Destroyed jobs: 1"));
}

fn bind(rows: std::ops::Range<u64>) -> Bind {
    let commitments = rows.clone().map(|row| Commitment::of_text(&format!("step {row}"))).collect();
    Bind { job: job(), branch: 0, rows: RowRange { start: rows.start, end: rows.end }, commitments }
}
