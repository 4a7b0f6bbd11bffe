//! Counters of what is under way in memory, and waits for them.

/// What `s_waitcnt` waits for: at most so many of each kind may be under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wait {
    pub vector: Option<u8>,
    pub scalar: Option<u8>,
    pub stores: Option<u8>,
    /// Of LDS alone, and of scalar memory alone, where they are counted apart.
    pub lds: Option<u8>,
    pub constants: Option<u8>,
    /// Of vector memory without samples of images, and of those alone, where they are counted apart.
    pub loads: Option<u8>,
    pub samples: Option<u8>,
}

/// One of the orders in which what is under way returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counter {
    Vector,
    /// Vector memory too; samples of images return in order among themselves only.
    Sampler,
    Scalar,
}
