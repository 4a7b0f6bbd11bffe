//! A fresh virtual host: as good as a broker of one's own for a test that does not kill it, in some milliseconds.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::Rabbit;
use crate::rabbit::Node;

/// The folder of a running RabbitMQ that the tests of several processes share; `tests/servers` sets it.
const SHARED: &str = "BLUEFIN_TEST_RABBIT_DIR";

/// Who may do everything, in Erlang.
const USER: &str = "<<\"guest\">>";

/// An empty virtual host of a shared RabbitMQ.
#[derive(Debug)]
pub struct Vhost {
    name: String,
    node: Node,
    /// The broker of this process, where no other was given: it ends with its last virtual host.
    _own: Option<Arc<Rabbit>>,
}

impl Vhost {
    /// Makes one, on the broker that `tests/servers` started or else on one of this process.
    pub fn fresh() -> Self {
        let (node, own) = match std::env::var_os(SHARED) {
            Some(folder) => (Node::open(&PathBuf::from(folder)), None),
            None => {
                let rabbit = rabbit_of_this_process();
                (rabbit.node().clone(), Some(rabbit))
            }
        };
        let name = unused_name();
        let added = node.evaluate(&format!(
            "ok = rabbit_vhost:add(<<\"{name}\">>, {USER}), rabbit_auth_backend_internal:set_permissions({USER}, \
             <<\"{name}\">>, <<\".*\">>, <<\".*\">>, <<\".*\">>, {USER})."
        ));
        assert_eq!(added, "ok", "the virtual host {name}");
        Self { name, node, _own: own }
    }

    /// `amqp://guest:guest@127.0.0.1:PORT/NAME`
    pub fn url(&self) -> String {
        self.node.url(&self.name)
    }

    /// Runs `rabbitmqctl COMMAND --vhost NAME args` and returns what it printed.
    ///
    /// # Panics
    /// When the command fails.
    pub fn ctl(&self, command: &str, args: &[&str]) -> String {
        self.node.ctl(&[&[command, "--vhost", &self.name], args].concat())
    }
}

fn rabbit_of_this_process() -> Arc<Rabbit> {
    static OWN: Mutex<Weak<Rabbit>> = Mutex::new(Weak::new());
    // A start that failed has panicked under the lock; the next caller may try again.
    let mut own = OWN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    own.upgrade().unwrap_or_else(|| {
        let rabbit = Arc::new(Rabbit::start());
        *own = Arc::downgrade(&rabbit);
        rabbit
    })
}

fn unused_name() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).expect("now is after 1970").as_nanos();
    format!("test-{}-{nanos}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}
