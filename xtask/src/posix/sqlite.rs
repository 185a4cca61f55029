//! SQLite's own speedtest, as far as it can be expressed in SQL for Debian's sqlite3: its main
//! series of tests in order, in WAL mode, on a database inside the mount and on one outside. Both
//! must give the same answers and the same content, and pass SQLite's integrity check.

use super::installed;
use crate::command::output;
use anyhow::{Context, Result, ensure};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The tests: their names in speedtest, and their statements. {n} stands for the number of rows,
/// {r} for a pseudo-random number, {name} for a text.
const TESTS: [(&str, &str); 30] = [
    ("100 inserts into a table without an index", "INSERT INTO z1 SELECT i, {r}, {name} FROM n"),
    ("110 ordered inserts with one index", "INSERT INTO z2 SELECT i, {r}, {name} FROM n"),
    (
        "120 unordered inserts with one index",
        "INSERT OR REPLACE INTO t3 SELECT {r}, i, {name} FROM n ORDER BY {r}",
    ),
    (
        "130 selects, numeric between, no index",
        "SELECT count(*), avg(b) FROM z1 WHERE b BETWEEN {n} / 4 AND {n} / 2",
    ),
    ("140 selects, like, no index", "SELECT count(*), avg(b) FROM z1 WHERE c LIKE '%7%'"),
    ("142 selects, order by, no index", "SELECT a FROM z1 WHERE c LIKE '%77%' ORDER BY b"),
    (
        "145 selects, order by and limit",
        "SELECT a, b FROM z1 WHERE c LIKE '%7%' ORDER BY b LIMIT 10",
    ),
    (
        "150 five indexes",
        "CREATE UNIQUE INDEX t1b ON z1(a); CREATE INDEX t1c ON z1(c); \
         CREATE UNIQUE INDEX t2b ON z2(a, b); CREATE INDEX t2c ON z2(c DESC); \
         CREATE INDEX t3bc ON t3(b, c)",
    ),
    (
        "160 selects, numeric between, indexed",
        "SELECT count(*), sum(b) FROM z1 WHERE a BETWEEN {n} / 4 AND {n} / 2",
    ),
    (
        "161 selects, numeric between, primary key",
        "SELECT count(*), sum(b) FROM z2 WHERE a BETWEEN {n} / 4 AND {n} / 2",
    ),
    (
        "170 selects, text between, indexed",
        "SELECT count(*), sum(b) FROM z1 WHERE c BETWEEN 'r2' AND 'r5'",
    ),
    ("180 inserts with three indexes", "INSERT INTO t4 SELECT i, {r}, {name} FROM n"),
    ("190 delete and refill", "DELETE FROM z2; INSERT INTO z2 SELECT a, b, c FROM z1"),
    ("200 vacuum", "VACUUM"),
    ("210 a column more", "ALTER TABLE z2 ADD COLUMN d INT DEFAULT 123; SELECT sum(d) FROM z2"),
    (
        "230 updates, numeric between, indexed",
        "UPDATE z2 SET d = b * 2 WHERE a BETWEEN {n} / 3 AND {n} / 2",
    ),
    ("240 updates of single rows", "EACH UPDATE z2 SET d = b * 3 WHERE a = ?"),
    ("250 one big update", "UPDATE z2 SET d = b * 4"),
    ("260 the added column", "SELECT sum(d) FROM z2"),
    ("270 deletes, numeric between, indexed", "DELETE FROM z2 WHERE a BETWEEN {n} / 5 AND {n} / 4"),
    ("280 deletes of single rows", "EACH DELETE FROM t3 WHERE a = ?"),
    (
        "290 refill with replace",
        "REPLACE INTO z2(a, b, c) SELECT a, b, c FROM z1; REPLACE INTO t3(a, b, c) SELECT a, b, c FROM z1",
    ),
    (
        "300 refill of a part",
        "DELETE FROM z2; INSERT INTO z2(a, b, c) SELECT a, b, c FROM z1 WHERE (b & 1) = (a & 1)",
    ),
    (
        "310 four ways of joining",
        "SELECT z1.c FROM z1, z2, t3, t4 WHERE t4.a BETWEEN {n} / 2 AND {n} / 2 + 9 AND t3.a = t4.b \
         AND z2.a = t3.b AND z1.c = z2.c ORDER BY 1",
    ),
    (
        "320 a query in a result",
        "SELECT sum(a), max(c), avg((SELECT a FROM z2 WHERE 5 + z2.b = z1.b) + b), max(c) FROM z1 \
         WHERE rowid < 100",
    ),
    ("400 replaces by key", "REPLACE INTO t5 SELECT {r}, {name} FROM n"),
    (
        "410 selects by key",
        "SELECT sum(length(b)) FROM t5 WHERE a IN (SELECT i FROM n WHERE i % 3 = 0)",
    ),
    ("500 replaces by text", "REPLACE INTO t6 SELECT {name}, {r} FROM n"),
    ("510 selects by text", "SELECT sum(b) FROM t6 WHERE a IN (SELECT c FROM z1 WHERE a % 3 = 0)"),
    (
        "520 distinct",
        "SELECT count(*) FROM (SELECT DISTINCT b FROM t5); SELECT count(*) FROM (SELECT DISTINCT b FROM t6)",
    ),
];

/// Its tables; `n` counts the rows.
const TABLES: &str = "PRAGMA journal_mode=WAL;
CREATE TABLE z1(a INTEGER, b INTEGER, c TEXT);
CREATE TABLE z2(a INTEGER PRIMARY KEY, b INTEGER, c TEXT);
CREATE TABLE t3(a INTEGER PRIMARY KEY, b INTEGER, c TEXT);
CREATE TABLE t4(a INTEGER PRIMARY KEY, b INTEGER, c TEXT);
CREATE INDEX t4b ON t4(b);
CREATE INDEX t4c ON t4(c);
CREATE TABLE t5(a INTEGER PRIMARY KEY, b TEXT);
CREATE TABLE t6(a TEXT PRIMARY KEY, b INTEGER) WITHOUT ROWID;
CREATE TABLE n(i INTEGER PRIMARY KEY);
WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < {n})
  INSERT INTO n SELECT i FROM c;
";

const LAST: &str = "SELECT '980 integrity check';
PRAGMA integrity_check;
SELECT '990 analyze';
ANALYZE;
PRAGMA wal_checkpoint(TRUNCATE);
";

/// Rows that are changed one by one, each in a transaction of its own.
const SINGLE: u32 = 100;

fn script(rows: u32) -> String {
    let filled = |sql: &str| {
        let sql = sql.replace("{name}", "'r' || ((i * 7919) % {n}) || ' of the table'");
        let sql = sql.replace("{r}", "((i * 2654435761) % 1000003 + 1)");
        sql.replace("{n}", &rows.to_string())
    };
    let mut script = filled(TABLES);
    for (name, sql) in TESTS {
        let _ = writeln!(script, "SELECT '{name}';");
        match sql.strip_prefix("EACH ") {
            Some(each) => {
                for index in 0..SINGLE.min(rows) {
                    let row = u64::from(index) * u64::from(rows / SINGLE.min(rows)) + 1;
                    let _ = writeln!(script, "{};", each.replace('?', &row.to_string()));
                }
            }
            None if sql == "VACUUM" => script.push_str("VACUUM;\n"),
            None => {
                let _ = writeln!(script, "BEGIN; {}; COMMIT;", filled(sql));
            }
        }
    }
    script + LAST
}

/// Returns the output of sqlite3.
fn sqlite(database: &Path, sql: &str) -> Result<String> {
    output(Command::new(installed("sqlite3")?).args(["-batch", "-bail"]).arg(database).arg(sql))
}

/// Runs the tests inside `dir` and outside of it.
pub(super) fn run(work: &Path, dir: &Path, rows: u32) -> Result<()> {
    let (inside, outside) = (dir.join("database"), work.join("database"));
    for suffix in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(work.join(format!("database{suffix}")));
    }
    let script = script(rows);
    let said = sqlite(&inside, &script).context("inside")?;
    let expected = sqlite(&outside, &script).context("outside")?;
    ensure!(said.starts_with("wal\n"), "no WAL mode: {said}");
    ensure!(said.contains("980 integrity check\nok\n990"), "sqlite3 says {said}");
    ensure!(said == expected, "inside the mount:\n{said}\noutside:\n{expected}");
    for question in ["PRAGMA integrity_check;", ".sha3sum"] {
        let [said, expected] = [sqlite(&inside, question)?, sqlite(&outside, question)?];
        ensure!(said == expected, "{question} inside: {said}, outside: {expected}");
    }
    Ok(())
}
