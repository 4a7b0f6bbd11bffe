//! Reports and the dashboard, as a browser shows them.

mod browser;
mod session;

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use crate::common::{Running, bluefin, expect, http_get, json, text};
use browser::Browser;
use session::planted;

/// A state file with the planted session.
async fn state(folder: &Path, problems: u64, candidates: u64) -> PathBuf {
    let path = folder.join("state.db");
    session::write(&path, problems, candidates).await;
    path
}

/// Its report, and where a browser finds that.
fn report_of(state: &Path) -> (PathBuf, String) {
    let path = state.with_file_name("report.html");
    expect(bluefin().args(["report", "--state"]).arg(state).arg("-o").arg(&path), 0);
    let url = format!("file://{}", path.display());
    (path, url)
}

/// A dashboard, and its address.
fn dashboard(state: &Path) -> (Running, String) {
    let mut command = bluefin();
    command.args(["dashboard", "--addr", "127.0.0.1:0", "--state"]).arg(state).stdout(Stdio::piped());
    let mut running = Running::start(&mut command);
    let mut line = String::new();
    BufReader::new(running.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (running, line.trim().to_string())
}

/// Nothing is wrong on the console, and nothing was asked for but what begins with `own`.
fn is_quiet(browser: &Browser, own: &str) {
    assert!(browser.complaints().is_empty(), "{:#?}", browser.complaints());
    let requests = browser.requests();
    assert!(requests.iter().all(|url| url.starts_with(own)), "{requests:?}");
}

/// Names are text: they are there to be read, and were not carried out.
fn planted_is_text(browser: &mut Browser) {
    assert_eq!(browser.ask("typeof window.planted"), "undefined");
    let inline = "[...document.scripts].filter(one => !one.src).length + document.querySelectorAll('main b').length";
    assert_eq!(browser.ask(inline), 0);
    let has = format!("document.querySelector('main').textContent.includes({})", json!(planted()));
    assert_eq!(browser.ask(&has), true);
}

/// Opens all that is folded.
const OPEN: &str = "[...document.querySelectorAll('details')].forEach(one => one.open = true)";

/// What keyboards and screen readers go by.
fn can_be_used_by_all(browser: &mut Browser) {
    let wrong = browser.ask(
        "(() => {
            const all = (what) => [...document.querySelectorAll(what)];
            const wrong = [];
            if (document.documentElement.lang !== 'en') wrong.push('lang');
            if (!document.title) wrong.push('title');
            for (const one of ['main', 'header', 'footer', 'nav[aria-label]', 'h1'])
                if (all(one).length !== 1) wrong.push(one);
            let level = 0;
            for (const heading of all('h1,h2,h3,h4')) {
                const now = Number(heading.tagName[1]);
                if (now > level + 1) wrong.push('heading ' + heading.textContent);
                level = now;
            }
            for (const svg of all('svg')) {
                const named = svg.getAttribute('role') === 'img' && svg.getAttribute('aria-label').length > 20;
                if (!named || !svg.querySelector(':scope > title') || !svg.querySelector(':scope > desc')) wrong.push(svg.outerHTML.slice(0, 80));
            }
            for (const table of all('table')) if (!table.querySelector('th[scope=col]')) wrong.push('table without heads');
            for (const one of all('.scroll')) if (one.tabIndex !== 0 || !one.getAttribute('aria-label')) wrong.push('scroll');
            if (all('[tabindex]').some((one) => one.tabIndex > 0)) wrong.push('tabindex');
            const ids = all('[id]').map((one) => one.id);
            if (new Set(ids).size !== ids.length) wrong.push('ids');
            for (const link of all('a[href^=\"#\"]')) if (!document.getElementById(link.hash.slice(1))) wrong.push(link.hash);
            return wrong;
        })()",
    );
    assert_eq!(wrong, json!([]));
    browser.press("Tab");
    let focus = browser.ask(
        "(() => { const at = document.activeElement; const style = getComputedStyle(at);
            return [at.className, style.outlineStyle, parseFloat(style.outlineWidth) >= 2, at.getBoundingClientRect().x >= 0]; })()",
    );
    assert_eq!(focus, json!(["skip", "solid", true, true]));
}

/// Contrast of all text that is shown, as the browser computes its colors, in this scheme.
fn can_be_read(browser: &mut Browser) {
    let least = browser.ask(
        "(() => {
            const parts = (color) => color.match(/[0-9.]+/g).slice(0, 3).map((part) => part / 255);
            const light = (color) => parts(color).map((p) => p <= 0.04045 ? p / 12.92 : ((p + 0.055) / 1.055) ** 2.4)
                .reduce((sum, p, at) => sum + p * [0.2126, 0.7152, 0.0722][at], 0);
            const ground = (one) => { for (; one; one = one.parentElement) {
                const color = getComputedStyle(one).backgroundColor;
                if (color !== 'rgba(0, 0, 0, 0)') return color; } return 'rgb(255, 255, 255)'; };
            const ratio = (one) => { const style = getComputedStyle(one);
                const [a, b] = [light(one.closest('svg') ? style.fill : style.color), light(ground(one))];
                return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05); };
            const told = [...document.querySelectorAll('h1,h2,h3,p,a,th,td,dt,dd,li,summary,svg text')];
            return told.map(ratio).reduce((a, b) => Math.min(a, b), 21);
        })()",
    );
    assert!(least.as_f64().unwrap() >= 4.5, "{least}");
}

/// What is written in charts is in them as a whole, and nothing is written over it. Each has two ticks at least that differ.
fn charts_can_be_read(browser: &mut Browser) {
    browser.ask(OPEN);
    let wrong = browser.ask(
        "(() => {
            const wrong = [];
            for (const svg of document.querySelectorAll('svg')) {
                const [name, box] = [svg.getAttribute('aria-label').slice(0, 40), svg.getBoundingClientRect()];
                if (box.width === 0) continue;
                const texts = [...svg.querySelectorAll('text')].map(one => [one.textContent, one.getBoundingClientRect()]);
                for (const [text, at] of texts)
                    if (at.left < box.left || at.right > box.right || at.top < box.top || at.bottom > box.bottom) wrong.push(`${name}: cut: ${text}`);
                texts.forEach(([text, at], index) => { for (const [other, over] of texts.slice(index + 1))
                    if (at.left < over.right && over.left < at.right && at.top + 2 < over.bottom && over.top + 2 < at.bottom) wrong.push(`${name}: ${text} over ${other}`); });
                const ticks = texts.filter(([text]) => /^[-+\\d]/.test(text)).length;
                if (ticks < 2) wrong.push(`${name}: ${ticks} ticks`);
            }
            return wrong.join('; ');
        })()",
    );
    assert_eq!(wrong, "");
}

fn fits_a_phone(browser: &mut Browser) {
    browser.window(390, 844);
    assert_eq!(browser.ask("document.documentElement.scrollWidth"), 390);
    browser.ask(OPEN);
    assert_eq!(browser.ask("document.documentElement.scrollWidth"), 390);
}

#[tokio::test]
async fn a_report_is_one_page_for_everybody() {
    let Some(mut browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (path, url) = report_of(&state(folder.path(), 12, 120).await);
    for scheme in ["light", "dark"] {
        browser.prefer(scheme, "screen");
        browser.open(&url);
        is_quiet(&browser, &url);
        assert_eq!(browser.requests(), [url.as_str()]);
        planted_is_text(&mut browser);
        can_be_used_by_all(&mut browser);
        can_be_read(&mut browser);
        charts_can_be_read(&mut browser);
        browser.ask("document.activeElement.blur(), window.scrollTo(0, 0)");
        browser.picture(&format!("report-{scheme}.png"));
        browser.open(&url);
        assert_eq!(browser.ask("document.querySelectorAll('.problem[open]').length"), 0);
        let opened = browser.ask(
            "new Promise((done) => { const link = document.querySelector('#problems tbody a'); link.click(); setTimeout(() => {
                const told = document.getElementById(link.hash.slice(1));
                done([document.querySelectorAll('.problem[open]').length, told.closest('details').open, told.getBoundingClientRect().top < 100]); }, 300); })",
        );
        assert_eq!(opened, json!([1, true, true]), "a link to a problem opens it");
        browser.ask("document.activeElement.blur()");
        browser.picture(&format!("report-problem-{scheme}.png"));
    }
    assert!(browser.ask("document.querySelectorAll('svg circle > title').length").as_u64().unwrap() > 100);
    browser.prefer("light", "screen");
    fits_a_phone(&mut browser);
    charts_can_be_read(&mut browser);
    let letters = "(() => { const box = document.querySelector('svg.narrow').getBoundingClientRect(); return 12 * box.width / 360; })()";
    assert!(browser.ask(letters).as_f64().unwrap() > 10.0, "letters are large enough");
    browser.open(&url);
    browser.picture("report-phone.png");
    browser.window(1000, 800);
    browser.prefer("dark", "print");
    assert_eq!(browser.ask("getComputedStyle(document.querySelector('nav')).display"), "none");
    assert_eq!(browser.ask("getComputedStyle(document.body).backgroundColor"), "rgb(255, 255, 255)");
    can_be_read(&mut browser);
    let size = std::fs::metadata(path).unwrap().len();
    assert!(size < 1_000_000, "{size}");
}

#[tokio::test]
async fn a_report_of_many_problems_with_long_names_is_two_pages_on_paper() {
    let Some(mut browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state.db");
    session::write_resnet(&state).await;
    let (_, url) = report_of(&state);
    browser.open(&url);
    assert_eq!(browser.ask("document.querySelectorAll('#problems tbody tr').length"), 69);
    browser.picture("resnet.png");
    let pdf = browser.paper("report.pdf");
    assert!(pdf.starts_with(b"%PDF-"));
    let pages = String::from_utf8_lossy(&pdf).matches("/Type /Page\n").count();
    assert_eq!(pages, 2, "pages on paper");
    for width in [768, 390] {
        browser.window(width, 844);
        let [whole, seen] = ["scrollWidth", "clientWidth"]
            .map(|side| browser.ask(&format!("document.querySelector('#problems .scroll').{side}")));
        assert_eq!(whole, seen, "all columns are seen at {width}");
        browser.picture(&format!("resnet-{width}.png"));
    }
}

#[tokio::test]
async fn a_hundred_thousand_candidates_open_at_once() {
    let Some(mut browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let state = state(folder.path(), 1000, 100).await;
    let (path, url) = report_of(&state);
    let took = browser.open(&url);
    let bytes = std::fs::metadata(path).unwrap().len();
    let elements = "document.querySelectorAll('*').length";
    let report = browser.ask(elements).as_u64().unwrap();
    println!("report: {bytes} bytes, {report} elements, open in {took:?}");
    let (_running, address) = dashboard(&state);
    let overview = browser.open(&address);
    let session = browser.open(&format!("{address}session/planted"));
    let again = browser.open(&format!("{address}session/planted"));
    let live = browser.ask(elements).as_u64().unwrap();
    println!("dashboard: {live} elements, overview {overview:?}, session {session:?}, again {again:?}");
    is_quiet(&browser, &address);
    // What a browser is given to do does not grow with the candidates; seconds are the machine's.
    assert!(bytes < 4_000_000 && report < 70_000 && live < 60_000, "{bytes} {report} {live}");
}

#[tokio::test]
async fn the_dashboard_shows_what_is_so_now() {
    let Some(mut browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let state = state(folder.path(), 30, 60).await;
    let (running, address) = dashboard(&state);
    for (place, name) in [("", "dashboard.png"), ("session/planted", "dashboard-session.png")] {
        let page = format!("{address}{place}");
        for scheme in ["light", "dark"] {
            browser.prefer(scheme, "screen");
            browser.open(&page);
            is_quiet(&browser, &address);
            planted_is_text(&mut browser);
            can_be_used_by_all(&mut browser);
            can_be_read(&mut browser);
        }
        browser.prefer("light", "screen");
        browser.ask("document.activeElement.blur()");
        browser.picture(name);
        fits_a_phone(&mut browser);
        browser.window(1000, 800);
    }
    browser.open(&address);
    assert_eq!(browser.ask("document.querySelector('[aria-label=workers] tbody').textContent.includes('ended')"), true);
    browser.open(&format!("{address}session/planted"));
    // A problem that is not told of at length in the report of its session has a page of its own.
    let link = browser.ask("[...document.links].find(link => link.pathname.split('/').length === 4).href");
    browser.open(link.as_str().unwrap());
    is_quiet(&browser, &address);
    assert_eq!(browser.ask("document.querySelectorAll('svg').length >= 3"), true);
    // What was made since is seen without loading again.
    browser.open(&address);
    let new = ["session", "new", "-l", "a new one", "--target", "host", "--name", "newer", "--state"];
    expect(bluefin().args(new).arg(&state), 0);
    let seen = "new Promise((done) => { const look = () =>
        document.querySelector('main').textContent.includes('a new one') ? done(true) : setTimeout(look, 100); look(); })";
    assert_eq!(browser.ask(seen), true);
    // Its making is among what happened; ages are in words; charts are drawn, and one session is found by a word of its label.
    let happened = "[...document.querySelectorAll('.feed li')].map(one => one.textContent).join('; ')";
    let told = browser.ask(happened);
    assert!(told.as_str().unwrap().contains("newer made"), "{told}");
    let ages = browser
        .ask("[...document.querySelectorAll('time')].filter(one => !/( ago|now)$/.test(one.textContent)).length");
    assert_eq!(ages, 0);
    // There is no broker, and the one worker has ended: nothing is drawn of what is not known.
    let drawn = "new Promise((done) => { const look = () => { const charts = [...document.querySelectorAll('#charts [role=img]')];
        charts.length ? done(charts.map(one => [one.querySelectorAll('canvas').length, one.getAttribute('aria-label')])) : setTimeout(look, 100); }; look(); })";
    assert_eq!(
        browser.ask(drawn),
        json!([[1, "candidates a minute, of each 15 s over the last hour, now: all 0, failed 0"]])
    );
    let found = browser.ask(
        "(() => { const box = document.querySelector('#filter'); box.value = 'A NEW one'; box.dispatchEvent(new Event('input'));
            return [[...document.querySelectorAll('[aria-label=sessions] tbody tr')].filter(row => !row.hidden).map(row => row.querySelector('a').textContent), location.hash]; })()",
    );
    assert_eq!(found, json!([["newer"], "#find=A%20NEW%20one"]));
    is_quiet(&browser, &address);
    // Who looks does not keep it from its end.
    running.signal(Signal::TERM);
    assert_eq!(running.wait(Duration::from_secs(20)), Some(0));
}

/// What is said to `GET path` with these header lines.
fn get(port: u16, path: &str, lines: &str) -> String {
    use std::io::{Read as _, Write as _};
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\n{lines}Connection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[tokio::test]
async fn only_who_may_look_looks() {
    let folder = tempfile::tempdir().unwrap();
    let state = state(folder.path(), 1, 8).await;
    let open = ["dashboard", "--addr", "0.0.0.0:0", "--state"];
    assert!(text(&expect(bluefin().args(open).arg(&state), 2).stderr).contains("--token @FILE"));
    let (_running, address) = dashboard(&state);
    let port = address.trim_end_matches('/').rsplit(':').next().unwrap().parse().unwrap();
    assert!(http_get(port, "/").starts_with("HTTP/1.1 421"), "a name of somebody else's");
    let page = get(port, "/", "Host: localhost\r\n");
    for line in ["HTTP/1.1 200", "x-content-type-options: nosniff", "cache-control: no-store", "frame-ancestors 'none'"]
    {
        assert!(page.contains(line), "{line}: {page}");
    }
    assert!(get(port, "/session/none", "Host: localhost\r\n").starts_with("HTTP/1.1 404"));

    let mut command = bluefin();
    command.args(open).arg(&state).env("BLUEFIN_DASHBOARD_TOKEN", "a-token-of-some-length").stdout(Stdio::piped());
    let mut running = Running::start(&mut command);
    let mut line = String::new();
    BufReader::new(running.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let port = line.trim().trim_end_matches('/').rsplit(':').next().unwrap().parse().unwrap();
    assert!(get(port, "/session/planted", "Host: 10.0.0.1\r\n").starts_with("HTTP/1.1 401"));
    let wrong = "Host: 10.0.0.1\r\nAuthorization: Bearer another-of-some-length\r\n";
    assert!(get(port, "/", wrong).starts_with("HTTP/1.1 401"));
    let right = "Host: 10.0.0.1\r\nAuthorization: Bearer a-token-of-some-length\r\n";
    assert!(get(port, "/session/planted", right).starts_with("HTTP/1.1 200"));
    if let Some(mut browser) = Browser::start() {
        browser.open(&format!("http://127.0.0.1:{port}/"));
        browser.ask("document.querySelector('input').focus()");
        browser.call("Input.insertText", json!({ "text": "a-token-of-some-length" }));
        browser.press("Enter");
        let mut shown = browser.ask("document.querySelector('h1')?.textContent ?? ''");
        for _ in 0..100 {
            if shown == "Sessions" {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
            shown = browser.ask("document.querySelector('h1')?.textContent ?? ''");
        }
        assert_eq!(shown, "Sessions");
        assert_eq!(browser.ask("document.cookie"), "", "no script reads it");
    }
}

#[tokio::test]
async fn the_same_as_data_and_two_compared() {
    let folder = tempfile::tempdir().unwrap();
    let state = state(folder.path(), 5, 60).await;
    let data_of = |arguments: &[&str]| json(&expect(bluefin().arg("report").args(arguments).arg("--json"), 0));
    let path = state.to_str().unwrap();
    let found = data_of(&["--state", path]);
    assert_eq!((&found["groups"], &found["candidates"]), (&json!(5), &json!(300)));
    assert_eq!(found["problems"]["kept"].as_array().unwrap().len(), 5);
    assert_eq!(found["failures"]["compile_error"]["candidates"], 10);
    assert_eq!(found["time"]["known"], 5);
    assert_eq!(found["time"]["waited_to_compile_ms"], 500);
    let itself = data_of(&["--compare", path, path]);
    assert_eq!((&itself["winners"]["tied"], &itself["winners"]["mean_speedup"]), (&json!(5), &json!(1.0)));
    let Some(mut browser) = Browser::start() else { return };
    let page = folder.path().join("compared.html");
    expect(bluefin().args(["report", "--compare", path, path, "-o"]).arg(&page), 0);
    browser.open(&format!("file://{}", page.display()));
    can_be_used_by_all(&mut browser);
    can_be_read(&mut browser);
    charts_can_be_read(&mut browser);
    browser.ask("document.activeElement.blur()");
    browser.picture("compared.png");
    fits_a_phone(&mut browser);
    let nowhere = expect(bluefin().args(["report", "--compare", path, "nowhere", "--state", path]), 1);
    assert!(text(&nowhere.stderr).contains("no file, session or release"), "{nowhere:?}");
}
