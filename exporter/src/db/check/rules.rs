//! The rules of a check, and how bad it is to break them.

use bluefin_miopen::db::FindingKind;

bluefin_common::check_rules! {
    // Files.
    Unreadable "unreadable" Error "The file can not be read, or is no database"
    WrongKind "wrong-kind" Error "The content is not what the file's ending says"
    FileName "file-name" Warning "MIOpen looks for no file of this name"
    OwnTarget "own-target" Note "MIOpen does not run on this target; the file is bluefin's own"
    Packed "packed" Note "MIOpen reads the file only when it is unpacked"
    TooSmall "too-small" Error "MIOpen refuses SQLite databases under 512 bytes"
    WriteAheadLog "write-ahead-log" Warning "A shipped database with a write-ahead log may not open in a read-only folder"
    Unchecked "unchecked" Note "Keys of fusion plans are not checked"
    // Lines of text.
    NotText "not-text" Warning "The line is not UTF-8, so no key matches"
    NoKey "no-key" Warning "No = or nothing in front of it: the line is skipped with an error"
    DuplicateKey "duplicate-key" Warning "The key came before, and the first line stands"
    NoEntry "no-entry" Warning "A key without entries: a look-up is an error and a miss"
    NoName "no-name" Warning "An entry without a colon is skipped with an error"
    DuplicateSolver "duplicate-solver" Warning "The solver came before in its record, and the first one stands"
    Space "space" Warning "White space or a control character is taken as part of a name"
    // Keys.
    Key "key" Warning "No convolution has this key, so nothing finds it"
    Problem "problem" Warning "The key is well formed, but its sizes make no convolution"
    LegacyKey "legacy-key" Note "An obsolete 3D key, which nothing looks up any more"
    // Find db.
    VersionOne "version-1" Note "Entries of version 1, which MIOpen still reads and no longer writes"
    MissingFields "missing-fields" Error "Fields are missing: MIOpen throws when the entry is used"
    ExtraFields "extra-fields" Warning "Fields behind the last one are ignored"
    Number "number" Warning "A number is read as another than is written"
    Time "time" Warning "The time is not positive: no measurement, and the entry comes first"
    Algorithm "algorithm" Error "The direction has no such algorithm: MIOpen throws when the entry is used"
    SolverAlgorithm "solver-algorithm" Warning "The algorithm is not the solver's"
    UnknownSolver "unknown-solver" Warning "MIOpen has no solver of this name, and ignores the entry"
    OwnSolver "own-solver" Warning "Solvers that bluefin ships and MIOpen does not have: it ignores their entries"
    Order "order" Note "Entries are not in ascending order of time, as tuners write them"
    NoParams "no-params" Warning "The fastest solver of a key is tunable and has no row in the perf db: it runs with its defaults"
    NoKernel "no-kernel" Warning "The kernel db has no kernel of the fastest solver of a key: it is compiled at run time"
    // Perf db.
    NotTunable "not-tunable" Warning "The solver has no params, so nothing reads the row"
    Params "params" Warning "Fields are missing, so that the solver refuses the params, or the text form can not hold them"
    PerfKey "perf-key" Warning "MIOpen asks for no key with these values"
    Reference "reference" Warning "A row refers to nothing, or nothing refers to it"
    Column "column" Error "A value is not of its column's type"
    // Kernel db.
    Quote "quote" Error "A quote breaks the SQL of every look-up"
    KernelName "kernel-name" Warning "MIOpen asks for source files with their ending and .o"
    KernelArgs "kernel-args" Warning "MIOpen puts a blank in front of the first option, or none, as the source file's solvers do it"
    Mcpu "mcpu" Warning "MIOpen puts -mcpu of its device behind the options of all but .mlir files"
    KernelHash "kernel-hash" Error "The hash is not the lowercase MD5 of the code: MIOpen throws"
    KernelSize "kernel-size" Error "The code does not unpack to its size: MIOpen throws"
    DuplicateKernel "duplicate-kernel" Warning "A kernel came before with the same name and options"
    NoIndex "no-index" Warning "The unique index is not there: look-ups scan the table, and rows may repeat"
}

impl From<FindingKind> for Rule {
    fn from(kind: FindingKind) -> Self {
        match kind {
            FindingKind::NotText => Self::NotText,
            FindingKind::NoKey => Self::NoKey,
            FindingKind::DuplicateKey => Self::DuplicateKey,
            FindingKind::NoEntry => Self::NoEntry,
            FindingKind::NoName => Self::NoName,
            FindingKind::DuplicateSolver => Self::DuplicateSolver,
            FindingKind::MissingFields => Self::MissingFields,
            FindingKind::ExtraFields => Self::ExtraFields,
            FindingKind::Number => Self::Number,
            FindingKind::Time => Self::Time,
            FindingKind::Algorithm => Self::Algorithm,
            FindingKind::Space => Self::Space,
            FindingKind::LegacyKey => Self::LegacyKey,
            FindingKind::Key => Self::Key,
            FindingKind::Reference => Self::Reference,
            FindingKind::Column => Self::Column,
        }
    }
}
