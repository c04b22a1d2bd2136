//! `vesica plan`: what a run would do, cost and tell whom.

use crate::failure::Outcome;
use crate::flags::Plan;
use crate::{output, schema};

pub fn run(args: Plan) -> Outcome {
    let plan = vesica_spec::plan(&args.source.spec(|note| output::tell(&note))?)?;
    let forecast = vesica_job::forecast(&plan, args.rows, args.peer_rows)?;
    if args.json {
        return output::result(&schema::pretty(&forecast));
    }
    output::result(&forecast.in_words())
}
