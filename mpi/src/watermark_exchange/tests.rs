use std::sync::Arc;

use proto::Commitment;

use super::*;
use crate::marks::Released;

fn job(name: &str) -> JobId {
    JobId::new(name).unwrap()
}

async fn note(marks: &Arc<Marks>, job: &JobId, branch: u64, row: u64) {
    let released = Released { branch, row, commitment: Commitment::of_text("a") };
    marks.clone().note(job.clone(), branch, vec![released]).await.unwrap();
}

/// As the ranks of a launch tell each other, and in how many parts.
fn tell(ranks: &[(Rank, &Marks)], job: &JobId) -> (Told, usize) {
    let mut telling: Vec<_> = ranks.iter().map(|(rank, marks)| (*rank, Telling::of(marks, job))).collect();
    let mut told = Told::default();
    let mut parts = 1;
    while told.take(telling.iter_mut().map(|(rank, telling)| (*rank, telling.next_part()))) {
        parts += 1;
    }
    (told, parts)
}

#[tokio::test]
async fn every_branch_is_told_and_the_highest_row_of_each_is_kept() {
    let [one, other] = [(); 2].map(|()| Arc::new(Marks::open(None).unwrap()));
    for (marks, branch, row) in [(&one, 0, 7), (&one, 1, 2), (&other, 0, 5), (&other, 1, 4)] {
        note(marks, &job("j"), branch, row).await;
    }
    note(&one, &job("another"), 9, 100).await;
    let (told, parts) = tell(&[(3, &one), (4, &other)], &job("j"));
    assert_eq!((told.0, parts), (BTreeMap::from([(0, (8, 3)), (1, (5, 4))]), 1));
}

#[tokio::test]
async fn a_record_of_any_size_is_told_to_its_end() {
    let [long, short] = [(); 2].map(|()| Arc::new(Marks::open(None).unwrap()));
    for (count, parts) in [(MOST as u64, 1), (MOST as u64 + 1, 2), (2 * MOST as u64 + 1, 3)] {
        let next = long.all().len() as u64;
        for branch in next..count {
            note(&long, &job("j"), branch, branch).await;
        }
        note(&short, &job("j"), 0, 1_000).await;
        let (told, taken) = tell(&[(0, &short), (1, &long)], &job("j"));
        assert_eq!((told.0.len() as u64, taken), (count, parts));
        assert_eq!((told.0[&0], told.0[&(count - 1)]), ((1_001, 0), (count, 1)));
    }
    let empty = Marks::open(None).unwrap();
    assert!(tell(&[(0, &empty)], &job("j")).0.0.is_empty());
}
