//! The page of a report in a real browser: at the width of a telephone and of a desk, in light and in dark. What is compared is the
//! structure: what stands where, in which colours, and that nothing sticks out. Needs Chromium, and says so where there is none.

use crate::two;

use serde_json::Value;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use two::{Two, run};

/// The widths that are looked at: a telephone and a desk.
const WIDTHS: [u32; 2] = [390, 1100];
const HEIGHT: u32 = 6000;

/// The sections in the order in which they are read.
const SECTIONS: [&str; 8] = [
    "what-is-common",
    "who-learned-what",
    "when-it-happened",
    "the-data",
    "what-went-over-the-network",
    "security",
    "checks-that-passed",
    "how-to-run-it-again",
];

/// The pixels of an image of this width, in PNG (W3C, "Portable Network Graphics", sections 5.3 and 9.2) as Chromium writes it: 8 bits of red, green,
/// blue, and of opacity or without it.
fn pixels(png: &[u8], wide: usize) -> Vec<[u8; 3]> {
    let (mut data, mut at, mut depth) = (Vec::new(), 8, 0);
    while at < png.len() {
        let length = u32::from_be_bytes(png[at..at + 4].try_into().unwrap()) as usize;
        let (kind, chunk) = (&png[at + 4..at + 8], &png[at + 8..at + 8 + length]);
        match kind {
            b"IHDR" => {
                assert_eq!((&chunk[..4], chunk[8], chunk[12]), (&(wide as u32).to_be_bytes()[..], 8, 0));
                depth = if chunk[9] == 6 { 4 } else { 3 };
            }
            b"IDAT" => data.extend_from_slice(chunk),
            _ => {}
        }
        at += 12 + length;
    }
    let mut filtered = Vec::new();
    flate2::read::ZlibDecoder::new(&data[..]).read_to_end(&mut filtered).unwrap();
    let mut above = vec![0u8; wide * depth];
    let mut pixels = Vec::new();
    for line in filtered.chunks_exact(1 + wide * depth) {
        let mut bytes = line[1..].to_vec();
        for i in 0..bytes.len() {
            let (left, corner) = if i < depth { (0, 0) } else { (bytes[i - depth], above[i - depth]) };
            let [a, b, c] = [left, above[i], corner].map(i32::from);
            let near = [a, b, c].into_iter().min_by_key(|from| (a + b - c - from).abs()).unwrap();
            let predicted = [0, a, b, (a + b) / 2, near][usize::from(line[0])];
            bytes[i] = bytes[i].wrapping_add(predicted as u8);
        }
        pixels.extend(bytes.chunks_exact(depth).map(|p| [p[0], p[1], p[2]]));
        above = bytes;
    }
    pixels
}

/// A browser: what `VESICA_BROWSER` says, or the first that is installed.
fn browser() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("VESICA_BROWSER") {
        return Some(named.into());
    }
    let path = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    std::env::split_paths(&path).flat_map(|dir| names.map(|name| dir.join(name))).find(|file| file.is_file())
}

#[test]
#[expect(clippy::print_stderr, reason = "a test that was not run says so")]
fn the_page_is_whole_at_every_width_in_light_and_in_dark() {
    let Some(browser) = browser() else {
        eprintln!("NOT RUN: there is no Chromium; install it, or name a browser in VESICA_BROWSER");
        return;
    };
    let mut two = Two::with("id,name\n1,a\n2,b\n2,c\n,d\n5,e\n", "id\n2\n7\n5\n8\n");
    for job in [&mut two.alice, &mut two.bob] {
        job.text.push_str(&format!("report = \"{}.json\"\n", job.name));
    }
    two.run_well();
    let at = |name: &str| two.dir.path().join(name).to_str().unwrap().to_owned();
    run(&["report", &at("alice.json"), &at("bob.json"), "--html", "--out", &at("page.html")]).good();
    let page = two.read("page.html");
    assert!(page.contains("2 distinct keys") && !page.contains("<script"), "{page}");

    for dark in [false, true] {
        let seen = Seen::of(&browser, two.dir.path(), &page, dark);
        for (at, width) in WIDTHS.into_iter().enumerate() {
            seen.check(at, width, dark);
        }
    }
}

/// What a browser makes of a page at both widths.
struct Seen {
    /// Boxes in pixels of the picture, a frame each.
    frames: Vec<Value>,
    /// Red, green, blue, a pixel each.
    pixels: Vec<[u8; 3]>,
    wide: u32,
}

impl Seen {
    fn of(browser: &Path, dir: &Path, page: &str, dark: bool) -> Self {
        // A frame has the width that it is given; a window of a browser without a screen is never as narrow as a telephone.
        let quoted = page.replace('&', "&amp;").replace('"', "&quot;");
        let frames = WIDTHS.map(|width| {
            format!("<iframe width={width} height={HEIGHT} style=\"border:0;float:left\" srcdoc=\"{quoted}\"></iframe>")
        });
        let html = format!(
            "<!doctype html><body style=\"margin:0\">{}<pre id=measured hidden></pre><script>{MEASURE}</script>",
            frames.concat()
        );
        let harness = dir.join("harness.html");
        std::fs::write(&harness, html).unwrap();
        let wide: u32 = WIDTHS.iter().sum();
        let shot = dir.join(if dark { "dark.png" } else { "light.png" });
        let call = |what: &str| {
            let out = Command::new(browser)
                .args([
                    "--headless",
                    "--no-sandbox",
                    "--disable-gpu",
                    "--hide-scrollbars",
                    "--force-device-scale-factor=1",
                ])
                .args(["--disable-background-networking", "--no-first-run", "--disable-sync"])
                .args(["--virtual-time-budget=3000", &format!("--window-size={wide},{HEIGHT}")])
                .arg(format!("--blink-settings=preferredColorScheme={}", if dark { 0 } else { 1 }))
                .arg(format!("--user-data-dir={}", dir.join("profile").display()))
                .args([what, &format!("file://{}", harness.display())])
                .stdin(Stdio::null())
                .output()
                .unwrap();
            assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
            String::from_utf8_lossy(&out.stdout).into_owned()
        };
        let dom = call("--dump-dom");
        let measured = dom.split("id=\"measured\" hidden=\"\">").nth(1).unwrap().split("</pre>").next().unwrap();
        let frames = serde_json::from_str(measured).unwrap_or_else(|e| panic!("{e}: {measured}"));

        call(&format!("--screenshot={}", shot.display()));
        Self { frames, pixels: pixels(&std::fs::read(shot).unwrap(), wide as usize), wide }
    }

    fn check(&self, at: usize, width: u32, dark: bool) {
        let frame = &self.frames[at];
        let context = format!("{width} pixels wide, dark: {dark}");
        let number = |value: &Value| value.as_f64().unwrap();
        assert_eq!(number(&frame["width"]), f64::from(width), "{context}");
        assert!(number(&frame["scroll"]) <= f64::from(width), "{context}: something sticks out: {}", frame["out"]);
        assert_eq!(frame["out"], serde_json::json!([]), "{context}");
        assert!(number(&frame["height"]) < f64::from(HEIGHT), "{context}: {} pixels are not seen", frame["height"]);

        // Every section is there, one below the other, and has something in it.
        let sections = frame["sections"].as_array().unwrap();
        let names: Vec<&str> = sections.iter().map(|section| section["id"].as_str().unwrap()).collect();
        assert_eq!(names, SECTIONS, "{context}");
        let left: u32 = WIDTHS[..at].iter().sum();
        let mut below = 0.0;
        for section in sections {
            let [x, y, w, h] = ["x", "y", "w", "h"].map(|side| number(&section[side]));
            assert!(y >= below && h > 40.0, "{context}: {section}");
            below = y + h;
            let inked = self.colours(left, [x, y, w, h]);
            assert!(inked > 20, "{context}: {section} has {inked} colours");
        }

        // Text can be told from the paper (4.5 to 1, WCAG 2.2, 1.4.3), and the paper is what was asked for.
        let paper = self.pixels[(3 * self.wide + left + 3) as usize];
        assert_eq!(luminance(paper) < 0.2, dark, "{context}: the paper is {paper:?}");
        for text in frame["texts"].as_array().unwrap() {
            let colour: Vec<u8> =
                text["colour"].as_array().unwrap().iter().map(|c| c.as_u64().unwrap() as u8).collect();
            let contrast = contrast([colour[0], colour[1], colour[2]], paper);
            assert!(contrast >= 4.5, "{context}: {text} has a contrast of {contrast:.1}");
        }

        // The circles are drawn: their common part has another colour than either, and than the paper.
        let circles = frame["circles"].as_array().unwrap();
        let middles: Vec<[f64; 3]> = circles.iter().map(|c| ["cx", "cy", "r"].map(|of| number(&c[of]))).collect();
        let [a, b] = middles[..] else { panic!("{context}: {} circles", middles.len()) };
        let colour = |x: f64, y: f64| self.pixels[y as usize * self.wide as usize + left as usize + x as usize];
        let seen = [
            colour(a[0] - 0.8 * a[2], a[1]),
            colour((a[0] + a[2] + b[0] - b[2]) / 2.0, a[1]),
            colour(b[0] + 0.8 * b[2], b[1]),
            paper,
        ];
        for one in 0..4 {
            for other in 0..one {
                assert_ne!(seen[one], seen[other], "{context}: {seen:?}");
            }
        }
    }

    /// How many colours a box has.
    fn colours(&self, left: u32, [x, y, w, h]: [f64; 4]) -> usize {
        let rows = y as usize..(y + h) as usize;
        let row = |y: usize| {
            let from = y * self.wide as usize + left as usize + x as usize;
            &self.pixels[from..from + w as usize]
        };
        rows.flat_map(row).collect::<std::collections::HashSet<_>>().len()
    }
}

/// Relative luminance (WCAG 2.2).
fn luminance(colour: [u8; 3]) -> f64 {
    let linear = colour.map(|c| {
        let c = f64::from(c) / 255.0;
        if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
    });
    0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
}

fn contrast(a: [u8; 3], b: [u8; 3]) -> f64 {
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

/// Measures both frames.
const MEASURE: &str = r#"
const numbers = colour => colour.match(/[\d.]+/g).slice(0, 3).map(Number);
const measure = frame => {
  const view = frame.contentWindow, page = frame.contentDocument;
  const box = e => { const b = e.getBoundingClientRect(); return { x: b.x, y: b.y, w: b.width, h: b.height }; };
  const all = [...page.querySelectorAll('body *')];
  const circle = c => {
    const b = c.getBoundingClientRect();
    return { cx: b.x + b.width / 2, cy: b.y + b.height / 2, r: b.width / 2 };
  };
  const texts = new Map();
  all.filter(e => e.textContent.trim() && !e.children.length && !e.closest('svg')).forEach(e =>
    texts.set(e.localName + '.' + e.className, { what: e.localName + '.' + e.className, colour: numbers(view.getComputedStyle(e).color) }));
  return {
    width: view.innerWidth, scroll: page.documentElement.scrollWidth, height: page.body.getBoundingClientRect().height,
    sections: [...page.querySelectorAll('section')].map(e => ({ id: e.id, ...box(e) })),
    circles: [...page.querySelectorAll('circle')].map(circle),
    out: all.filter(e => box(e).x < -0.5 || box(e).x + box(e).w > view.innerWidth + 0.5).map(e => e.localName + '.' + e.className),
    texts: [...texts.values()],
  };
};
window.onload = () => document.getElementById('measured').textContent = JSON.stringify([...document.querySelectorAll('iframe')].map(measure));
"#;
