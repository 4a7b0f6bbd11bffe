//! Every key that bluefin has in Redis. The table is in the documentation of [`super`].

use bluefin_common::digest::Digest;
use bluefin_common::job::{GroupId, JobId};
use bluefin_common::session::SessionName;

/// Hash of all sessions.
pub(super) const SESSIONS: &str = "bluefin:sessions";

/// Field of a session's stats: how often it was given work.
pub(super) const TOUCHED: &str = "touched";

/// Written to be replicated, see [`super::link`].
pub(super) const MARK: &str = "bluefin:blob:mark";

pub(super) fn shelf(shelf: &str) -> String {
    format!("bluefin:shelf:{shelf}")
}

pub(super) fn blob(digest: Digest) -> String {
    format!("bluefin:blob:{digest}")
}

/// Matches every blob.
pub(super) fn blob_pattern() -> String {
    "bluefin:blob:*".to_string()
}

pub(super) fn digest_of_blob(key: &str) -> Option<Digest> {
    key.strip_prefix("bluefin:blob:")?.parse().ok()
}

/// The shelf that is under `key`.
pub(super) fn shelf_of(key: &str) -> Option<&str> {
    key.strip_prefix("bluefin:shelf:")
}

/// Matches what there is of every session, its shelves left out.
pub(super) fn session_pattern() -> String {
    "bluefin:session:*".to_string()
}

/// The session that `key` is of.
pub(super) fn session_of(key: &str) -> Option<SessionName> {
    key.strip_prefix("bluefin:session:")?.split(':').next()?.parse().ok()
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

impl<'a> SessionKeys<'a> {
    pub fn pins(self) -> String {
        self.key("pins")
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

    pub fn plan(self) -> PlanKeys<'a> {
        PlanKeys(self)
    }

    fn key(self, last: &str) -> String {
        format!("bluefin:session:{}:{last}", self.0)
    }
}

/// Buckets of a plan. With a million jobs there are some 75 entries in each; Redis packs a hash of up to 128, in a third of the
/// memory (`hash-max-listpack-entries`).
const BUCKETS: u16 = 1 << 14;

/// The name of a group among the unsettled, which are counted and never listed.
pub(super) fn unsettled_name(group: &GroupId) -> &[u8] {
    group.0.first_chunk::<16>().map_or(&[], |first| first)
}

/// The bucket of a job or a group: a plan is many small hashes, each with the jobs and groups whose ids begin alike.
pub(super) fn bucket(id: Digest) -> u16 {
    let Digest([first, second, ..]) = id;
    u16::from_be_bytes([first, second]) % BUCKETS
}

/// Keys of the plan of a session.
#[derive(Clone, Copy)]
pub(super) struct PlanKeys<'a>(SessionKeys<'a>);

impl PlanKeys<'_> {
    /// The hash that `job` is in.
    pub fn job(self, job: JobId) -> String {
        self.hash(bucket(job))
    }

    /// The hash that `group` is in.
    pub fn open(self, group: GroupId) -> String {
        self.hash(bucket(group))
    }

    /// The bitmap of the buckets in use.
    pub fn buckets(self) -> String {
        self.0.key("plan")
    }

    /// All hashes, of which `bitmap` says which buckets are in use.
    pub fn hashes(self, bitmap: &[u8]) -> Vec<String> {
        let is_used = |bucket: &u16| {
            let byte = bitmap.get(usize::from(bucket / 8)).copied().unwrap_or(0);
            byte & (0x80 >> (bucket % 8)) != 0
        };
        (0..BUCKETS).filter(is_used).map(|bucket| self.hash(bucket)).collect()
    }

    fn hash(self, bucket: u16) -> String {
        format!("bluefin:session:{}:plan:{bucket:04x}", self.0.0)
    }
}
