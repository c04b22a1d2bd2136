//! The book and the pages beside it: every link leads to a page or a file that is there, and to a heading that it has.

use crate::{Chore, run, say};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// Where the book's pages are. mdBook copies what is below this folder, and nothing else.
const PAGES: &str = "docs/src/";

/// Pages that are neither the book's nor at the top.
const BESIDE: [&str; 2] = ["fuzz/README.md", "python/README.md"];

/// How a page of the book names a file that the book does not hold. The file is looked up in this checkout.
const REPOSITORY: &str = "https://github.com/vesica/vesica/blob/main/";

/// Fails with every link that leads nowhere; then renders the book, if mdBook is installed, and looks at the links of what came of it.
pub fn check(root: &Path) -> Chore {
    let mut pages: Vec<String> = BESIDE.iter().map(|page| (*page).to_owned()).collect();
    pages.extend(names(root, "")?.into_iter().filter(|name| name.ends_with(".md")));
    let mut folders = vec![PAGES.trim_end_matches('/').to_owned()];
    while let Some(folder) = folders.pop() {
        for name in names(root, &folder)? {
            let path = format!("{folder}/{name}");
            if root.join(&path).is_dir() {
                folders.push(path);
            } else if name.ends_with(".md") {
                pages.push(path);
            }
        }
    }
    pages.sort();
    let settings = std::fs::read_to_string(root.join("docs/book.toml")).map_err(|e| format!("docs/book.toml: {e}"))?;
    let mut wrong = examine(&pages, |path| read(&root.join(path)));
    wrong.extend(unnamed(&pages, &read(&root.join("docs/src/SUMMARY.md")).unwrap_or_default(), &settings));
    if !wrong.is_empty() {
        return Err(wrong.join("\n"));
    }
    if Command::new("mdbook").arg("--version").output().is_err() {
        say("mdbook is not installed, so the book was not rendered: `cargo install mdbook --locked`");
        return Ok(());
    }
    let folder = root.join("target/book");
    run("mdbook", &["build", "docs", "--dest-dir", &folder.display().to_string()], &[])?;
    let wrong = rendered(&folder)?;
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// What is in a folder of the repository.
fn names(root: &Path, folder: &str) -> Result<Vec<String>, String> {
    let entries = std::fs::read_dir(root.join(folder)).map_err(|e| format!("{folder}: {e}"))?;
    entries
        .map(|entry| entry.map(|e| e.file_name().to_string_lossy().into_owned()).map_err(|e| e.to_string()))
        .collect()
}

/// The text of a page; empty for another file and for a folder; nothing where there is none of these.
fn read(path: &Path) -> Option<String> {
    if path.extension().is_some_and(|kind| kind == "md") {
        std::fs::read_to_string(path).ok()
    } else {
        path.exists().then(String::new)
    }
}

/// What is wrong with the links of these pages. `read` gives the text of a page, and something for every file that is there.
fn examine(pages: &[String], read: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut headings: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut texts = Vec::new();
    for page in pages {
        let lines = prose(&expand(page, &read(page).unwrap_or_default(), &read, &mut wrong));
        headings.insert(page.clone(), anchors(&lines));
        texts.push((page, lines));
    }
    for (page, lines) in texts {
        for (number, target) in lines.iter().flat_map(|(number, line)| links(line).map(move |link| (number, link))) {
            let mut say = |why: &str| wrong.push(format!("{page}:{number}: {target} {why}"));
            if let Some(path) = target.strip_prefix(REPOSITORY) {
                if read(path.split('#').next().unwrap_or_default()).is_none() {
                    say("names a file that is not in the repository");
                }
                continue;
            }
            if ["https://", "http://", "mailto:"].iter().any(|begin| target.starts_with(begin)) {
                continue;
            }
            let (path, anchor) = target.split_once('#').map_or((target, None), |(path, at)| (path, Some(at)));
            let at = if path.is_empty() { page.clone() } else { beside(page, path) };
            if read(&at).is_none() {
                say("leads nowhere");
            } else if page.starts_with(PAGES) && !at.starts_with(PAGES) {
                say(&format!("leads out of the book, which holds {PAGES} alone: write {REPOSITORY}{at}"));
            } else if let Some(anchor) = anchor
                && at.ends_with(".md")
                && !headings.get(&at).is_some_and(|of| of.contains(anchor))
            {
                say("names a heading that is not there");
            }
        }
    }
    wrong
}

/// Pages that the table of contents does not name, and pages called README.md for which the book has no redirection: mdBook writes
/// such a page as `index.html`, and a link to it as `README.html`.
fn unnamed(pages: &[String], contents: &str, settings: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let named: BTreeSet<&str> = contents.lines().flat_map(links).collect();
    for page in pages.iter().filter_map(|page| page.strip_prefix(PAGES)) {
        if page != "SUMMARY.md" && !named.contains(page) {
            wrong.push(format!("{PAGES}SUMMARY.md does not name {page}"));
        }
        if let Some(folder) = page.strip_suffix("README.md")
            && !settings.contains(&format!("\"/{folder}README.html\" = \"index.html\""))
        {
            wrong.push(format!("docs/book.toml: \"/{folder}README.html\" is not redirected to \"index.html\""));
        }
    }
    wrong
}

/// The lines of a page, each with its number, and those that it includes in their place.
fn expand(
    page: &str,
    text: &str,
    read: impl Fn(&str) -> Option<String>,
    wrong: &mut Vec<String>,
) -> Vec<(usize, String)> {
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let Some(what) = line.strip_prefix("{{#include ").and_then(|rest| rest.strip_suffix("}}")) else {
            lines.push((number, line.to_owned()));
            continue;
        };
        let (path, part) = what.split_once(':').map_or((what, None), |(path, part)| (path, Some(part)));
        let found = read(&beside(page, path)).and_then(|text| match part {
            None => Some(text),
            Some(part) => {
                let (_, rest) = text.split_once(&format!("<!-- ANCHOR: {part} -->"))?;
                Some(rest.split_once(&format!("<!-- ANCHOR_END: {part} -->"))?.0.to_owned())
            }
        });
        match found {
            Some(text) => lines.extend(text.lines().map(|line| (number, line.to_owned()))),
            None => wrong.push(format!("{page}:{number}: {what} cannot be included: it is not there")),
        }
    }
    lines
}

/// The lines that are not in a block of code.
fn prose(lines: &[(usize, String)]) -> Vec<(usize, String)> {
    let mut fence: Option<&str> = None;
    let mut kept = Vec::new();
    for (number, line) in lines {
        let mark = ["```", "~~~"].into_iter().find(|mark| line.trim_start().starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            (Some(_), _) => {}
            (None, None) => kept.push((*number, line.clone())),
        }
    }
    kept
}

/// Where the links and pictures of a line lead.
fn links(line: &str) -> impl Iterator<Item = &str> {
    let inline = line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    let apart = line.strip_prefix('[').and_then(|rest| rest.split_once("]: ")).map(|(_, target)| target.trim());
    inline.chain(apart).filter(|target| !target.is_empty())
}

/// The names by which links find the headings of a page: as mdBook and GitHub make them.
fn anchors(lines: &[(usize, String)]) -> BTreeSet<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut all = BTreeSet::new();
    for (_, line) in lines {
        all.extend(line.split("id=\"").skip(1).filter_map(|rest| rest.split('"').next()).map(str::to_owned));
        let title = line.trim_start_matches('#');
        if title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let name: String = title.trim().chars().filter_map(letter).collect();
        let before = seen.entry(name.clone()).or_default();
        all.insert(if *before == 0 { name } else { format!("{name}-{before}") });
        *before += 1;
    }
    all
}

/// What becomes of a letter of a heading.
fn letter(c: char) -> Option<char> {
    match c {
        '_' | '-' => Some(c),
        c if c.is_alphanumeric() => Some(c.to_ascii_lowercase()),
        c if c.is_whitespace() => Some('-'),
        _ => None,
    }
}

/// The path in the repository of what `page` calls `path`.
fn beside(page: &str, path: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "." | "" => {}
            ".." => _ = parts.pop(),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// What is wrong with the links of the pages that mdBook made.
fn rendered(book: &Path) -> Result<Vec<String>, String> {
    let mut pages: BTreeMap<String, String> = BTreeMap::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        for name in names(book, &folder)? {
            let path = format!("{folder}{name}");
            if book.join(&path).is_dir() {
                folders.push(format!("{path}/"));
            } else if name.ends_with(".html") {
                let text = std::fs::read_to_string(book.join(&path)).map_err(|e| format!("{path}: {e}"))?;
                pages.insert(path, text);
            }
        }
    }
    let values = |text: &str, name: &str| -> BTreeSet<String> {
        let begin = format!(" {name}=\"");
        let parts = text.split(&begin).skip(1).filter_map(|rest| rest.split('"').next());
        parts.map(str::to_owned).collect()
    };
    let ids: BTreeMap<&String, BTreeSet<String>> =
        pages.iter().map(|(path, text)| (path, values(text, "id"))).collect();
    let mut wrong = Vec::new();
    for (page, text) in &pages {
        // One page for a printer, with all others in it, and one whose links begin at the root of a site.
        if page == "print.html" || page == "404.html" {
            continue;
        }
        for target in values(text, "href").into_iter().chain(values(text, "src")) {
            if target.split('/').next().is_some_and(|scheme| scheme.contains(':')) {
                continue;
            }
            let (path, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let at = if path.is_empty() { page.clone() } else { beside(page, path) };
            let there = book.join(&at).exists();
            if !there || (!anchor.is_empty() && ids.get(&at).is_some_and(|ids| !ids.contains(anchor))) {
                wrong.push(format!("target/book/{page}: {target} leads nowhere"));
            }
        }
    }
    Ok(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is wrong with a page of the book that says this.
    fn wrong(text: &str) -> Vec<String> {
        let pages = ["docs/src/a/one.md", "docs/src/two.md", "README.md"].map(str::to_owned);
        let read = |path: &str| match path {
            "docs/src/a/one.md" => Some(text.to_owned()),
            "docs/src/two.md" => Some("# Two\n\n## A `b` c: d_e\n\n## Twice\n\n## Twice\n".to_owned()),
            "README.md" => Some("# Top\n<!-- ANCHOR: p -->\n[x](docs/src/two.md)\n<!-- ANCHOR_END: p -->\n".to_owned()),
            "crates/x.rs" => Some(String::new()),
            _ => None,
        };
        examine(&pages, read)
    }

    #[test]
    fn links_that_lead_somewhere_are_right() {
        let text = "# One\n[a](../two.md) and [b](../two.md#a-b-c-d_e), [c](#one), [d](../two.md#twice-1)\n\
                    [e](https://x.example/gone)\n[f]: ../two.md\n```text\n[g](gone.md)\n```\n";
        assert_eq!(wrong(&format!("{text}[h]({REPOSITORY}crates/x.rs)\n")), Vec::<String>::new());
    }

    #[test]
    fn a_link_that_leads_nowhere_is_named_with_its_line() {
        let one = |text: &str| wrong(&format!("# One\n\n{text}")).join("\n");
        assert_eq!(one("[a](gone.md)"), "docs/src/a/one.md:3: gone.md leads nowhere");
        assert_eq!(one("![a](gone.svg)"), "docs/src/a/one.md:3: gone.svg leads nowhere");
        assert!(one("[a](../two.md#three)").ends_with("#three names a heading that is not there"));
        assert!(one("[a](../two.md#twice-2)").ends_with("names a heading that is not there"));
        assert!(one("[a](#two)").ends_with("#two names a heading that is not there"));
        assert!(one("[a](../../../README.md)").contains("leads out of the book"));
        assert!(one(&format!("[a]({REPOSITORY}crates/y.rs)")).ends_with("a file that is not in the repository"));
    }

    #[test]
    fn what_is_included_is_there_and_its_links_hold_where_it_is_included() {
        let include = |part: &str| wrong(&format!("# One\n{{{{#include ../../../README.md:{part}}}}}\n")).join("\n");
        assert_eq!(include("p"), "docs/src/a/one.md:2: docs/src/two.md leads nowhere");
        assert!(include("q").contains("../../../README.md:q cannot be included"));
    }

    #[test]
    fn every_page_is_in_the_contents_and_a_folders_first_page_is_redirected() {
        let pages = ["docs/src/SUMMARY.md", "docs/src/b/README.md", "docs/src/c.md", "README.md"].map(str::to_owned);
        let settings = "\"/b/README.html\" = \"index.html\"";
        assert_eq!(unnamed(&pages, "- [b](b/README.md)\n- [c](c.md)", settings), Vec::<String>::new());
        assert_eq!(unnamed(&pages, "- [b](b/README.md)", settings), ["docs/src/SUMMARY.md does not name c.md"]);
        assert!(unnamed(&pages, "- [b](b/README.md)\n- [c](c.md)", "")[0].contains("/b/README.html"));
    }

    #[test]
    fn a_link_of_a_rendered_page_that_leads_nowhere_is_named() {
        let dir = std::env::temp_dir().join(format!("vesica-book-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("a")).unwrap();
        let page =
            "<a href=\"../b.html#x\"></a><a href=\"../b.html#y\"></a><img src=\"gone.svg\"><a href=\"https://z\">";
        std::fs::write(dir.join("a/one.html"), page).unwrap();
        std::fs::write(dir.join("b.html"), "<h1 id=\"x\">").unwrap();
        let mut wrong = rendered(&dir).unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
        wrong.sort();
        let says = |what: &str| format!("target/book/a/one.html: {what} leads nowhere");
        assert_eq!(wrong, [says("../b.html#y"), says("gone.svg")]);
    }
}
