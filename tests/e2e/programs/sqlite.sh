#!/bin/bash
# sqlite3: 200,000 rows, indexes, sorting and an integrity check with a page cache far over the threshold.
. "$(dirname "$0")/../e2e.sh"
need sqlite3

cat >"$work/script" <<'SQL'
PRAGMA cache_size = -200000;
PRAGMA temp_store = MEMORY;
CREATE TABLE rows(id INTEGER PRIMARY KEY, name TEXT, value REAL, payload BLOB);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200000)
INSERT INTO rows SELECT i, printf('name-%08x', (i * 2654435761) % 4294967296), i * 0.125,
  CAST(printf('%0300d', i) AS BLOB) FROM n;
CREATE INDEX by_name ON rows(name);
PRAGMA integrity_check;
SELECT count(*), sum(value), min(name), max(name), sum(length(payload)) FROM rows;
SELECT group_concat(name) FROM (SELECT name FROM rows ORDER BY substr(name, 9), id LIMIT 2000);
DELETE FROM rows WHERE id % 3 = 0;
VACUUM;
PRAGMA integrity_check;
SELECT count(*), sum(value) FROM rows;
SQL
same_result sh -c "sqlite3 rows.db <'$work/script' && sha256sum rows.db"
grep -qx ok "$work/preload.out" || fail "the integrity check does not say ok"
