//! Rectangles of rows and coordinates, and how routes cut them.

use proto::{CoordinateRange, RowRange};

use crate::{Route, Routing};

/// Rows × coordinates: what one request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Part {
    pub rows: RowRange,
    pub range: CoordinateRange,
}

/// What can be asked for now, and of whom; and what no worker serves.
pub(crate) struct Cut {
    pub asked: Vec<(Route, Part)>,
    pub unserved: Vec<Part>,
}

pub(crate) fn cut(parts: &[Part], routing: &Routing) -> Cut {
    let mut cut = Cut { asked: Vec::new(), unserved: Vec::new() };
    for &Part { rows, range } in parts {
        let mut next = range.start;
        for route in &routing.routes {
            let Some(piece) = route.range.intersection(&range) else { continue };
            cut.leave(rows, next, piece.start);
            next = piece.end;
            match route.endpoint {
                Some(_) => cut.asked.push((route.clone(), Part { rows, range: piece })),
                None => cut.leave(rows, piece.start, piece.end),
            }
        }
        cut.leave(rows, next, range.end);
    }
    cut
}

impl Cut {
    fn leave(&mut self, rows: RowRange, start: u64, end: u64) {
        if let Ok(range) = CoordinateRange::new(start, end) {
            self.unserved.push(Part { rows, range });
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proto::JobId;

    use super::*;

    fn routing(bounds: &[u64], served: &[bool]) -> Routing {
        let routes = bounds.windows(2).zip(served).enumerate().map(|(shard, (pair, &served))| Route {
            shard: shard as u32,
            range: CoordinateRange { start: pair[0], end: pair[1] },
            lease_epoch: 1,
            endpoint: served.then(|| format!("http://w{shard}:1")),
            worker: served.then(|| proto::WorkerId::new(format!("w{shard}")).unwrap()),
            local: None,
        });
        let dimension = *bounds.last().unwrap();
        Routing {
            job: JobId::new("j").unwrap(),
            branch: 0,
            dimension,
            iterations: 9,
            routes: routes.collect(),
        }
    }

    proptest! {
        /// Every coordinate of a part is asked for once or named as unserved, and never both.
        #[test]
        fn nothing_is_lost_or_asked_twice(
            steps in prop::collection::vec(1u64..50, 1..8),
            served in prop::collection::vec(any::<bool>(), 8),
            start in 0u64..100,
            length in 1u64..400,
        ) {
            let bounds: Vec<u64> = std::iter::once(0).chain(steps.iter().scan(0, |sum, step| {
                *sum += step;
                Some(*sum)
            })).collect();
            let routing = routing(&bounds, &served);
            let part = Part { rows: RowRange { start: 2, end: 4 }, range: CoordinateRange { start, end: start + length } };
            let cut = cut(&[part], &routing);
            let mut seen = vec![0; length as usize];
            for piece in cut.asked.iter().map(|(_, part)| part).chain(&cut.unserved) {
                prop_assert!(part.range.contains(&piece.range));
                prop_assert_eq!(piece.rows, part.rows);
                piece.range.as_range().for_each(|at| seen[(at - start) as usize] += 1);
            }
            prop_assert!(seen.iter().all(|&times| times == 1));
            for (route, piece) in &cut.asked {
                prop_assert!(route.endpoint.is_some() && route.range.contains(&piece.range));
            }
        }
    }
}
