//! A page as one file of HTML: no script, nothing from elsewhere, readable in light and dark, on a telephone and on a desk.

use super::bars::{Bars, Span};
use super::overlap::Overlap;
use super::{Block, Page};
use crate::tell::numbers::{count, counted};
use std::fmt::Write;

/// No script runs and nothing is loaded, whatever stood in a name.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

pub fn page(page: &Page) -> String {
    let mut text = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n<header>\n<p class=\"job\">{title}</p>\n<h1>{headline}</h1>\n</header>\n",
        title = escape(&page.title),
        headline = escape(&page.headline),
        style = include_str!("style.css"),
    );
    for section in &page.sections {
        let id = section.title.to_lowercase().replace(' ', "-");
        let _ = writeln!(text, "<section id=\"{id}\">\n<h2>{}</h2>", escape(section.title));
        section.blocks.iter().for_each(|one| text += &block(one));
        text += "</section>\n";
    }
    text + "</main>\n</body>\n</html>\n"
}

fn block(block: &Block) -> String {
    match block {
        Block::Text(told) => format!("<p>{}</p>\n", escape(told)),
        Block::List(items) => {
            let items: String = items.iter().map(|item| format!("<li>{}</li>\n", escape(item))).collect();
            format!("<ul>\n{items}</ul>\n")
        }
        Block::Table { head, rows } => table(head, rows),
        Block::Code(code) => format!("<pre><code>{}</code></pre>\n", escape(code.trim_end())),
        Block::Overlap(overlap) => picture(overlap),
        Block::Bars(bars) => drawn(bars),
    }
}

fn table(head: &[String], rows: &[Vec<String>]) -> String {
    let mut text = String::from("<table>\n");
    if !head.is_empty() {
        let cells: String = head.iter().map(|cell| format!("<th scope=\"col\">{}</th>", escape(cell))).collect();
        let _ = writeln!(text, "<thead><tr>{cells}</tr></thead>");
    }
    for row in rows {
        let [first, rest @ ..] = &row[..] else { continue };
        let rest: String = rest.iter().map(|cell| format!("<td>{}</td>", escape(cell))).collect();
        let _ = writeln!(text, "<tr><th scope=\"row\">{}</th>{rest}</tr>", escape(first));
    }
    text + "</table>\n"
}

/// Two sets as circles, more as bars of which the common part is filled.
fn picture(overlap: &Overlap) -> String {
    let told = escape(&overlap.told());
    let Some(circles) = overlap.circles(80.0) else {
        let most = overlap.sets.iter().map(|(_, keys)| *keys).max().unwrap_or(0).max(1) as f64;
        let line = |(name, keys): &(String, u64)| {
            let (all, common) = (*keys as f64 / most, overlap.common.unwrap_or(0) as f64 / most);
            format!(
                "<div class=\"line\"><span class=\"name\">{}</span><span class=\"track\">{}{}</span><span class=\"told\">{}</span></div>\n",
                escape(name),
                span(&Span::plain(0.0, common, 0)),
                span(&Span::plain(common, (all - common).max(0.0), 1)),
                count(*keys)
            )
        };
        let lines: String = overlap.sets.iter().map(line).collect();
        // As the spans are numbered.
        let parts = match overlap.common {
            Some(_) => &[(0, "common to all"), (1, "the party's other keys")][..],
            None => &[(1, "the party's keys")],
        };
        let chips: String = parts.iter().map(|(part, name)| chip(*part, name)).collect();
        return format!(
            "<figure class=\"bars\" role=\"img\" aria-label=\"{told}\">\n<ul class=\"legend\">{chips}</ul>\n{lines}<figcaption>{told}</figcaption>\n</figure>\n"
        );
    };
    let reach = circles.left.max(circles.apart + circles.right) + circles.left.max(circles.right - circles.apart);
    let from = circles.left.max(circles.right - circles.apart);
    let (first, second) = (10.0 + from, 10.0 + from + circles.apart);
    let circle = |at: f64, r: f64, class: &str| {
        format!("<circle class=\"{class}\" cx=\"{at:.2}\" cy=\"90\" r=\"{:.2}\"/>", r.max(1.0))
    };
    let question = match overlap.common {
        Some(_) => String::new(),
        None => format!("<text x=\"{:.2}\" y=\"97\" text-anchor=\"middle\">?</text>", first + circles.left),
    };
    let sets = overlap.sets.iter().enumerate();
    let chips: String =
        sets.map(|(part, (name, keys))| chip(part, &format!("{name}: {}", counted(*keys, "keys")))).collect();
    format!(
        "<figure class=\"overlap\">\n<svg viewBox=\"0 0 {:.2} 180\" role=\"img\" aria-label=\"{told}\">{}{}{question}</svg>\n\
         <figcaption><ul class=\"legend\">{chips}</ul><p>{told}</p></figcaption>\n</figure>\n",
        reach + 20.0,
        circle(first, circles.left, "one"),
        circle(second, circles.right, "two"),
    )
}

/// What a part of a picture is, for its legend.
fn chip(part: usize, name: &str) -> String {
    format!("<li><span class=\"chip part{part}\"></span>{}</li>", escape(name))
}

fn drawn(bars: &Bars) -> String {
    let chips: String = bars.parts.iter().enumerate().map(|(part, name)| chip(part, name)).collect();
    let mut text = format!("<figure class=\"bars\">\n<ul class=\"legend\">{chips}</ul>\n");
    for line in &bars.lines {
        let spans: String = line.spans.iter().map(span).collect();
        let _ = writeln!(
            text,
            "<div class=\"line\"><span class=\"name\">{}</span><span class=\"track\">{spans}</span><span class=\"told\">{}</span></div>",
            escape(&line.name),
            escape(&line.told)
        );
    }
    text + "</figure>\n"
}

fn span(Span { at, wide, part, says }: &Span) -> String {
    let (at, wide) = (100.0 * at, 100.0 * wide);
    format!("<i class=\"part{part}\" style=\"left:{at:.2}%;width:{wide:.2}%\">{}</i>", escape(says))
}

/// Names come from job files, and the other party's from a certificate: nothing in them is markup.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            c => out.push(c),
        }
    }
    out
}
