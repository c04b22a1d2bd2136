//! Circles of files: in a crate, a file does not lead back to itself through those that it names.
//!
//! Example: `seal/key.rs` names `seal/ledger.rs` for a path, and `seal/ledger.rs` names `seal/key.rs` for a secret. Neither can be read
//! without the other. A file may name those that stand above it: `schemes/piano.rs` has its trait from `retrieve/mod.rs`. A name that a
//! file only passes on (`pub use`) counts as the file where it is made. Tests may name what they like, and so may a registry: the one file
//! that knows all of a kind by name. Not seen are methods, whose file follows from a type, and paths that a macro makes or that stand in one
//! which takes no list of expressions.

use crate::Chore;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use syn::visit::{self, Visit};

/// The circles that are left.
const LIST: &str = "xtask/circles.toml";

/// A module that has a file, as its names below the crate: `["seal", "key"]`.
pub type Module = Vec<String>;

/// Fails with every circle that is not on the list, and with everything on the list that is no circle.
pub fn check(root: &Path) -> Chore {
    let text = std::fs::read_to_string(root.join(LIST)).map_err(|e| format!("{LIST}: {e}"))?;
    let list: toml::Table = text.parse().map_err(|e| format!("{LIST}: {e}"))?;
    let entries = list.get("circles").and_then(toml::Value::as_array).into_iter().flatten();
    let listed: BTreeSet<Vec<String>> = entries.map(|entry| paths(entry.get("files"))).collect();
    let (mut found, mut wrong) = (BTreeSet::new(), Vec::new());
    let crates = std::fs::read_dir(root.join("crates")).map_err(|e| format!("crates: {e}"))?;
    for folder in crates.flatten().map(|entry| entry.path().join("src")).filter(|folder| folder.is_dir()) {
        let sources = sources(root, &folder)?;
        let globs = sources.values().filter(|file| file.passes_all);
        wrong.extend(globs.map(|file| format!("{}: `pub use …::*` hides where names are made; name them", file.path)));
        found.extend(circles(&sources));
    }
    let new = found.difference(&listed).map(|circle| format!("these files name each other: {}", circle.join(", ")));
    let gone =
        listed.difference(&found).map(|circle| format!("{LIST} lists what is no circle now: {}", circle.join(", ")));
    wrong.extend(new.chain(gone));
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// The files of a crate whose sources are in a folder. A registry names none.
pub fn sources(root: &Path, folder: &Path) -> Result<BTreeMap<Module, File>, String> {
    let text = std::fs::read_to_string(root.join(LIST)).map_err(|e| format!("{LIST}: {e}"))?;
    let list: toml::Table = text.parse().map_err(|e| format!("{LIST}: {e}"))?;
    let registries = paths(list.get("registries"));
    let mut sources = BTreeMap::new();
    read(root, folder, folder, &mut sources)?;
    for registry in sources.values_mut().filter(|file| registries.contains(&file.path)) {
        registry.named.clear();
    }
    Ok(sources)
}

/// The paths in a list, in order.
fn paths(list: Option<&toml::Value>) -> Vec<String> {
    let paths = list.and_then(toml::Value::as_array).into_iter().flatten();
    let mut paths: Vec<String> = paths.filter_map(toml::Value::as_str).map(str::to_owned).collect();
    paths.sort();
    paths
}

/// A file, and what it names.
#[derive(Default)]
pub struct File {
    path: String,
    /// What `use` brings: the name, and what it stands for.
    brought: BTreeMap<String, Vec<String>>,
    /// Every path in it that has more than one name.
    named: Vec<Vec<String>>,
    /// Whether it passes on what it does not name (`pub use x::*`), so that nobody can say where that is made.
    passes_all: bool,
    /// The module of this file that is read at the moment.
    within: Module,
}

/// Reads the files of a folder of a crate whose sources are at `top`.
fn read(root: &Path, top: &Path, folder: &Path, sources: &mut BTreeMap<Module, File>) -> Chore {
    let entries = std::fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        let below = |top: &Path| path.strip_prefix(top).unwrap_or(&path).display().to_string();
        if path.is_dir() {
            read(root, top, &path, sources)?;
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
            let (module, mut file) = parse(&below(top), &text)?;
            file.path = below(root);
            // A file of tests is named by nobody, and may name everybody.
            if !module.contains(&"tests".to_owned()) {
                sources.insert(module, file);
            }
        }
    }
    Ok(())
}

/// The module that the file at `path` of a crate is, and what it names.
pub fn parse(path: &str, text: &str) -> Result<(Module, File), String> {
    let mut module: Module = path.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if module.last().is_some_and(|name| ["mod", "lib"].contains(&name.as_str())) {
        module.pop();
    }
    let parsed = syn::parse_file(text).map_err(|e| format!("{path}: {e}"))?;
    let mut file = File { path: path.to_owned(), within: module.clone(), ..File::default() };
    file.visit_file(&parsed);
    Ok((module, file))
}

/// Whether it stands for names that it does not say.
fn has_glob(tree: &syn::UseTree) -> bool {
    match tree {
        syn::UseTree::Path(path) => has_glob(&path.tree),
        syn::UseTree::Group(group) => group.items.iter().any(has_glob),
        syn::UseTree::Glob(_) => true,
        syn::UseTree::Name(_) | syn::UseTree::Rename(_) => false,
    }
}

/// Whether this is for tests alone.
fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().filter(|attribute| attribute.path().is_ident("cfg")).any(|attribute| {
        let syn::Meta::List(list) = &attribute.meta else { return false };
        let condition = list.tokens.to_string();
        condition.split(|c: char| !c.is_alphanumeric()).any(|word| word == "test") && !condition.contains("not")
    })
}

impl File {
    /// Takes what a `use` brings, below `before`.
    fn bring(&mut self, tree: &syn::UseTree, before: &[String]) {
        let whole = |last: &syn::Ident| [before, &[last.to_string()]].concat();
        let (name, stands_for) = match tree {
            syn::UseTree::Path(path) => return self.bring(&path.tree, &whole(&path.ident)),
            syn::UseTree::Group(group) => return group.items.iter().for_each(|tree| self.bring(tree, before)),
            syn::UseTree::Glob(_) => return self.named.push(self.absolute(before)),
            syn::UseTree::Name(name) if name.ident == "self" => {
                (before.last().cloned().unwrap_or_default(), before.to_vec())
            }
            syn::UseTree::Name(name) => (name.ident.to_string(), whole(&name.ident)),
            syn::UseTree::Rename(name) => (name.rename.to_string(), whole(&name.ident)),
        };
        let stands_for = self.absolute(&stands_for);
        self.named.push(stands_for.clone());
        self.brought.insert(name, stands_for);
    }

    /// A path with `crate`, `self` and `super` made one from the crate on, which begins with `crate`.
    fn absolute(&self, path: &[String]) -> Vec<String> {
        let here = || [&["crate".to_owned()][..], &self.within].concat();
        let ups = path.iter().take_while(|name| *name == "super").count();
        match path.first().map(String::as_str) {
            Some("self") => [here(), path[1..].to_vec()].concat(),
            Some("super") => [&here()[..(1 + self.within.len()).saturating_sub(ups)], &path[ups..]].concat(),
            _ => path.to_vec(),
        }
    }
}

impl<'a> Visit<'a> for File {
    fn visit_item(&mut self, item: &'a syn::Item) {
        use syn::Item::{Const, Enum, Fn, Impl, Macro, Mod, Static, Struct, Trait, Type, Use};
        let attributes = match item {
            Const(item) => &item.attrs,
            Enum(item) => &item.attrs,
            Fn(item) => &item.attrs,
            Impl(item) => &item.attrs,
            Macro(item) => &item.attrs,
            Mod(item) => &item.attrs,
            Static(item) => &item.attrs,
            Struct(item) => &item.attrs,
            Trait(item) => &item.attrs,
            Type(item) => &item.attrs,
            Use(item) => &item.attrs,
            _ => return visit::visit_item(self, item),
        };
        match item {
            _ if is_for_tests(attributes) => {}
            Use(item) => {
                self.passes_all |= !matches!(item.vis, syn::Visibility::Inherited) && has_glob(&item.tree);
                self.bring(&item.tree, &[]);
            }
            Mod(item) => {
                self.within.push(item.ident.to_string());
                visit::visit_item_mod(self, item);
                self.within.pop();
            }
            _ => visit::visit_item(self, item),
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        if !is_for_tests(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        if path.segments.len() > 1 {
            let names: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            self.named.push(self.absolute(&names));
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'a syn::Macro) {
        // What a macro takes is anything; what most of them take is a list of expressions.
        type List = syn::punctuated::Punctuated<syn::Expr, syn::Token![,]>;
        if let Ok(list) = item.parse_body_with(List::parse_terminated) {
            list.iter().for_each(|expression| self.visit_expr(expression));
        }
    }
}

/// The file where what `path` names in `module` is made; none if that is not in this crate.
fn made<'a>(sources: &'a BTreeMap<Module, File>, module: &'a Module, path: &[String]) -> Option<&'a Module> {
    let mut path = path.to_vec();
    let mut module = module;
    // Names are passed on a few times at most.
    for _ in 0..8 {
        let first = path.first()?;
        let below = if first == "crate" { path[1..].to_vec() } else { [&module[..], &path].concat() };
        let is_here = first == "crate" || sources.contains_key(&below[..=module.len()]);
        if !is_here {
            path = [&sources.get(module)?.brought.get(first)?[..], &path[1..]].concat();
            continue;
        }
        let (file, source) = (0..=below.len()).rev().find_map(|end| sources.get_key_value(&below[..end]))?;
        match below.get(file.len()).and_then(|name| source.brought.get(name)) {
            Some(stands_for) => {
                path = [&stands_for[..], &below[file.len() + 1..]].concat();
                module = file;
            }
            None => return Some(file),
        }
    }
    None
}

/// The files that each file of a crate names, without those that stand above it.
pub fn edges(sources: &BTreeMap<Module, File>) -> BTreeMap<&Module, BTreeSet<&Module>> {
    let named = |(from, file)| -> (_, BTreeSet<_>) {
        let file: &File = file;
        let named = file.named.iter().filter_map(|path| made(sources, from, path));
        (from, named.filter(|to| !from.starts_with(to)).collect())
    };
    sources.iter().map(named).collect()
}

/// The circles of a crate's files: the paths of each, in order.
fn circles(sources: &BTreeMap<Module, File>) -> BTreeSet<Vec<String>> {
    let edges = edges(sources);
    let mut all: BTreeMap<&Module, BTreeSet<&Module>> = BTreeMap::new();
    for from in sources.keys() {
        let (mut reached, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(file) = next.pop() {
            next.extend(edges[file].iter().copied().filter(|to| reached.insert(*to)));
        }
        all.insert(from, reached);
    }
    let circle = |from: &Module| -> Vec<String> {
        let mut circle: Vec<String> =
            all[from].iter().filter(|to| all[**to].contains(from)).map(|to| sources[*to].path.clone()).collect();
        circle.sort();
        circle
    };
    sources.keys().filter(|from| all[*from].contains(*from)).map(circle).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The circles of these files, each as the paths of its files.
    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let sources: BTreeMap<Module, File> = files.iter().map(|(path, text)| parse(path, text).unwrap()).collect();
        circles(&sources).into_iter().map(|circle| circle.join(" ")).collect()
    }

    #[test]
    fn two_files_that_name_each_other_are_found_by_every_road() {
        for (a, b) in [
            ("use crate::b::B;", "use crate::a::A;"),
            ("fn f() { crate::b::g() }", "use super::a;\nfn g() { a::f() }"),
            ("fn f() { println!(\"{}\", super::b::B) }", "struct B(crate::a::A);"),
            ("use crate::B;", "use crate::{x, a::{self, A}};"),
            ("mod inner { use crate::b::B; }", "mod inner { use super::super::a::A; }"),
        ] {
            assert_eq!(found(&[("lib.rs", "pub use b::B;"), ("a.rs", a), ("b.rs", b)]), ["a.rs b.rs"], "{a} {b}");
        }
        let three = [
            ("a.rs", "use crate::b::B;"),
            ("b.rs", "use crate::c::d::D;"),
            ("c/d.rs", "use crate::a::A;"),
            ("c/mod.rs", ""),
        ];
        assert_eq!(found(&three), ["a.rs b.rs c/d.rs"]);
    }

    #[test]
    fn what_stands_above_may_be_named_and_so_may_everything_by_tests() {
        for (a, b) in [
            ("use crate::b::B;", "use std::a::A;\nuse crate::Error;"),
            ("use crate::b::B;", "#[cfg(test)]\nmod tests { use crate::a::A; }"),
            ("use crate::b::B;", "#[cfg(test)]\nuse crate::a::A;"),
        ] {
            assert_eq!(found(&[("lib.rs", "pub struct Error;"), ("a.rs", a), ("b.rs", b)]), [""; 0], "{a} {b}");
        }
        let below = [
            ("a/mod.rs", "use b::B;\npub use c::C;"),
            ("a/b.rs", "use super::{T, C};"),
            ("a/c.rs", "use crate::a::T;"),
        ];
        assert_eq!(found(&below), [""; 0]);
        // Siblings are not above each other.
        let beside =
            [("a/mod.rs", "pub use b::B;\npub use c::C;"), ("a/b.rs", "use super::C;"), ("a/c.rs", "use crate::a::B;")];
        assert_eq!(found(&beside), ["a/b.rs a/c.rs"]);
    }
}
