//! The dashboard: sessions, queues, failures and reports of a store, over HTTP. It reads, and changes nothing.

mod feed;
mod found;
mod guard;
mod history;
mod overview;
mod watch;

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use bluefin_common::digest::Digest;
use bluefin_common::session::{Pins, Session, SessionName};
use bluefin_common::store::{Progress, Store};
use bluefin_exporter::ExportError;
use bluefin_exporter::report::{Report, Scope, report};
use futures_util::stream::{self, Stream, StreamExt as _};
use maud::{Markup, html};
use tokio::net::TcpListener;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use guard::{Hosts, Token};

use crate::page::Page;
use watch::{Look, Watch};

/// For the store to answer.
const REACH: Duration = Duration::from_secs(5);
/// Reports that are kept.
const KEPT: usize = 16;
/// A report of a session that goes on is made again when it is this much older than it took to make.
const PATIENCE: u32 = 10;
const SCRIPT: &str = include_str!("dashboard/live.js");
/// Charts that answer to the pointer: see `dashboard/uplot`.
const CHARTS: &str = include_str!("dashboard/uplot/uPlot.iife.min.js");
const CHARTS_STYLE: &str = include_str!("dashboard/uplot/uPlot.min.css");

/// What is around the store: queues wait elsewhere.
#[async_trait]
pub trait Around: Send + Sync + 'static {
    /// Messages that wait, by queue; `None` where there is no broker, an error in words where it does not answer.
    async fn queues(&self, sessions: &[(Session, Pins)]) -> Option<Result<BTreeMap<String, u64>, String>>;
    /// How often problems are asked for, by digest; nothing where that is not known.
    async fn counts(&self) -> HashMap<Digest, u64>;
}

/// What the dashboard looks at.
pub struct Dashboard {
    store: Arc<dyn Store>,
    around: Arc<dyn Around>,
    watch: Watch,
    reports: Mutex<HashMap<SessionName, Kept>>,
    ending: CancellationToken,
}

/// A report that was made.
struct Kept {
    progress: Progress,
    made: Instant,
    took: Duration,
    page: Arc<str>,
}

type Shared = State<Arc<Dashboard>>;

impl Dashboard {
    #[must_use]
    pub fn new(store: Arc<dyn Store>, around: Arc<dyn Around>) -> Self {
        let watch = Watch::new(Arc::clone(&store), Arc::clone(&around));
        Self { store, around, watch, reports: Mutex::new(HashMap::new()), ending: CancellationToken::new() }
    }

    /// Serves requests for one of `hosts` that know the `token`, where there is one, until `shutdown`.
    ///
    /// # Errors
    /// If the listener fails.
    pub async fn serve(
        mut self,
        listener: TcpListener,
        hosts: Hosts,
        token: Option<Token>,
        shutdown: CancellationToken,
    ) -> std::io::Result<()> {
        self.ending = shutdown.clone();
        let dashboard = Arc::new(self);
        let file =
            |kind: &'static str, text: &'static str| get(move || async move { ([(header::CONTENT_TYPE, kind)], text) });
        let router = Router::new()
            .route("/", get(overview))
            .route("/session/{name}", get(session))
            .route("/session/{name}/{problem}", get(problem))
            .route("/events", get(events))
            .route("/session/{name}/events", get(session_events))
            .route("/live.js", file("text/javascript", SCRIPT))
            .route("/uplot.js", file("text/javascript", CHARTS))
            .route("/uplot.css", file("text/css", CHARTS_STYLE))
            .with_state(Arc::clone(&dashboard));
        let router = guard::guarded(router, hosts, token);
        let serving = axum::serve(listener, router).with_graceful_shutdown(shutdown.clone().cancelled_owned());
        tokio::select! {
            served = async { serving.await } => served,
            () = dashboard.watch.run() => Ok(()),
            // A connection that is kept open keeps nobody.
            () = async { shutdown.cancelled().await; tokio::time::sleep(Duration::from_secs(2)).await } => Ok(()),
        }
    }

    /// Every look from the last on, until the dashboard ends.
    fn looks(&self) -> impl Stream<Item = Arc<Look>> + use<> {
        let looks = stream::unfold((self.watch.looks(), true), |(mut looks, first)| async move {
            if !first {
                looks.changed().await.ok()?;
            }
            let look = looks.borrow_and_update().clone();
            Some((look, (looks, false)))
        });
        looks.filter_map(|look| async { look }).take_until(self.ending.clone().cancelled_owned())
    }

    async fn report(&self, name: &SessionName, scope: Scope) -> Result<Report, ExportError> {
        let counts = self.around.counts().await;
        report(&*self.store, name, Scope { counts, ..scope }).await
    }

    /// The report of a session: the one that is kept while nothing has happened since.
    async fn session_page(&self, name: &SessionName) -> Result<Arc<str>, ExportError> {
        let progress = self.store.progress(name).await?;
        // Held while one is made: two who ask for the same wait for one.
        let mut reports = self.reports.lock().await;
        if let Some(kept) = reports.get(name)
            && (kept.progress == progress || kept.made.elapsed() < kept.took * PATIENCE)
        {
            return Ok(Arc::clone(&kept.page));
        }
        let begun = Instant::now();
        let found = self.report(name, Scope { details: 12, rows: 500, ..Scope::default() }).await?;
        let place = |problem: &str| format!("/session/{name}/{problem}");
        let page = page(&format!("Session {name}"), crate::report::parts(), true, crate::report(&found, Some(&place)));
        if reports.len() >= KEPT
            && let Some(oldest) = reports.iter().min_by_key(|(_, kept)| kept.made).map(|(name, _)| name.clone())
        {
            reports.remove(&oldest);
        }
        let page: Arc<str> = page.into();
        let kept = Kept { progress, made: Instant::now(), took: begun.elapsed(), page: Arc::clone(&page) };
        reports.insert(name.clone(), kept);
        Ok(page)
    }
}

fn page(title: &str, parts: Vec<(String, String)>, live: bool, content: Markup) -> String {
    let mut links = vec![("/".to_string(), "All sessions".to_string())];
    links.extend(parts);
    Page { title, links: &links, live, content }.html()
}

async fn overview(State(dashboard): Shared) -> Html<String> {
    Html(match dashboard.watch.now().await {
        Some(look) => first_page(&look),
        None => page("bluefin", Vec::new(), true, html! { h1 { "Sessions" } p.bad role="alert" { "away" } }),
    })
}

fn first_page(look: &Look) -> String {
    page("bluefin", Vec::new(), true, overview::page(look))
}

/// Server-sent events of the first page: `page` where it is another one than before, and `points` for its charts.
async fn events(State(dashboard): Shared) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let mut before = (String::new(), None);
    let told = dashboard.looks().flat_map(move |look| {
        let mut events = Vec::new();
        let page = first_page(&look);
        if page != before.0 {
            // JSON, as an event is lines.
            events.push(Event::default().event("page").data(serde_json::Value::from(page.as_str()).to_string()));
            before.0 = page;
        }
        let last = look.points.last().map(|point| point.at);
        if before.1 != Some(last) {
            let points = serde_json::to_string(&look.points).unwrap_or_default();
            events.push(Event::default().event("points").data(points));
            before.1 = Some(last);
        }
        stream::iter(events.into_iter().map(Ok))
    });
    Sse::new(told).keep_alive(KeepAlive::default())
}

/// Server-sent events of a session's page: `changed` where something happened to it since.
async fn session_events(
    State(dashboard): Shared,
    Path(name): Path<String>,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let mut before = None;
    let told = dashboard.looks().filter_map(move |look| {
        let found = look.found.as_ref().ok();
        let now = found.and_then(|found| found.sessions.iter().find(|(session, _)| session.name.as_str() == name));
        let now = now.map(|(_, progress)| progress.clone());
        let differs = now.is_some() && now != before;
        if differs {
            before = now;
        }
        let event = differs.then(|| Ok(Event::default().event("changed").data("now")));
        async move { event }
    });
    Sse::new(told).keep_alive(KeepAlive::default())
}

async fn session(State(dashboard): Shared, Path(name): Path<String>, headers: HeaderMap) -> Response {
    let Ok(name) = name.parse::<SessionName>() else { return missing() };
    match dashboard.session_page(&name).await {
        Ok(page) => {
            let tag = format!("\"{}\"", Digest::of(page.as_bytes()).short());
            if headers.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes()) {
                return StatusCode::NOT_MODIFIED.into_response();
            }
            ([(header::ETAG, tag)], Html(page.to_string())).into_response()
        }
        Err(error) => failed(&error),
    }
}

async fn problem(State(dashboard): Shared, Path((name, problem)): Path<(String, String)>) -> Response {
    let (Ok(name), Ok(digest)) = (name.parse::<SessionName>(), problem.parse::<Digest>()) else { return missing() };
    let scope = Scope { only: Some(digest), rows: 0, ..Scope::default() };
    match dashboard.report(&name, scope).await {
        // A worker may be at its first job.
        Ok(found) if found.details.iter().len() == 0 => nothing("No job of such a problem is done yet."),
        Ok(found) => {
            let content = html! {
                h1 { "Session " (name) }
                h2 { "One problem" }
                @for detail in found.details.iter() { (crate::problem::problem(detail, true)) }
            };
            let session = vec![(format!("/session/{name}"), format!("Session {name}"))];
            Html(page(&format!("Session {name}"), session, false, content)).into_response()
        }
        Err(error) => failed(&error),
    }
}

fn missing() -> Response {
    nothing("There is nothing of that name.")
}

fn nothing(why: &str) -> Response {
    let content = html! { h1 { "Not here" } p { (why) } };
    (StatusCode::NOT_FOUND, Html(page("Not here", Vec::new(), false, content))).into_response()
}

fn failed(error: &ExportError) -> Response {
    if matches!(error, ExportError::NoSession { .. }) {
        return missing();
    }
    tracing::warn!(%error, "a page could not be made");
    let content = html! { h1 { "Not now" } p.bad role="alert" { (error) } };
    (StatusCode::SERVICE_UNAVAILABLE, Html(page("Not now", Vec::new(), false, content))).into_response()
}
