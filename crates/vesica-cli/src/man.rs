//! `vesica man`: the manual, from the same definitions as the help.

use crate::failure::{Failure, Outcome};
use crate::flags::{Cli, Man};
use crate::output;
use clap::CommandFactory;

pub fn run(args: Man) -> Outcome {
    let Some(folder) = args.out else {
        let mut page = Vec::new();
        clap_mangen::Man::new(Cli::command()).render(&mut page).map_err(Failure::file("cannot write", "the manual"))?;
        return output::result(&String::from_utf8_lossy(&page));
    };
    std::fs::create_dir_all(&folder).map_err(Failure::file("cannot make the folder", &folder))?;
    clap_mangen::generate_to(Cli::command(), &folder).map_err(Failure::file("cannot write to", &folder))
}
