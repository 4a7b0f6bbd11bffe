//! `bluefin dashboard`: sessions, queues, failures and reports in a browser.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use async_trait::async_trait;
use bluefin_campaign::fleet::queues::queue_names;
use bluefin_campaign::ports::{FleetArgs, StoreArgs};
use bluefin_common::broker::Broker;
use bluefin_common::digest::Digest;
use bluefin_common::session::{Pins, Session};
use bluefin_common::shutdown::on_signal;
use bluefin_common::store::Store;
use bluefin_pages::dashboard::{Around, Dashboard, Hosts, Token};
use bluefin_terminal::out;
use tokio::net::TcpListener;
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::report;

/// For the broker to answer.
const REACH: Duration = Duration::from_secs(3);
const TOKEN: &str = "BLUEFIN_DASHBOARD_TOKEN";

/// Show sessions, queues, failures and reports in a browser, as they are now; it changes nothing
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  bluefin dashboard --state bluefin.db\n  \
    bluefin dashboard --addr 0.0.0.0:8080 --host tuner.example --token @dashboard.token\n\n\
    Elsewhere than on loopback it wants a token of 16 characters or more, which whoever looks is asked for (or sends as \
    Authorization: Bearer). It speaks plain HTTP: put a proxy with TLS before it.")]
pub struct DashboardArgs {
    /// Where to serve
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8080")]
    addr: SocketAddr,
    /// A file that holds the token [env: BLUEFIN_DASHBOARD_TOKEN, the token itself]
    #[arg(long, value_name = "@FILE", value_parser = of_file)]
    token: Option<String>,
    /// A further name of this machine that browsers may ask for
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    #[command(flatten)]
    store: StoreArgs,
}

/// Takes a file: the process list shows what is on the command line.
fn of_file(text: &str) -> Result<String, String> {
    text.strip_prefix('@').map(str::to_string).ok_or_else(|| "expected @FILE: a token shows in the process list".into())
}

impl DashboardArgs {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let token = self.token()?;
        if !self.addr.ip().is_loopback() && token.is_none() {
            let message = format!("--addr {}: others can reach it: pass --token @FILE or set {TOKEN}", self.addr);
            return Err(crate::usage(message));
        }
        let shutdown = on_signal()?;
        let opened = self.store.open_to_read().await?;
        let listener = TcpListener::bind(self.addr).await.with_context(|| format!("--addr {}", self.addr))?;
        let address = listener.local_addr()?;
        out::line(format_args!("http://{address}/"))?;
        let around =
            Fleet { store: Arc::clone(&opened.store), args: self.store.fleet.clone(), broker: Mutex::new(None) };
        let around = Arc::new(around);
        let dashboard = Dashboard::new(Arc::clone(&opened.store), around.clone());
        dashboard.serve(listener, Hosts::new(address, self.host), token, shutdown).await?;
        if let Some(broker) = around.broker.lock().await.take() {
            broker.close().await;
        }
        opened.close().await;
        Ok(ExitCode::SUCCESS)
    }

    fn token(&self) -> anyhow::Result<Option<Token>> {
        let (source, text) = match (&self.token, std::env::var(TOKEN)) {
            (Some(path), _) => {
                let text = std::fs::read_to_string(path).with_context(|| format!("--token @{path}"))?;
                ("--token", text.trim().to_string())
            }
            (None, Ok(text)) => (TOKEN, text),
            (None, Err(_)) => return Ok(None),
        };
        let token = Token::new(&text);
        let expected = || crate::usage(format!("{source}: expected 16 visible characters or more"));
        token.ok_or_else(expected).map(Some)
    }
}

/// The fleet around the store.
struct Fleet {
    store: Arc<dyn Store>,
    args: FleetArgs,
    broker: Mutex<Option<Arc<dyn Broker>>>,
}

impl Fleet {
    async fn depths(&self, sessions: &[(Session, Pins)]) -> anyhow::Result<BTreeMap<String, u64>> {
        let mut broker = self.broker.lock().await;
        let broker = match &mut *broker {
            Some(broker) => broker,
            none => none.insert(self.args.broker().await?),
        };
        let mut depths = BTreeMap::new();
        for name in queue_names(sessions.iter().map(|(session, pins)| (session, pins))) {
            let depth = broker.depth(&name).await?;
            depths.insert(name, depth);
        }
        Ok(depths)
    }
}

#[async_trait]
impl Around for Fleet {
    async fn queues(&self, sessions: &[(Session, Pins)]) -> Option<Result<BTreeMap<String, u64>, String>> {
        if !self.args.names_a_broker() {
            return None;
        }
        Some(match timeout(REACH, self.depths(sessions)).await {
            Ok(depths) => depths.map_err(|error| error.to_string()),
            Err(_) => Err(format!("broker: no answer within {} s", REACH.as_secs())),
        })
    }

    async fn counts(&self) -> HashMap<Digest, u64> {
        // A page without weights is better than none.
        report::counts(&*self.store).await.unwrap_or_default()
    }
}
