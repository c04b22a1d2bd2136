//! Which outputs may be cut into several files, and how.

use vesica_spec::{parse, plan};
use vesica_table::Parts;

fn job(shared: &str, input: &str, output: &str) -> String {
    format!(
        "[shared]\nid = \"j\"\nparties = [\"alice\", \"bob\"]\nprotocol = \"rr22\"\ninsecure = true\naccept = \"all\"\n{shared}\n\
         [mine]\nname = \"alice\"\nlisten = \"h:1\"\ninput = {{ {input}, keys = [\"id\"] }}\n\
         output = {{ path = \"out\", {output} }}\n"
    )
}

const ONE: &str = "learns = [\"alice\"]";
const BOTH: &str = "learns = [\"alice\", \"bob\"]";
const FILE: &str = "path = \"a.csv\"";

#[test]
fn an_output_may_be_cut_by_a_size_or_by_files() {
    for (shared, output, parts) in [
        (ONE, "parts = \"files\"", Parts::Files),
        (ONE, "parts = \"1 MiB\"", Parts::Bytes(1 << 20)),
        (BOTH, "parts = \"2 GiB\"", Parts::Bytes(2 << 30)),
        (BOTH, "parts = \"files\", order = \"input\"", Parts::Files),
        ("learns = [\"alice\", \"bob\"]\nresult = \"ids\"", "parts = \"files\"", Parts::Files),
    ] {
        let plan = plan(&parse(&job(shared, FILE, output)).unwrap()).unwrap();
        assert_eq!(plan.output.unwrap().parts, Some(parts), "{output}");
    }
    assert_eq!(plan(&parse(&job(ONE, FILE, "order = \"input\"")).unwrap()).unwrap().output.unwrap().parts, None);
}

#[test]
fn what_cannot_be_cut_so_is_refused_with_what_can() {
    let joined = format!("{BOTH}\njoin = \"full\"");
    let shares = format!("{BOTH}\nresult = \"shares\"");
    for (shared, input, output, said) in [
        (ONE, FILE, "parts = \"many\"", "\"many\" is no way to cut rows into files; write \"files\", or a size"),
        (ONE, FILE, "parts = \"4 KiB\"", "\"4 KiB\" is too little for a file, and 1 MiB is the least"),
        (ONE, "path = \"-\"", "parts = \"files\"", "standard input is none; give a size"),
        (ONE, "command = [\"cat\"]", "parts = \"files\"", "the output of cat is none; give a size"),
        (BOTH, FILE, "parts = \"files\"", "both outputs line up row by row; give a size"),
        (&joined, FILE, "parts = \"files\", order = \"input\"", "no place for the rows of nulls of a full join"),
        (&shares, FILE, "parts = \"1 GiB\"", "a result of shares is one file; leave it out"),
    ] {
        let error = plan(&parse(&job(shared, input, output)).unwrap()).unwrap_err();
        assert_eq!(error.field.as_deref(), Some("mine.output.parts"), "{error}");
        assert!(error.to_string().contains(said), "{error}");
    }
}
