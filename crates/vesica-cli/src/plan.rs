//! `vesica plan`: what a run would do, cost and tell whom.

use crate::failure::{Failure, Outcome};
use crate::flags::Plan;
use crate::source::Meant;
use crate::{output, schema};
use vesica_job::compare;

pub fn run(args: Plan) -> Outcome {
    let plan = match args.source.meant(|note| output::tell(&note))? {
        Meant::Job(plan) => plan,
        _ if args.compare || args.json || args.peer_rows.is_some() => {
            return Err(Failure::usage("--compare, --json and --peer-rows are for jobs; a service has --rows alone"));
        }
        Meant::Server(plan) => {
            return output::result(&vesica_service::plan_server(&plan, args.rows, args.queries, args.mbit)?);
        }
        Meant::Client(plan) => return output::result(&vesica_service::plan_client(&plan, args.rows)?),
    };
    if args.queries.is_some() || (args.mbit.is_some() && !args.compare) {
        return Err(Failure::usage("--queries is for services that retrieve, and --mbit for them or with --compare"));
    }
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
