CREATE TABLE sessions (name TEXT PRIMARY KEY, session BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE pins (session TEXT, key TEXT, value TEXT NOT NULL, PRIMARY KEY (session, key)) WITHOUT ROWID;
CREATE TABLE records (shelf TEXT, key TEXT, value BLOB NOT NULL, PRIMARY KEY (shelf, key)) WITHOUT ROWID;
CREATE TABLE blobs (digest BLOB PRIMARY KEY, packed BLOB NOT NULL);

-- Artifacts (kind 0) and compile records (kind 1). The least recently used go first.
CREATE TABLE cache (
    kind INTEGER NOT NULL,
    key BLOB NOT NULL,
    used INTEGER NOT NULL, -- seconds since the Unix epoch
    size INTEGER NOT NULL, -- of the value
    value BLOB NOT NULL
);
CREATE UNIQUE INDEX cache_key ON cache (kind, key);
CREATE INDEX cache_used ON cache (used);
CREATE TABLE cache_total (size INTEGER NOT NULL);
INSERT INTO cache_total VALUES (0);
CREATE TRIGGER cache_grows AFTER INSERT ON cache BEGIN UPDATE cache_total SET size = size + NEW.size; END;
CREATE TRIGGER cache_shrinks AFTER DELETE ON cache BEGIN UPDATE cache_total SET size = size - OLD.size; END;

-- Jobs without an outcome.
CREATE TABLE jobs (session TEXT, id BLOB, enqueued INTEGER NOT NULL, group_id BLOB, PRIMARY KEY (session, id)) WITHOUT ROWID;
-- With a rowid, so that outcomes are appended, and only the small index is written in random places.
CREATE TABLE outcomes (session TEXT NOT NULL, group_id BLOB NOT NULL, id BLOB NOT NULL, outcome BLOB NOT NULL);
CREATE UNIQUE INDEX outcomes_key ON outcomes (session, group_id, id);
CREATE TABLE groups (
    session TEXT,
    id BLOB,
    open INTEGER NOT NULL, -- jobs without an outcome
    settled INTEGER NOT NULL,
    PRIMARY KEY (session, id)
) WITHOUT ROWID;
CREATE TABLE best (session TEXT, group_id BLOB, median_ms REAL NOT NULL, PRIMARY KEY (session, group_id)) WITHOUT ROWID;
-- kind: planned, done, busy (name: the stage) or candidates (name: the result); busy counts milliseconds; or touched
-- (no name): how often jobs were planned or outcomes taken back
CREATE TABLE stats (session TEXT, kind TEXT, name TEXT, count INTEGER NOT NULL, PRIMARY KEY (session, kind, name)) WITHOUT ROWID;
