//! Every key that bluefin has in Redis. The table is in the documentation of [`super`].

use bluefin_common::digest::Digest;
use bluefin_common::job::GroupId;
use bluefin_common::session::SessionName;

/// Hash of all sessions.
pub(super) const SESSIONS: &str = "bluefin:sessions";

/// Written to be replicated, see [`super::link`].
pub(super) const MARK: &str = "bluefin:blob:mark";

pub(super) fn shelf(shelf: &str) -> String {
    format!("bluefin:shelf:{shelf}")
}

pub(super) fn blob(digest: Digest) -> String {
    format!("bluefin:blob:{digest}")
}

pub(super) fn artifact(digest: Digest) -> String {
    format!("bluefin:cas:{digest}")
}

pub(super) fn compiled(key: Digest) -> String {
    format!("bluefin:ac:{key}")
}

/// Keys of one session. Its name has no colon, so that no two keys can be the same.
#[derive(Clone, Copy)]
pub(super) struct SessionKeys<'a>(pub &'a SessionName);

impl SessionKeys<'_> {
    pub fn pins(self) -> String {
        self.key("pins")
    }

    pub fn jobs(self) -> String {
        self.key("jobs")
    }

    pub fn open(self) -> String {
        self.key("open")
    }

    pub fn unsettled(self) -> String {
        self.key("unsettled")
    }

    pub fn stats(self) -> String {
        self.key("stats")
    }

    pub fn best(self) -> String {
        self.key("best")
    }

    pub fn group(self, group: GroupId) -> String {
        format!("bluefin:session:{}:group:{group}", self.0)
    }

    fn key(self, last: &str) -> String {
        format!("bluefin:session:{}:{last}", self.0)
    }
}
