//! `bench reproduce`: figures and tables of papers/000 to 004, made again by our own optimisers and accounts.
//!
//! Every item is one file here and one generated page, with the numbers as published where the text gives them.

mod amplified;
mod banded_figure_1;
mod banded_figure_10;
mod banded_figure_11;
mod banded_figure_2;
mod banded_figure_4;
mod banded_figure_7;
mod banded_figure_8;
mod bands_and_epochs;
mod baselines;
mod blt_figure_1;
mod blt_figure_2;
mod blt_figure_3;
mod blt_figure_4;
mod blt_figure_5;
mod blt_figure_6;
mod blt_figure_8;
mod blt_figure_9;
mod blt_table_2;
mod blt_table_3;
mod blt_table_4;
mod extrapolated;
mod gboard;
mod gboard_figure_4;
mod gboard_table_1;
mod gboard_table_2;
mod index;
mod item;
mod near_exact;
mod near_exact_figure_2;
mod near_exact_figure_3;
mod near_exact_figure_4;
mod near_exact_figure_5;
mod page;
mod production;
mod sweep;
mod tree_full;
mod user_level_figure_1;
mod user_level_figure_2;
mod work;

use std::path::PathBuf;

use anyhow::Context;
use clap::builder::PossibleValuesParser;
use serde_json::json;

use crate::arguments::cores;
use crate::machine::Machine;
use crate::output::Format;
use item::Item;
use page::Page;
use work::Work;

const ITEMS: [Item; 27] = [
    blt_table_2::ITEM,
    blt_table_3::ITEM,
    blt_figure_1::ITEM,
    blt_figure_2::ITEM,
    blt_figure_3::ITEM,
    blt_figure_4::ITEM,
    blt_figure_5::ITEM,
    blt_figure_6::ITEM,
    blt_table_4::ITEM,
    blt_figure_8::ITEM,
    blt_figure_9::ITEM,
    banded_figure_1::ITEM,
    banded_figure_2::ITEM,
    banded_figure_4::ITEM,
    banded_figure_7::ITEM,
    banded_figure_8::ITEM,
    banded_figure_10::ITEM,
    banded_figure_11::ITEM,
    near_exact_figure_2::ITEM,
    near_exact_figure_3::ITEM,
    near_exact_figure_4::ITEM,
    near_exact_figure_5::ITEM,
    gboard_table_1::ITEM,
    gboard_table_2::ITEM,
    gboard_figure_4::ITEM,
    user_level_figure_1::ITEM,
    user_level_figure_2::ITEM,
];

const ALL: &str = "all";

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

pub fn run(args: &Args) -> anyhow::Result<()> {
    let asked: Vec<&Item> = ITEMS.iter().filter(|item| args.item == ALL || item.name == args.item).collect();
    let machine = Machine::this(cores());
    let work = Work::new(asked.len());
    let mut pages = Vec::with_capacity(asked.len());
    for item in asked {
        let found = work.over(item).with_context(|| item.name)?;
        let page = Page { item: *item, found, machine: machine.clone() };
        page.write(&args.out)?;
        if args.format == Format::Table {
            println!("{}", page.markdown());
        }
        pages.push(page);
    }
    work.finish();
    index::write(&ITEMS, &args.out)?;
    if args.format == Format::Json {
        println!("{:#}", json!({ "items": pages, "machine": machine }));
    }
    eprintln!("written to {}", args.out.display());
    Ok(())
}
