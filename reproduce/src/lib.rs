//! Figures and tables of five papers, made again by Rustle's own optimisers and accounts. Every item is one function
//! here, its words in `items.toml`, and one generated page, with the numbers as published where the text gives them.
//!
//! # Layout
//!
//! * `item`, `page`, `work`: what an item is, the page it becomes, and what items share while they are made.
//! * `curves`, `sweep`, `panel`: lines over one axis; losses over rules of participation; ρ in production.
//! * `blt`, `banded`, `near_exact`, `user_level`, `costs`, `tree_costs`, `timing`, `norms_by_epoch`: the items, by paper and by
//!   what they show.
//! * [`measure`]: the machine and the spread of timings, which `bench` records too.
#![deny(missing_docs)]

mod amplified;
mod banded;
mod bands_and_epochs;
mod baselines;
mod blt;
mod blt_stack_overflow;
mod costs;
mod curves;
mod item;
pub mod measure;
mod near_exact;
mod norms_by_epoch;
mod page;
mod panel;
mod production;
mod range;
mod rho;
mod sweep;
mod timing;
mod timing_balls_in_bins;
mod tree_costs;
mod tree_full;
mod user_level;
mod work;

use std::path::PathBuf;

use anyhow::Context;
use clap::builder::PossibleValuesParser;
use serde_json::json;

use item::Item;
use measure::{Format, Machine, cores};
use page::Page;
use work::Work;

const ITEMS: [Item; 28] = [
    Item { name: "blt-table-2", make: timing::coefficients },
    Item { name: "blt-table-3", make: blt_stack_overflow::stack_overflow },
    Item { name: "blt-figure-1", make: timing::optimisers },
    Item { name: "blt-figure-2", make: blt::many_mechanisms },
    Item { name: "blt-figure-3", make: blt::three_participations },
    Item { name: "blt-figure-4", make: blt::all_that_fit },
    Item { name: "blt-figure-5", make: blt::other_rounds },
    Item { name: "blt-figure-6", make: blt::banded_toeplitz },
    Item { name: "blt-table-4", make: costs::in_production },
    Item { name: "blt-figure-8", make: rho::three_mechanisms },
    Item { name: "blt-figure-9", make: rho::over_rounds },
    Item { name: "blt-norms-by-epoch", make: norms_by_epoch::norms_by_epoch },
    Item { name: "banded-figure-1", make: banded::bands_and_budgets },
    Item { name: "banded-figure-2", make: bands_and_epochs::best_bands },
    Item { name: "banded-figure-4", make: timing::losses },
    Item { name: "banded-figure-7", make: banded::rounds_and_epochs },
    Item { name: "banded-figure-8", make: bands_and_epochs::larger_epsilon },
    Item { name: "banded-figure-10", make: range::min_sep_in_a_range },
    Item { name: "banded-figure-11", make: banded::one_parameter },
    Item { name: "near-exact-figure-2", make: near_exact::strategy_given },
    Item { name: "near-exact-figure-3", make: near_exact::strategy_made },
    Item { name: "near-exact-figure-4", make: timing_balls_in_bins::balls_in_bins },
    Item { name: "near-exact-figure-5", make: near_exact::fewer_samples },
    Item { name: "gboard-table-1", make: tree_costs::next_words },
    Item { name: "gboard-table-2", make: tree_costs::on_the_fly },
    Item { name: "gboard-figure-4", make: rho::trees },
    Item { name: "user-level-figure-1", make: user_level::mixtures },
    Item { name: "user-level-figure-2", make: user_level::variances },
];

const ALL: &str = "all";

/// What to make, and where it goes.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Which figure or table
    #[arg(value_parser = PossibleValuesParser::new(std::iter::once(ALL).chain(ITEMS.iter().map(|item| item.name))))]
    item: String,
    /// Folder that the pages, their pictures and the index are written to
    #[arg(long, value_name = "DIR", default_value = "docs/reproductions")]
    out: PathBuf,
    /// How results are printed
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
}

/// Makes the items, writes their pages and the index, and prints them.
///
/// # Errors
///
/// Fails where an item cannot be computed or a page cannot be written.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let mut all = item::words()?;
    let items = ITEMS.map(|item| Some((item, all.remove(item.name)?)));
    let items =
        items.into_iter().collect::<Option<Vec<_>>>().context("an item without words in items.toml")?;
    let chosen: Vec<_> =
        items.iter().filter(|(item, _)| args.item == ALL || item.name == args.item).collect();
    let machine = Machine::current(cores());
    let work = Work::new(chosen.len());
    let mut pages = Vec::with_capacity(chosen.len());
    for (item, words) in chosen {
        let found = work.over(*item, words).with_context(|| item.name)?;
        let page = Page { name: item.name, words: words.clone(), found, machine: machine.clone() };
        page.write(&args.out)?;
        if args.format == Format::Table {
            println!("{}", page.markdown());
        }
        pages.push(page);
    }
    work.finish();
    page::write_index(&items, &args.out)?;
    if args.format == Format::Json {
        println!("{:#}", json!({ "items": pages, "machine": machine }));
    }
    eprintln!("written to {}", args.out.display());
    Ok(())
}
