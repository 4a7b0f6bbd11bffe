//! A queue of the embedded broker, and what is in it.

use std::ops::Deref;

use bluefin_common::broker::GivenUp;
use bytes::Bytes;

use crate::line::{Line, Rank, Waits};

pub(super) struct Queue {
    pub(super) name: String,
    line: Line<Message>,
}

pub(super) struct Message {
    pub(super) id: String,
    pub(super) body: Bytes,
    pub(super) redeliveries: u32,
    pub(super) given_up: Option<GivenUp>,
}

impl Message {
    pub(super) fn new(id: &str, body: Bytes) -> Self {
        Self { id: id.to_owned(), body, redeliveries: 0, given_up: None }
    }

    /// The same, as if it had never been delivered.
    pub(super) fn anew(self, given_up: Option<GivenUp>) -> Self {
        Self { redeliveries: 0, given_up: given_up.or(self.given_up), ..self }
    }
}

impl Waits for Message {
    fn body(&self) -> &[u8] {
        &self.body
    }
}

impl Queue {
    pub(super) fn new(name: &str, rank: Rank) -> Self {
        Self { name: name.to_owned(), line: Line::new(rank) }
    }
}

impl Deref for Queue {
    type Target = Line<Message>;

    fn deref(&self) -> &Line<Message> {
        &self.line
    }
}
