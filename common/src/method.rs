//! Methods: the kinds of work that there are. A session and its jobs name one, and whatever depends on it (queues, what
//! follows the perf stage, who evaluates) is said by its [`MethodInfo`], in one table.

use std::fmt;
use std::ops::Deref;
use std::str::FromStr;
use std::sync::OnceLock;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The toolchain of kernel specs whose solvers are some clang's and some Triton's: its jobs are for workers that have both compilers, as a
/// play-off has candidates of both, and both are checked by one reference.
pub const CLANG_AND_TRITON: &str = "clang+triton";

/// What is known of a method.
#[derive(Debug, PartialEq, Eq)]
pub struct MethodInfo {
    /// In sessions, jobs and queues, and on command lines.
    pub name: &'static str,
    /// For help texts, in a few words.
    pub about: &'static str,
    /// Toolchains that compile its jobs, each with a queue of its own for each target; none if everything happens where it is evaluated.
    pub toolchains: &'static [&'static str],
    /// Decides which queues its evaluations wait in.
    pub evaluated_by: EvaluatedBy,
    /// Decides what follows the perf stage of a group.
    pub find: FindJobs,
}

/// Who evaluates the jobs of a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvaluatedBy {
    /// Any device of their target: they wait in the queue of the target.
    Device,
    /// A tool that not every machine with such a device has: they wait in a queue of the target and the method.
    Tool,
}

/// Where the find jobs of a method come from, and how its winner is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FindJobs {
    /// One job follows the perf stage of a group, the play-off: the best candidate of every solver, and what may be faster,
    /// timed against each other. Among ties default params win.
    PlayOff,
    /// A job follows for each solver that was tuned, with its best params, as the tool times one solver at a time. The
    /// fastest wins, whatever the distance to the next.
    EachSolver,
    /// They are planned at once: what evaluates them tunes and times in one go. The fastest wins.
    Planned,
}

static KERNELS: MethodInfo = MethodInfo {
    name: "kernels",
    about: "kernel specs: those that bluefin ships and your own",
    toolchains: &["cc", "clang", "triton", CLANG_AND_TRITON, "noop"],
    evaluated_by: EvaluatedBy::Device,
    find: FindJobs::PlayOff,
};

static FIN: MethodInfo = MethodInfo {
    name: "fin",
    about: "MIOpen's solvers, through fin",
    toolchains: &["fin"],
    evaluated_by: EvaluatedBy::Tool,
    find: FindJobs::EachSolver,
};

static MIOPENDRIVER: MethodInfo = MethodInfo {
    name: "miopendriver",
    about: "MIOpen's solvers, through MIOpenDriver",
    toolchains: &[],
    evaluated_by: EvaluatedBy::Tool,
    find: FindJobs::Planned,
};

static AITER: MethodInfo = MethodInfo {
    name: "aiter",
    about: "shapes of aiter's operators, through aiter's own tuners",
    toolchains: &[],
    evaluated_by: EvaluatedBy::Tool,
    find: FindJobs::Planned,
};

/// Those that bluefin ships.
static SHIPPED: [&MethodInfo; 4] = [&KERNELS, &FIN, &MIOPENDRIVER, &AITER];
/// Those that a program brings beside them.
static BROUGHT: OnceLock<Vec<&'static MethodInfo>> = OnceLock::new();

/// A method, by its name.
#[derive(Clone, Copy)]
pub struct Method(&'static MethodInfo);

impl Method {
    /// Kernel specs: compiled by bluefin's own toolchains, evaluated by any device of their target.
    pub const KERNELS: Self = Self(&KERNELS);
    /// MIOpen's solvers, tuned by fin, which compiles in one step and evaluates in another.
    pub const FIN: Self = Self(&FIN);
    /// MIOpen's solvers, tuned by MIOpenDriver, which compiles where it evaluates.
    pub const MIOPENDRIVER: Self = Self(&MIOPENDRIVER);
    /// Shapes of aiter's operators, tuned by aiter's scripts, which compile and time all kernels of a shape.
    pub const AITER: Self = Self(&AITER);

    /// All methods, in a fixed order.
    #[must_use]
    pub fn all() -> Vec<Self> {
        SHIPPED.iter().chain(BROUGHT.get().into_iter().flatten()).map(|info| Self(info)).collect()
    }

    /// The method of which `info` is what is known. Names are looked up among those that were [brought](Self::bring).
    #[must_use]
    pub const fn of(info: &'static MethodInfo) -> Self {
        Self(info)
    }

    /// Adds methods to those that bluefin ships, for as long as the process lives. Once: what comes later is left out.
    pub fn bring(methods: Vec<&'static MethodInfo>) {
        let _ = BROUGHT.set(methods);
    }

    /// The method whose jobs `toolchain` compiles.
    #[must_use]
    pub fn of_toolchain(toolchain: &str) -> Option<Self> {
        Self::all().into_iter().find(|method| method.toolchains.contains(&toolchain))
    }

    /// The toolchains of all methods.
    #[must_use]
    pub fn toolchains() -> Vec<&'static str> {
        Self::all().iter().flat_map(|method| method.0.toolchains).copied().collect()
    }
}

impl Deref for Method {
    type Target = MethodInfo;

    fn deref(&self) -> &MethodInfo {
        self.0
    }
}

impl PartialEq for Method {
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for Method {}

impl Default for Method {
    fn default() -> Self {
        Self::KERNELS
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}

impl fmt::Debug for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}

/// A name that is no method's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("method: found {found:?}, expected one of {expected}")]
pub struct UnknownMethod {
    found: String,
    expected: String,
}

impl UnknownMethod {
    /// How its message begins: a value that names a method which this release does not know is of a newer one.
    pub const BEGINS: &str = "method: found ";
}

impl FromStr for Method {
    type Err = UnknownMethod;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let all = Self::all();
        all.iter().find(|method| method.name == name).copied().ok_or_else(|| UnknownMethod {
            found: name.chars().take(64).collect(),
            expected: all.iter().map(|method| method.name).collect::<Vec<_>>().join(", "),
        })
    }
}

impl Serialize for Method {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.name)
    }
}

impl<'de> Deserialize<'de> for Method {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_and_no_toolchain_is_of_two() {
        for method in Method::all() {
            assert_eq!(method.name.parse::<Method>().unwrap(), method);
            for toolchain in method.toolchains {
                assert_eq!(Method::of_toolchain(toolchain), Some(method));
            }
        }
        let error = "Fin".parse::<Method>().unwrap_err().to_string();
        assert_eq!(error, "method: found \"Fin\", expected one of kernels, fin, miopendriver, aiter");
        assert!(error.starts_with(UnknownMethod::BEGINS));
    }
}
