"""What `bluefin bench db` stands beside: a plain scan of a find db, and sqlite3 reading and writing a perf db."""

import sqlite3
import sys
import time

find, perf, folder = sys.argv[1:]


def timed(work):
    start = time.perf_counter()
    work()
    print(time.perf_counter() - start)


def scan():
    """Reads every line and its entries, and writes the lines back: no check of anything."""
    records = {}
    with open(find) as lines:
        for line in lines:
            key, entries = line.rstrip("\n").split("=", 1)
            records[key] = [entry.split(":", 1) for entry in entries.split(";")]
    with open(f"{folder}/scan.fdb.txt", "w") as out:
        for key in sorted(records):
            out.write(key + "=" + ";".join(":".join(entry) for entry in records[key]) + "\n")


def rewrite():
    """Reads both tables, and writes them with their indexes."""
    source = sqlite3.connect(f"file:{perf}?mode=ro", uri=True)
    out = sqlite3.connect(f"{folder}/sqlite3.db")
    out.execute("PRAGMA journal_mode = OFF")
    out.execute("PRAGMA synchronous = OFF")
    for (sql,) in source.execute("SELECT sql FROM sqlite_schema WHERE type = 'table'"):
        out.execute(sql)
    for table, columns in ("config", 25), ("perf_db", 4):
        rows = source.execute(f"SELECT * FROM {table}").fetchall()
        out.executemany(f"INSERT INTO {table} VALUES({','.join('?' * columns)})", rows)
    for (sql,) in source.execute("SELECT sql FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL"):
        out.execute(sql)
    out.commit()


timed(scan)
timed(rewrite)
