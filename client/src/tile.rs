//! Rectangles of rows and coordinates, and their split among routes.

use proto::{CoordinateRange, RowRange};

use crate::{Route, Routing};

/// A rectangle of rows × coordinates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tile {
    /// The rows.
    pub rows: RowRange,
    /// The coordinates of each row.
    pub range: CoordinateRange,
}

/// A split of tiles among routes.
pub(crate) struct TileSplit {
    /// The tiles that a worker serves, and its route.
    pub served: Vec<(Route, Tile)>,
    /// The tiles that no worker serves now.
    pub unserved: Vec<Tile>,
    /// Why the first of them is not served; empty where the coordinator has not said.
    pub reason: String,
}

/// Splits tiles at the boundaries of routes.
pub(crate) fn split_among_routes(tiles: &[Tile], routing: &Routing) -> TileSplit {
    let mut split = TileSplit { served: Vec::new(), unserved: Vec::new(), reason: String::new() };
    for &Tile { rows, range } in tiles {
        let mut next = range.start;
        for route in &routing.routes {
            let Some(piece) = route.range.intersection(&range) else { continue };
            split.leave_unserved(rows, next, piece.start);
            next = piece.end;
            match route.endpoint {
                Some(_) => split.served.push((route.clone(), Tile { rows, range: piece })),
                None => {
                    if split.reason.is_empty() {
                        split.reason.clone_from(&route.reason);
                    }
                    split.leave_unserved(rows, piece.start, piece.end);
                }
            }
        }
        split.leave_unserved(rows, next, range.end);
    }
    split
}

impl TileSplit {
    fn leave_unserved(&mut self, rows: RowRange, start: u64, end: u64) {
        if let Ok(range) = CoordinateRange::new(start, end) {
            self.unserved.push(Tile { rows, range });
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
            reason: String::new(),
        });
        let dimension = *bounds.last().unwrap();
        Routing {
            job: JobId::new("j").unwrap(),
            branch: 0,
            dimension,
            iterations: 9,
            element: proto::ElementType::F32,
            routes: routes.collect(),
        }
    }

    proptest! {
        /// Every coordinate of a tile is either requested once or named as unserved, never both.
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
            let tile = Tile { rows: RowRange { start: 2, end: 4 }, range: CoordinateRange { start, end: start + length } };
            let split = split_among_routes(&[tile], &routing);
            let mut seen = vec![0; length as usize];
            for piece in split.served.iter().map(|(_, tile)| tile).chain(&split.unserved) {
                prop_assert!(tile.range.contains(&piece.range));
                prop_assert_eq!(piece.rows, tile.rows);
                piece.range.as_range().for_each(|at| seen[(at - start) as usize] += 1);
            }
            prop_assert!(seen.iter().all(|&times| times == 1));
            for (route, piece) in &split.served {
                prop_assert!(route.endpoint.is_some() && route.range.contains(&piece.range));
            }
        }
    }
}
