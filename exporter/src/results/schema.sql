-- Results of bluefin. Times are milliseconds, sizes bytes. The comments stay with the tables: see .schema.
CREATE TABLE sessions (
    name TEXT PRIMARY KEY,
    target TEXT NOT NULL,       -- what was tuned for, as gfx90a-104
    label TEXT NOT NULL,        -- why it was made
    tuner TEXT NOT NULL,        -- whose solvers
    stages TEXT NOT NULL,       -- JSON array
    created TEXT NOT NULL       -- UTC
);
CREATE TABLE problems (
    id INTEGER PRIMARY KEY,
    driver TEXT NOT NULL UNIQUE, -- canonical driver command
    label TEXT NOT NULL          -- short, not unique
);
CREATE TABLE solvers (
    id INTEGER PRIMARY KEY,
    spec TEXT NOT NULL,          -- kernel spec, or tool
    name TEXT NOT NULL,
    algorithm TEXT,              -- as MIOpen names it, of the first problem that has one
    UNIQUE (spec, name)
);
CREATE TABLE candidates (
    id INTEGER PRIMARY KEY,
    session TEXT NOT NULL REFERENCES sessions (name),
    problem INTEGER NOT NULL REFERENCES problems (id),
    solver INTEGER NOT NULL REFERENCES solvers (id),
    spec_digest TEXT,            -- an edited spec has another one
    params TEXT NOT NULL,        -- JSON object: params ->> 'tile'
    is_default INTEGER,          -- 1: the params of whoever does not tune; NULL: not known
    stage TEXT NOT NULL,         -- perf, find
    result TEXT NOT NULL,        -- timed, pruned, or the kind of failure
    median_ms REAL,
    spread_ms REAL,              -- median absolute deviation, as a standard deviation
    samples INTEGER NOT NULL,    -- number of rows in the table samples
    gflops REAL,                 -- GFLOP/s
    gbytes_per_s REAL,           -- GB/s
    clock_mhz INTEGER,
    throttled INTEGER NOT NULL,  -- samples at less than 3/4 of the reference clock, taken again or kept
    noise TEXT,                  -- why its time is in doubt, if it is: other work of the machine
    pruned INTEGER NOT NULL,     -- 1: only probed, clearly slower than the best
    tied INTEGER NOT NULL,       -- 1: can not be told apart from the fastest
    winner INTEGER NOT NULL,     -- 1: of its problem and spec
    artifacts TEXT NOT NULL,     -- JSON array of digests
    workspace INTEGER,
    job TEXT NOT NULL,           -- id of the job
    compiled_by TEXT,            -- worker
    compile_ms INTEGER,          -- of the whole job
    evaluated_by TEXT,           -- worker
    device TEXT,
    device_uuid TEXT,
    driver_version TEXT,
    enqueued_ms INTEGER,         -- since 1970, UTC
    finished_ms INTEGER NOT NULL,
    recompiles INTEGER NOT NULL, -- times that it was compiled again, its artifacts being gone
    attempts INTEGER NOT NULL,   -- times that the job was tried
    busy_ms INTEGER NOT NULL,    -- of the whole job
    search_ended TEXT,           -- why no more of its solver was tried: all, budget, patience, behind; NULL: nobody searched
    tried_percent REAL,          -- share of the solver's tuning space that was tried
    expected_gain_percent REAL,  -- of the solver's best time, by as many candidates again
    registers INTEGER,           -- of a thread, as the GPU's driver says
    spilled_bytes INTEGER,       -- that a thread has in memory instead
    shared_bytes INTEGER,        -- shared memory or LDS of a block
    resident_blocks INTEGER      -- that a multiprocessor has room for at a time
);
CREATE TABLE samples (
    candidate INTEGER NOT NULL REFERENCES candidates (id),
    number INTEGER NOT NULL,     -- from 0, in the order they were taken
    ms REAL NOT NULL,
    PRIMARY KEY (candidate, number)
) WITHOUT ROWID;
CREATE TABLE failures (
    candidate INTEGER PRIMARY KEY REFERENCES candidates (id),
    kind TEXT NOT NULL,
    detail TEXT NOT NULL         -- the compiler's or the tool's words
);
-- What came of candidates whose jobs were tried again; candidates and failures have what came of them last.
CREATE TABLE failures_before (
    candidate INTEGER NOT NULL REFERENCES candidates (id),
    kind TEXT NOT NULL,
    detail TEXT NOT NULL,        -- the first of the compiler's or the tool's words
    worker TEXT,
    finished_ms INTEGER NOT NULL -- since 1970, UTC
);
-- Everything but samples, one row a candidate.
CREATE VIEW results AS
    SELECT candidates.id, session, target, problems.driver AS problem, problems.label, solvers.spec, solvers.name AS solver,
        params, is_default, stage, result, median_ms, spread_ms, samples, gflops, gbytes_per_s, clock_mhz, throttled, noise, pruned, tied,
        winner, kind AS failure, detail, artifacts, workspace, job, compiled_by, compile_ms, evaluated_by, device, device_uuid,
        driver_version, datetime(finished_ms / 1000, 'unixepoch') AS finished, recompiles, attempts, busy_ms,
        spec_digest, search_ended, tried_percent, expected_gain_percent, registers, spilled_bytes, shared_bytes, resident_blocks
    FROM candidates
    JOIN sessions ON sessions.name = candidates.session
    JOIN problems ON problems.id = candidates.problem
    JOIN solvers ON solvers.id = candidates.solver
    LEFT JOIN failures ON failures.candidate = candidates.id;
-- Who won. perf_ms and default_ms, its own time and that of its solver's default params, are both of the perf stage, where all are
-- timed alike: default_ms / perf_ms is what tuning gained.
CREATE VIEW winners AS
    SELECT won.session, problems.driver AS problem, problems.label, solvers.spec, solvers.name AS solver, won.params, won.median_ms,
        won.spread_ms, won.gflops, won.gbytes_per_s, won.workspace, won.spec_digest,
        (SELECT min(p.median_ms) FROM candidates p WHERE p.session = won.session AND p.problem = won.problem
            AND p.solver = won.solver AND p.params = won.params AND p.stage = 'perf' AND p.median_ms > 0) AS perf_ms,
        (SELECT min(d.median_ms) FROM candidates d WHERE d.session = won.session AND d.problem = won.problem
            AND d.solver = won.solver AND d.is_default = 1 AND d.stage = 'perf' AND d.median_ms > 0) AS default_ms
    FROM candidates won
    JOIN problems ON problems.id = won.problem
    JOIN solvers ON solvers.id = won.solver
    WHERE won.winner = 1;
-- The fastest of each solver for each problem: its params and their time.
CREATE VIEW best_of_solver AS
    SELECT session, problems.driver AS problem, solvers.spec, solvers.name AS solver, params, stage, min(median_ms) AS median_ms,
        spread_ms, pruned, count(*) AS timed
    FROM candidates
    JOIN problems ON problems.id = candidates.problem
    JOIN solvers ON solvers.id = candidates.solver
    WHERE median_ms > 0
    GROUP BY session, candidates.problem, candidates.solver;
-- How often each solver failed in which way, with an example of the words.
CREATE VIEW failures_by_kind AS
    SELECT session, kind, solvers.name AS solver, count(*) AS failures, min(detail) AS example
    FROM failures
    JOIN candidates ON candidates.id = failures.candidate
    JOIN solvers ON solvers.id = candidates.solver
    GROUP BY session, kind, candidates.solver
    ORDER BY failures DESC;
