//! `vesica plan`: what a run would do, cost and tell whom.

use crate::failure::Outcome;
use crate::flags::Plan;
use crate::{output, schema};
use vesica_job::compare;

pub fn run(args: Plan) -> Outcome {
    let plan = vesica_spec::plan(&args.source.spec(|note| output::tell(&note))?)?;
    if args.compare {
        let all = compare::compare(&plan, args.rows, args.peer_rows, args.mbit)?;
        return match args.json {
            true => output::result(&schema::pretty(&all)),
            false => output::result(&compare::in_words(&all, args.mbit)),
        };
    }
    let forecast = vesica_job::forecast(&plan, args.rows, args.peer_rows)?;
    if args.json {
        return output::result(&schema::pretty(&forecast));
    }
    output::result(&forecast.in_words())
}
