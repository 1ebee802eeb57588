#!/bin/bash
# git: a clone, its log, a repack and a check of every object of a scratch repository give the same bytes.
. "$(dirname "$0")/../e2e.sh"
need git

make_repository() {
  export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.org
  export GIT_AUTHOR_DATE='2024-01-01T00:00:00Z' GIT_COMMITTER_DATE='2024-01-01T00:00:00Z'
  git init -q "$work/origin"
  cd "$work/origin"
  for commit in 1 2 3 4 5; do
    seq "$((commit * 1000))" "$((commit * 1000 + 300000))" >"large-$commit"
    for file in $(seq 40); do seq "$((commit * file))" "$((commit * file + 2000))" >"file-$file"; done
    git add . && git commit -q -m "commit $commit"
  done
}

cat >"$work/use" <<'SCRIPT'
set -e
git clone -q --no-local "file://$1" clone
cd clone
git log --stat --format='%H %s' | cat
git -c pack.threads=2 -c pack.window=20 repack -q -adf
git fsck --full --strict 2>&1
git archive HEAD | sha256sum
SCRIPT

(make_repository)
same_result sh "$work/use" "$work/origin"
