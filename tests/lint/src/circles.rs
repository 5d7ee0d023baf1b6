//! Circles of imports between the files of one crate. They are allowed by name alone, each with its reason.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use cargo_metadata::MetadataCommand;

use crate::modules::Crate;
use crate::{root, sources};

/// One file of each circle that stays; the reason stands in the documentation of that file.
const ALLOWED: [&str; 5] = [
    "noise-kernel/src/backend.rs",
    "reproduce/src/work.rs",
    "tests/simulation/src/world.rs",
    "tests/simulation/src/explore/model.rs",
    "tests/chaos/src/environment.rs",
];

#[test]
fn files_of_a_crate_take_from_each_other_in_one_direction() {
    let files = sources();
    let metadata = MetadataCommand::new().no_deps().exec().expect("cargo metadata");
    let root = root().canonicalize().expect("the repository");
    let mut found = Vec::new();
    let mut arrows = 0;
    for package in &metadata.packages {
        let folder = package.manifest_path.parent().expect("a folder").as_std_path();
        let folder = folder.canonicalize().expect("a folder that is there");
        let source = folder.strip_prefix(&root).expect("inside the repository").join("src");
        let drawn = Crate::new(&source, &files).arrows();
        arrows += drawn.len();
        found.extend(circles(&drawn));
    }
    assert!(arrows > 500, "only {arrows} arrows were seen");
    let is_allowed = |circle: &Vec<PathBuf>| {
        circle.iter().any(|file| ALLOWED.iter().any(|allowed| file.ends_with(allowed)))
    };
    let forbidden: Vec<_> = found.iter().filter(|circle| !is_allowed(circle)).collect();
    assert!(forbidden.is_empty(), "{} circles of imports: {forbidden:#?}", forbidden.len());
    assert!(ALLOWED.len() <= 6, "too many circles are allowed");
    assert_eq!(found.len(), ALLOWED.len(), "a circle that is allowed is there no more");
}

#[test]
fn a_circle_is_found_whatever_its_length() {
    let arrow = |from: &str, to: &str| (PathBuf::from(from), PathBuf::from(to));
    let drawn = BTreeSet::from([arrow("a", "b"), arrow("b", "c"), arrow("c", "a"), arrow("c", "d")]);
    assert_eq!(circles(&drawn), [["a", "b", "c"].map(PathBuf::from).to_vec()]);
    assert!(circles(&BTreeSet::from([arrow("a", "b"), arrow("a", "c"), arrow("b", "c")])).is_empty());
}

/// Returns the groups of files that reach each other, sorted.
fn circles(arrows: &BTreeSet<(PathBuf, PathBuf)>) -> Vec<Vec<PathBuf>> {
    let mut reached: BTreeMap<&PathBuf, BTreeSet<&PathBuf>> = BTreeMap::new();
    for (from, _) in arrows {
        let mut seen = BTreeSet::new();
        let mut open = vec![from];
        while let Some(at) = open.pop() {
            let next = arrows.iter().filter(|(from, _)| from == at).map(|(_, to)| to);
            open.extend(next.filter(|to| seen.insert(*to)));
        }
        reached.insert(from, seen);
    }
    let mut groups = BTreeSet::new();
    for (from, seen) in &reached {
        let group: Vec<PathBuf> = seen
            .iter()
            .filter(|to| reached.get(*to).is_some_and(|back| back.contains(from)))
            .map(|to| (*to).clone())
            .collect();
        if group.len() > 1 {
            groups.insert(group);
        }
    }
    groups.into_iter().collect()
}
