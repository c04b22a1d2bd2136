//! What can be typed. Help, completions and man pages are made from these definitions.

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use vesica_spec::{CurveName, Mode, ProtocolName, Security};

/// Which rows do we have in common? Finds out without showing the other rows to anyone.
#[derive(Parser, Debug)]
#[command(name = "vesica", version, max_term_width = 100, after_help = EXITS)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

const EXITS: &str = "\
Example:
  vesica demo

Exit codes:
  0 done   2 configuration or usage   3 input   4 network   5 the other party
  70 a bug in Vesica   130 interrupted";

/// A command; what it is for stands at its flags.
#[derive(Subcommand, Debug)]
pub enum Command {
    Demo(Demo),
    Gen(Gen),
    Cert(Cert),
    Invite(Box<Invite>),
    Accept(Accept),
    Confirm(Confirm),
    Check(Check),
    Plan(Plan),
    Run(Run),
    Prepare(Prepare),
    Audit(Audit),
    Serve(Serve),
    Fetch(Fetch),
    Ask(Ask),
    Report(Report),
    Bench(Bench),
    Import(Import),
    Schema(Schema),
    Info(Info),
    Doctor(Doctor),
    Completions(Completions),
    Man(Man),
}

/// See it work: made-up tables, two parties or three on this machine, one intersection.
///
/// Makes a table for each party (half of the keys are in all), an identity and a job file, runs the parties as processes
/// that talk mutually authenticated TLS over loopback, compares the outputs with a plain join of the tables, and says where
/// everything is.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  vesica demo
  vesica demo --parties 3
  vesica demo --ids
  vesica demo --sum --parties 3
  vesica demo --groups
  vesica demo --groups both
  vesica demo --standing
  vesica demo --rows 1000000 --out /tmp/million")]
pub struct Demo {
    /// How many parties: 2 or 3
    #[arg(long, value_name = "N", default_value = "2", value_parser = clap::value_parser!(u8).range(2..=3))]
    pub parties: u8,
    /// Private ids in the place of common rows: nobody learns which rows are common before both files lie side by side
    #[arg(long, conflicts_with_all = ["parties", "protocol", "curve"])]
    pub ids: bool,
    /// Rows that match by a mail address or a telephone number, where some have only one of the two
    #[arg(long, conflicts_with_all = ["parties", "ids"])]
    pub any: bool,
    /// The sum of values of the rows whose key all have in the place of rows: of two parties bob's values, which alice is told, of three alice's,
    /// with carol as the pivot
    #[arg(long, conflicts_with_all = ["protocol", "curve", "ids", "any"])]
    pub sum: bool,
    /// Totals by group in the place of rows: alice has how often each customer saw an advertisement, and bob the customers' regions and what they
    /// spent; alice is told the sums of both in each region, and nothing of a region with fewer than 50 common customers. With `both` alice has campaigns
    /// too, and each pair of a region and a campaign is a group
    #[arg(long, value_enum, value_name = "OF", num_args = 0..=1, default_missing_value = "one",
        conflicts_with_all = ["parties", "protocol", "curve", "ids", "any", "sum"])]
    pub groups: Option<GroupsOf>,
    /// A standing match: bob serves a list and alice asks on three days, of which the second changes a thousandth of both tables; she asks only for
    /// keys that are new, and is told what was gained and lost
    #[arg(long, conflicts_with_all = ["parties", "protocol", "curve", "ids", "any", "sum", "groups"])]
    pub standing: bool,
    /// Rows of each table
    #[arg(long, value_name = "N", default_value = "100000", value_parser = rows_of_demo)]
    pub rows: u64,
    /// The protocol
    #[arg(long, value_name = "P", default_value = "ecdh")]
    pub protocol: String,
    /// The curve
    #[arg(long, value_name = "C", default_value = "curve25519")]
    pub curve: String,
    /// Folder for all files; a new one under the system's temporary folder by default
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// Whose groups a demo has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum GroupsOf {
    /// Bob's regions
    One,
    /// Each region of bob's with each campaign of alice's
    Both,
}

/// Make sample tables for two parties or three, with a known number of common keys.
///
/// Writes alice.csv, bob.csv, carol.csv for a third party (or .parquet) and expected.csv, which holds the common keys. The
/// tables have a column `id` with distinct keys in no order, then the columns `c1`, `c2`, … with numbers below a million.
/// Where there are three, alice and bob, and bob and carol, have further keys in common. Memory stays small whatever the
/// number of rows. The same seed gives the same bytes.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  vesica gen --rows 1000000 --overlap 500000 --out data
  vesica gen --rows 1e8,1e6 --overlap 1000 --columns 4 --format parquet --keys email --out data
  vesica gen --rows 1e6,1e6,1e6 --overlap 1000 --out data
  vesica gen --like secretflow 1e7 1e7 --out data")]
pub struct Gen {
    /// Rows of alice's table and of bob's, then of carol's if there are three; one number for two tables of that many
    #[arg(long, value_name = "N[,M[,L]]", value_parser = rows_of_tables, required_unless_present = "like")]
    pub rows: Option<RowsOfTables>,
    /// Keys that stand in all tables
    #[arg(long, value_name = "K", value_parser = number, required_unless_present = "like")]
    pub overlap: Option<u64>,
    /// Columns besides the key
    #[arg(long, value_name = "C", default_value_t = 1)]
    pub columns: u32,
    /// How the tables are stored
    #[arg(long, default_value = "csv", value_parser = one_of::<vesica_job::sample::Format>(&["csv", "parquet"]))]
    pub format: vesica_job::sample::Format,
    /// The number that decides which tables are drawn
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// What the keys look like
    #[arg(long, default_value = "id", value_parser = one_of::<vesica_job::sample::Keys>(&["id", "email", "phone", "uuid"]))]
    pub keys: vesica_job::sample::Keys,
    /// Make psi_1.csv, psi_2.csv and psi_3.csv as SecretFlow's generate_psi.py N1 N3 does: N1, N1 and N3 rows of 18
    /// digits, half of the second and of the third also in the first
    #[arg(long, value_enum, value_name = "PROGRAM", conflicts_with_all = ["rows", "overlap", "columns", "format", "keys"])]
    pub like: Option<Program>,
    /// With --like: N1, then N3
    #[arg(value_name = "N", num_args = 0..=2, value_parser = number, requires = "like")]
    pub sizes: Vec<u64>,
    /// Folder for the files; made if need be
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
}

/// Make an identity: a private key, a certificate to give away, and its fingerprint.
///
/// Writes NAME.pem (private key and certificate, readable by you alone) and NAME.cert.pem (the certificate), and prints
/// the certificate's fingerprint. Tell the fingerprint to your partner over a way that you trust; it goes into the
/// partner's job under `mine.tls.peers`. Never replaces a file.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  vesica cert alice --out keys")]
pub struct Cert {
    /// The party's name, as it stands in the job
    pub name: String,
    /// Folder for the two files; made if need be
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub out: PathBuf,
}

/// Invite a partner: your job file, and a small file that they answer.
///
/// Makes your identity if there is none, your job file, and NAME.invite for the partner, in which nothing is secret: what is
/// proposed, your address and your fingerprint. The partner types `vesica accept NAME.invite` and sends you a line, which you
/// paste into `vesica confirm`. Never replaces a file.
///
/// With --service the partner is invited to ask a service that you have prepared. Your document is not changed before you confirm.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  vesica invite --as alice --to bob --table customers.csv --key id --listen alice.example:5300 --protocol rr22
  vesica invite --service server.toml --to alice --keys-a-day 100000 --listen bob.example:5400")]
pub struct Invite {
    /// Your name in the job
    #[arg(long = "as", value_name = "NAME", required_unless_present = "service", conflicts_with = "service")]
    pub from: Option<String>,
    /// The partner's name
    #[arg(long, value_name = "NAME")]
    pub to: String,
    /// Your table: CSV, Parquet or Arrow; or a folder or a quoted pattern of such files
    #[arg(long, value_name = "FILE", required_unless_present = "service", conflicts_with = "service")]
    pub table: Option<PathBuf>,
    /// A key column of your table; give it again for further ones. With --identifier NAME=COLUMN, or NAME=COLUMN,COLUMN
    #[arg(long, value_name = "COLUMN", required_unless_present = "service", conflicts_with = "service")]
    pub key: Vec<String>,
    /// A kind of identifier that rows may match by, and its rules: email=email or phone=phone:CH; of several columns, person=lower;digits
    #[arg(long, value_name = "NAME=RULES", requires = "matching", conflicts_with = "service")]
    pub identifier: Vec<String>,
    /// With --identifier, what the learners get: any
    #[arg(long = "match", id = "matching", value_name = "M", requires = "identifier", conflicts_with = "service")]
    pub matching: Option<String>,
    /// The column of your table whose values a sum adds up; one of the two parties has one
    #[arg(long, value_name = "COLUMN", requires = "result", conflicts_with = "service")]
    pub value: Option<String>,
    /// Folder for the files; made if need be
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub out: PathBuf,
    /// The name or number by which the partner reaches you, and the port; a job listens on that port of every interface
    #[arg(long, value_name = "HOST:PORT", required_unless_present = "service")]
    pub listen: Option<String>,
    /// The protocol
    #[arg(long, value_name = "P", default_value = "rr22", conflicts_with = "service")]
    pub protocol: String,
    /// What the learners get: rows, count, sum, shares or ids
    #[arg(long, value_name = "R", conflicts_with = "service")]
    pub result: Option<String>,
    /// The curve, for protocols that have one
    #[arg(long, value_name = "C", conflicts_with = "service")]
    pub curve: Option<String>,
    /// Against whom the protocol protects: semi-honest or malicious
    #[arg(long, value_name = "S", conflicts_with = "service")]
    pub security: Option<String>,
    /// Who gets the result; both, where it is not given
    #[arg(long, value_name = "NAME", conflicts_with = "service")]
    pub learns: Vec<String>,
    /// What may be told beyond the intersection, by its name
    #[arg(long, value_name = "REVEAL", conflicts_with = "service")]
    pub accept: Vec<String>,
    /// What the job is called; both names, where it is not given
    #[arg(long, value_name = "ID", conflicts_with = "service")]
    pub id: Option<String>,
    /// To ask a service: the server's document, of what `vesica prepare` has made
    #[arg(long, value_name = "FILE", requires = "keys_a_day", help_heading = SERVICE)]
    pub service: Option<PathBuf>,
    /// Keys that the partner may ask for a day; each is a guess at your table, if the partner is dishonest
    #[arg(long, value_name = "N", value_parser = keys_a_day, requires = "service", help_heading = SERVICE)]
    pub keys_a_day: Option<u64>,
}

const SERVICE: &str = "Service";

/// Accept an invitation: your document, and a line for whoever invites.
///
/// Says in plain words what you would agree to and who would learn what, makes your identity if there is none and your job
/// file, or a client's document for a service, and prints a line to send back. Six words are shown on both sides: compare them by
/// telephone, at a number that you had before. Never replaces a file.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  vesica accept bob.invite --table clients.parquet --key client_id")]
pub struct Accept {
    /// The invitation
    #[arg(value_name = "FILE")]
    pub invitation: PathBuf,
    #[command(flatten)]
    pub table: OwnTable,
}

/// Confirm a partner's reply: whom to trust goes into your document.
///
/// Asks for the line that the partner sent: paste it there, and not behind the command, where what a stranger wrote could be another
/// command. The line may come in pieces and in quotes, as mail programs send it on: it is read until it is whole, or until an empty
/// line. What else was pasted is thrown away, and the shell does not run it.
///
/// Shows the six words that the partner was shown. Compare them by telephone, at a number that you had before and not at one that came
/// with the reply: if one differs, somebody stands between you.
///
/// A service lets the partner in at once, so nothing is written for one before you type the six words behind --compared: they must be
/// those of this very line.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  vesica confirm
  vesica confirm --service server.toml
  vesica confirm --service server.toml --compared \"one two three four five six\"")]
pub struct Confirm {
    /// The line that the partner sent; asked for, where it is not given
    #[arg(value_name = "LINE")]
    pub line: Option<String>,
    /// Folder with the invitation and the job
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    /// The server's document, where the invitation was to a service and the folder has none of it, or several
    #[arg(long, value_name = "FILE", help_heading = SERVICE)]
    pub service: Option<PathBuf>,
    /// The six words that were compared and are the same: let the partner in
    #[arg(long, value_name = "WORDS", help_heading = SERVICE)]
    pub compared: Option<String>,
}

/// Your table, and where the files go.
#[derive(Args, Debug)]
pub struct OwnTable {
    /// Your table: CSV, Parquet or Arrow; or a folder or a quoted pattern of such files
    #[arg(long, value_name = "FILE")]
    pub table: PathBuf,
    /// A key column of your table; give it again for further ones. Where you are invited to match by identifiers, NAME=COLUMN
    #[arg(long, value_name = "COLUMN", required = true)]
    pub key: Vec<String>,
    /// The column of your table whose values a sum adds up, where that is what you are invited to and the values are yours
    #[arg(long, value_name = "COLUMN")]
    pub value: Option<String>,
    /// Folder for the files; made if need be
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub out: PathBuf,
}

/// Find what would fail, before the run.
///
/// Looks at everything that can be known before a run: the job, the files, the key columns, free disk, the port, the
/// certificate, and the road to whoever is called, through a proxy if there is one. With --peer it also calls the other
/// party or waits for its call, checks who it is, and compares the jobs. For that the other party must run `vesica check
/// --peer` or `vesica run` at the same time. A run that is met in this way goes on waiting for yours. Where both check,
/// they also find out whether somebody stands between them and passes on what they say. Where one of them runs, that is
/// found out when both run. No row is matched; each side hears how many distinct keys the other has.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  vesica check alice.toml\n  vesica check alice.toml --peer")]
pub struct Check {
    #[command(flatten)]
    pub source: Source,
    /// Also meet the other party and compare the jobs
    #[arg(long)]
    pub peer: bool,
}

/// Show what a run would do, cost and tell whom.
///
/// Prints the protocol, curve and parameter sets, units, memory, bytes and time expected, and who learns what. Without
/// --rows the number of rows is taken from the input. Without --peer-rows the other party is assumed to have as many.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  vesica plan alice.toml\n  vesica plan alice.toml --rows 1e8 --peer-rows 1e6 --json\n  vesica plan alice.toml --compare --mbit 100"
)]
pub struct Plan {
    #[command(flatten)]
    pub source: Source,
    /// Rows that this party is to have
    #[arg(long, value_name = "N", value_parser = number)]
    pub rows: Option<u64>,
    /// Rows that the other party is to have
    #[arg(long, value_name = "M", value_parser = number)]
    pub peer_rows: Option<u64>,
    /// Show all protocols that could do the job, side by side
    #[arg(long)]
    pub compare: bool,
    /// Megabits a second that the network carries each way; with --compare, or for a service that retrieves
    #[arg(long, value_name = "N", value_parser = rate)]
    pub mbit: Option<f64>,
    /// Rows that a client of a service is to look up; for a service that retrieves
    #[arg(long, value_name = "N", value_parser = number)]
    pub queries: Option<u64>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Run a job: find the common rows together with the other party.
///
/// The other party runs its own job file at the same time; who starts first waits for the other. Progress goes to
/// standard error, the result in plain words to standard output. Ctrl-C stops both sides cleanly.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  vesica run alice.toml
  vesica run alice.toml --report report.json --quiet
  vesica run alice.toml --report report.html
  vesica run alice.toml --log json 2> log.jsonl
  vesica run --config sender.config --identity sender.pem --trust sha256:12ab…")]
pub struct Run {
    #[command(flatten)]
    pub source: Source,
    /// Instead of a job file: SecretFlow's launch configuration itself
    #[arg(long, value_name = "STRING", group = "job_from", help_heading = SECRETFLOW)]
    pub json: Option<String>,
    /// What the result on standard output looks like; a page goes to the report's file instead, if that is named as such a page
    #[arg(long, value_enum, default_value = "words", value_name = "FORM")]
    pub report_format: ReportFormat,
    /// Write the report to this file, and not to the one that the job names: as a page if its name ends in .html, as the same
    /// page in Markdown if it ends in .md, otherwise as JSON
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Log lines on standard error instead of progress; VESICA_LOG=debug says more
    #[arg(long, value_enum, conflicts_with = "quiet")]
    pub log: Option<Log>,
    /// No progress on standard error; errors are still shown
    #[arg(long)]
    pub quiet: bool,
}

/// Show a report: as a page with pictures, as Markdown, or in words.
///
/// The page is one file that needs no network and runs no script: what came out, a picture of the overlap whose areas are true, who
/// learned what, when each phase ran and how much of it was waiting, the bytes, the data, the security, the checks that passed, and the
/// job file to run it again, without your keys.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  vesica report report.json --html --out report.html
  vesica report alice.json bob.json --html --out both.html
  vesica report report.json --html --for-peer bob --out for-bob.html")]
pub struct Report {
    /// The report, as a run wrote it
    #[arg(value_name = "FILE")]
    pub report: PathBuf,
    /// The other party's report of the same run: its phases are drawn beside yours
    #[arg(value_name = "OTHER")]
    pub other: Option<PathBuf>,
    /// A page with pictures
    #[arg(long, conflicts_with = "markdown")]
    pub html: bool,
    /// The same page as Markdown
    #[arg(long)]
    pub markdown: bool,
    /// A page that can be given to this other party: it leaves out what the run did not tell it
    #[arg(long, value_name = "NAME")]
    pub for_peer: Option<String>,
    /// Write to this file; to standard output by default
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// Prepare a service: make the store that clients fetch, from a table.
///
/// Needs no network. Makes the key of the function if there is none, and a store of the table's keys and values that nobody
/// can read without asking. The last line of the output is the offer, which clients put into their documents.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  vesica prepare server.toml
  vesica prepare server.toml --append new.csv --remove gone.csv
  vesica prepare server.toml --rotate")]
pub struct Prepare {
    /// The server's document
    #[arg(value_name = "FILE")]
    pub document: PathBuf,
    /// Make a new key, and a whole new store under it: clients need the new offer
    #[arg(long, conflicts_with_all = ["append", "remove"])]
    pub rotate: bool,
    /// Add the rows of this table; keys that the store has get the values of this table
    #[arg(long, value_name = "TABLE")]
    pub append: Option<PathBuf>,
    /// Take the keys of this table out
    #[arg(long, value_name = "TABLE")]
    pub remove: Option<PathBuf>,
    /// No progress on standard error; errors are still shown
    #[arg(long)]
    pub quiet: bool,
}

/// Compute again what a service's clients copy, and compare.
///
/// Looks at a store that `vesica prepare` made for a retrieval: whether its epoch is signed by the key of its offer and in time, whether its
/// files are those of the epoch, and whether the hint or the masks are what its records make of public numbers. A client cannot see that.
/// Whoever has a copy of the store can; no key is needed. With the server's document, records that every client may see and looks up by
/// their number are also compared with the table. By key, records are not compared with it. Ends with 3 if anything is not as it should be.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  vesica audit prices.store\n  vesica audit server.toml")]
pub struct Audit {
    /// The folder of a store, or the document of the server
    #[arg(value_name = "STORE")]
    pub store: PathBuf,
}

/// Serve what was prepared: answer clients until it is stopped.
///
/// The list of clients is read again whenever the document changes, and certificates and private keys whenever their files
/// do; SIGHUP has all of them read again. A store that was prepared anew is taken up while clients are answered. Ctrl-C
/// stops gently: clients at work finish.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  vesica serve server.toml\n  vesica serve server.toml --log json 2> log.jsonl")]
pub struct Serve {
    /// The server's document
    #[arg(value_name = "FILE")]
    pub document: PathBuf,
    /// Log lines on standard error instead of progress; VESICA_LOG=debug says more
    #[arg(long, value_enum)]
    pub log: Option<Log>,
}

/// Copy a service's store, so that asking is quick.
///
/// Goes on where an earlier attempt stopped. What was added since is fetched alone.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  vesica fetch client.toml")]
pub struct Fetch {
    /// The client's document
    #[arg(value_name = "FILE")]
    pub document: PathBuf,
    /// No progress on standard error; errors are still shown
    #[arg(long)]
    pub quiet: bool,
}

/// Ask a service which of your keys it has: your rows, with its values.
///
/// The server sees how many keys are asked for, and nothing else of them. Fetches first what is not there yet.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  vesica ask client.toml\n  vesica ask client.toml --report report.json --quiet")]
pub struct Ask {
    /// The client's document
    #[arg(value_name = "FILE")]
    pub document: PathBuf,
    /// Write the report to this file, and not to the one that the document names: as a page if its name ends in .html, as the
    /// same page in Markdown if it ends in .md, otherwise as JSON
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Log lines on standard error instead of progress; VESICA_LOG=debug says more
    #[arg(long, value_enum, conflicts_with = "quiet")]
    pub log: Option<Log>,
    /// No progress on standard error; errors are still shown
    #[arg(long)]
    pub quiet: bool,
}

/// The form of the result on standard output.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum ReportFormat {
    /// For people
    Words,
    /// A page with pictures: one file, no network, no script
    Html,
    /// The same page as Markdown
    Markdown,
    /// As SecretFlow's `main` prints it
    Secretflow,
}

/// Where the job comes from, and how the parties know each other where it does not say so.
#[derive(Args, Debug)]
pub struct Source {
    #[command(flatten)]
    pub from: JobFrom,
    #[command(flatten)]
    pub trust: Trust,
}

/// Where the job comes from: one of these.
#[derive(Args, Debug)]
#[group(id = "job_from", required = true, multiple = false)]
pub struct JobFrom {
    /// The job file, TOML or JSON
    pub job: Option<PathBuf>,
    /// Instead of a job file: SecretFlow's launch configuration
    #[arg(long, value_name = "FILE", help_heading = SECRETFLOW)]
    pub config: Option<PathBuf>,
    /// Instead of a job file: a task file of Kuscia's
    #[arg(long, value_name = "FILE", help_heading = SECRETFLOW)]
    pub kuscia: Option<PathBuf>,
}

/// What SecretFlow's files seldom say: how the parties know each other.
#[derive(Args, Debug)]
#[group(id = "security", multiple = true)]
pub struct Trust {
    /// This party's private key and certificate, as `vesica cert` makes them
    #[arg(long, value_name = "FILE", requires = "trust", help_heading = SECRETFLOW)]
    pub identity: Option<PathBuf>,
    /// The other party's certificate, by its fingerprint (sha256:…) or by a file of authorities; of two others each by its own
    /// flag (NAME=sha256:…)
    #[arg(long, value_name = "PEER", requires = "identity", help_heading = SECRETFLOW)]
    pub trust: Vec<String>,
    /// No TLS, where the addresses are not all on this machine: anyone between can read and forge
    #[arg(long, conflicts_with = "identity", help_heading = SECRETFLOW)]
    pub insecure: bool,
}

const SECRETFLOW: &str = "SecretFlow";

/// The form of log lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Log {
    /// For people
    Text,
    /// For programs: a JSON object a line
    Json,
}

/// Measure a protocol on this machine: both sides in one process, without a network.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  vesica bench psi --protocol rr22 --rows 1e6
  vesica bench psi --protocol ecdh --curve fourq --rows 1e6,1e4 --bytes 32
  vesica bench pir --protocol simple-pir --rows 1e6 --bytes 256
  vesica bench pir --protocol piano --rows 1048576 --bytes 8")]
pub struct Bench {
    #[command(subcommand)]
    pub what: BenchOf,
}

/// What is measured.
#[derive(clap::Subcommand, Debug)]
pub enum BenchOf {
    /// Intersection: a line of JSON, with time, bytes and memory, and whether the result is right
    Psi(BenchPsi),
    /// Retrieval: a line of JSON, with bytes and times of a query
    Pir(BenchPir),
}

/// An intersection of made-up keys, which alice learns.
///
/// Time, CPU and memory are those of both parties together. Keys are in memory and there is no TLS: `vesica gen` and `vesica run`
/// measure a job as it is in earnest.
#[derive(Args, Debug)]
pub struct BenchPsi {
    /// The protocol
    #[arg(long, value_name = "P", value_parser = named(ProtocolName::ALL, ProtocolName::name))]
    pub protocol: ProtocolName,
    /// Rows of alice's table and of bob's; one number for two tables of that many
    #[arg(long, value_name = "N[,M]", value_parser = rows_of_two)]
    pub rows: RowsOfTables,
    /// Bytes of a key, 1 to 1024; the published benchmarks have 18
    #[arg(long, value_name = "W", default_value = "18", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub bytes: u32,
    /// Keys that both tables hold; half of the smaller table by default
    #[arg(long, value_name = "K", value_parser = number)]
    pub overlap: Option<u64>,
    /// The curve, for protocols that have one
    #[arg(long, value_name = "C", default_value = "curve25519", value_parser = named(CurveName::ALL, CurveName::name))]
    pub curve: CurveName,
    /// What `rr22` saves
    #[arg(long, value_name = "M", default_value = "fast", value_parser = named(Mode::ALL, Mode::name))]
    pub mode: Mode,
    /// Against whom the protocol protects
    #[arg(long, value_name = "S", default_value = "semi-honest", value_parser = named(Security::ALL, Security::name))]
    pub security: Security,
    /// Both parties learn the result
    #[arg(long)]
    pub both: bool,
}

/// The protocols that retrieve, each once.
fn schemes() -> Vec<&'static str> {
    let mut names: Vec<_> = vesica_service::retrieving().map(|kind| kind.protocol.name()).collect();
    names.dedup();
    names
}

/// Retrieval of random records.
#[derive(Args, Debug)]
pub struct BenchPir {
    /// The scheme
    #[arg(long, value_parser = clap::builder::PossibleValuesParser::new(schemes()))]
    pub protocol: String,
    /// For `simple-pir`: whether clients copy a hint; `none` by default
    #[arg(long, value_parser = ["none", "copied"])]
    pub hint: Option<String>,
    /// Ask by row number or by key; with a key, `prepare_s` has the filter in it
    #[arg(long, value_parser = ["index", "key"], default_value = "index")]
    pub by: String,
    /// Records of the table
    #[arg(long, value_name = "N", value_parser = number)]
    pub rows: u64,
    /// Bytes of a record, 1 to 65536; for `ckks-pir` a multiple of 8
    #[arg(long, value_name = "W", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub bytes: u32,
    /// Queries that a client is expected to make: the shape of `simple-pir` follows from it
    #[arg(long, value_name = "N", default_value = "100", value_parser = clap::value_parser!(u32).range(1..))]
    pub queries: u32,
    /// Threads that prepare the table and answer
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub workers: u32,
    /// Which rings `bfv-pir` and `bgv-pir` use
    #[arg(long, value_name = "NAME", default_value = "fast", value_parser = ["fast", "seed"])]
    pub preset: String,
}

/// Write the job file that another program's configuration means.
///
/// If the configuration asks for something that Vesica cannot do, the error names the field. If a field has another effect
/// here, or none, a note on standard error says so. Paths become absolute. `vesica run --config` does the same and runs the job.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  vesica import secretflow receiver.config --out receiver.toml
  vesica import secretflow sender.config --identity sender.pem --trust sha256:12ab…")]
pub struct Import {
    /// The program whose configuration it is
    #[arg(value_enum)]
    pub program: Program,
    /// The configuration
    pub file: PathBuf,
    /// It is a task file of Kuscia's
    #[arg(long)]
    pub kuscia: bool,
    /// Write the job here, into a new file; on standard output by default
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    #[command(flatten)]
    pub trust: Trust,
}

/// A program whose configurations are understood.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Program {
    /// SecretFlow PSI
    Secretflow,
}

/// Print the JSON Schema of a document or of a report.
///
/// Editors complete and check job files by it; programs read reports by it.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  vesica schema job > job.schema.json")]
pub struct Schema {
    /// The document that is described
    #[arg(value_enum)]
    pub of: Document,
}

/// A kind of document.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Document {
    /// The job file
    Job,
    /// The server's document of a service
    Service,
    /// A client's document of a service
    Client,
    /// What `vesica run --report` writes
    Report,
}

/// Show the version, what this machine offers, and the limits.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  VESICA_CPU=portable vesica info")]
pub struct Info {}

/// Look at this machine: what makes runs slow or fail here, and what to do.
///
/// Looks at the processor, the cores and memory that a container leaves, the scratch folder and the clock; with a document also
/// at the identity and its dates; with a document or with addresses, whether they can be listened on and called. The job itself
/// is looked at by `vesica check`. Changes nothing.
#[derive(Args, Debug)]
#[command(after_help = "\
Exit codes:
  0 nothing makes runs fail; what is slow, or only not so yet, does not count
  2 something of this machine or of the job would make a run fail
  4 only the network would: an address that does not answer

Examples:
  vesica doctor
  vesica doctor alice.toml
  vesica doctor --connect alice.example:5300")]
pub struct Doctor {
    /// A job, or a service's or client's document: its memory, scratch folder, identity and addresses are looked at
    #[arg(value_name = "FILE")]
    pub document: Option<PathBuf>,
    /// Whether this can be listened on
    #[arg(long, value_name = "HOST:PORT")]
    pub listen: Option<String>,
    /// Whether somebody answers here; can be given several times
    #[arg(long, value_name = "HOST:PORT")]
    pub connect: Vec<String>,
}

/// Print a completion script for a shell.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  vesica completions bash > ~/.local/share/bash-completion/completions/vesica
  vesica completions zsh > ~/.zfunc/_vesica")]
pub struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

/// Print the manual page, or write those of all commands.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  vesica man | man -l -\n  vesica man --out ~/.local/share/man/man1")]
pub struct Man {
    /// Write vesica.1, vesica-run.1, … into this folder; made if need be
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// A count: `1000000`, `1_000_000` or `1e6`.
fn number(text: &str) -> Result<u64, String> {
    let plain = text.replace('_', "");
    let parsed = match plain.split_once(['e', 'E']) {
        None => plain.parse().ok(),
        Some((digits, zeros)) => digits
            .parse::<u64>()
            .ok()
            .zip(zeros.parse().ok().and_then(|zeros| 10u64.checked_pow(zeros)))
            .and_then(|(digits, power)| digits.checked_mul(power)),
    };
    parsed.ok_or_else(|| "not a count; write 1000000, 1_000_000 or 1e6".to_owned())
}

/// Keys that a client may ask for a day.
fn keys_a_day(text: &str) -> Result<u64, String> {
    let most = vesica_spec::Terms::MOST_KEYS;
    Some(number(text)?).filter(|keys| (1..=most).contains(keys)).ok_or_else(|| "give 1 to 2^48".to_owned())
}

/// A rate, which is more than nothing.
fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate: &f64| rate.is_finite() && *rate > 0.0);
    rate.ok_or_else(|| "not a rate; write 100 for 100 megabits a second".to_owned())
}

/// A number for each party's table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RowsOfTables(pub Vec<u64>);

fn rows_of_tables(text: &str) -> Result<RowsOfTables, String> {
    let rows: Vec<u64> = text.split(',').map(number).collect::<Result<_, _>>()?;
    match rows.as_slice() {
        [rows] => Ok(RowsOfTables(vec![*rows; 2])),
        [_, _] | [_, _, _] => Ok(RowsOfTables(rows)),
        _ => Err("more than three tables".to_owned()),
    }
}

impl RowsOfTables {
    /// Those of the first two tables.
    pub fn both(&self) -> [u64; 2] {
        [0, 1].map(|table| self.0.get(table).copied().unwrap_or_default())
    }
}

fn rows_of_two(text: &str) -> Result<RowsOfTables, String> {
    let rows = rows_of_tables(text)?;
    if rows.0.len() == 2 { Ok(rows) } else { Err("two tables, and no more".to_owned()) }
}

/// The demo compares the outputs in memory, so it has a limit that runs have not.
fn rows_of_demo(text: &str) -> Result<u64, String> {
    match number(text)? {
        0 => Err("the demo needs at least 1 row".to_owned()),
        n if n > 20_000_000 => {
            Err("the demo takes at most 20 million rows; use `vesica gen` and `vesica run` for more".to_owned())
        }
        n => Ok(n),
    }
}

/// A parser of names that lists them in help and errors.
fn one_of<T>(names: &'static [&'static str]) -> impl clap::builder::TypedValueParser<Value = T>
where
    T: std::str::FromStr<Err = String> + Clone + Send + Sync + 'static,
{
    use clap::builder::{PossibleValuesParser, TypedValueParser};
    PossibleValuesParser::new(names).try_map(|name| name.parse())
}

/// A parser of the names of `all`, that lists them in help and errors.
fn named<T>(all: &'static [T], name: fn(T) -> &'static str) -> impl clap::builder::TypedValueParser<Value = T>
where
    T: Copy + Send + Sync + 'static,
{
    use clap::builder::{PossibleValuesParser, TypedValueParser};
    let names = PossibleValuesParser::new(all.iter().map(|&one| name(one)));
    names.try_map(move |text| {
        all.iter().copied().find(|&one| name(one) == text).ok_or_else(|| format!("{text:?} is not in the list"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definitions_are_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn counts() {
        assert_eq!(["7", "1_000", "1e6", "25E3"].map(number), [Ok(7), Ok(1000), Ok(1_000_000), Ok(25_000)]);
        let tables = |text| rows_of_tables(text).map(|rows| rows.0);
        assert_eq!(["9", "9,1e3", "1,2,3"].map(tables), [Ok(vec![9, 9]), Ok(vec![9, 1000]), Ok(vec![1, 2, 3])]);
        assert!(tables("1,2,3,4").is_err() && tables("1,").is_err());
        assert_eq!(rows_of_two("1e3,7").map(|rows| rows.both()), Ok([1000, 7]));
        assert!(rows_of_two("1,2,3").is_err());
        for text in ["", "-1", "1.5", "1e", "e5", "1e20", "x"] {
            assert!(number(text).is_err(), "{text}");
        }
    }
}
