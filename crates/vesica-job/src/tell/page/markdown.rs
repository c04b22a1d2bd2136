//! A page as Markdown.

use super::{Block, Page};
use std::fmt::Write;

pub fn page(page: &Page) -> String {
    let mut text = format!("# {}\n\n{}\n", plain(&page.title), plain(&page.headline));
    for section in &page.sections {
        let _ = writeln!(text, "\n## {}", section.title);
        section.blocks.iter().for_each(|one| text += &block(one));
    }
    text
}

fn block(block: &Block) -> String {
    match block {
        Block::Text(told) => format!("\n{}\n", plain(told)),
        Block::List(items) => {
            format!("\n{}", items.iter().map(|item| format!("- {}\n", plain(item))).collect::<String>())
        }
        Block::Table { head, rows } => table(head, rows),
        Block::Code(code) => format!("\n```toml\n{}\n```\n", code.trim_end()),
        Block::Overlap(overlap) => format!("\n{}\n", plain(&overlap.told())),
        Block::Bars(bars) => {
            let rows: Vec<_> = bars.lines.iter().map(|line| vec![line.name.clone(), line.told.clone()]).collect();
            table(&[], &rows)
        }
    }
}

fn table(head: &[String], rows: &[Vec<String>]) -> String {
    let line =
        |cells: &[String]| format!("| {} |\n", cells.iter().map(|cell| plain(cell)).collect::<Vec<_>>().join(" | "));
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0).max(head.len());
    let head = if head.is_empty() { vec![String::new(); columns] } else { head.to_vec() };
    format!("\n{}|{}\n{}", line(&head), "---|".repeat(columns), rows.iter().map(|row| line(row)).collect::<String>())
}

/// Names come from job files, and the other party's from a certificate: nothing in them is markup.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\r' => out.push(' '),
            '|' | '*' | '_' | '`' | '<' | '>' | '[' | ']' | '#' | '\\' => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out
}
