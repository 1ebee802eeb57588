# No terraced beside the command: one line says so, and the job runs with its budget.
. "$(dirname "$0")/common.sh"
mkdir -p alone/bin alone/lib
cp "$terrace" alone/bin/terrace
cp "$(dirname "$terrace")/../lib/libterrace_preload.so" alone/lib/ || skip "the preload library is not built"
expect_code 0 "job without terraced" alone/bin/terrace run --dram 128M --pool "$directory" -- sh -c 'echo $TERRACE_DRAM:$TERRACE_SOCKET:$TERRACE_POOL_DIR'
[ "$(cat out)" = "128M::$directory" ] || fail "environment without a daemon: $(cat out)"
[ "$(grep -c '^terrace: running without a daemon' err)" -eq 1 ] || fail "not one line about the daemon: $(cat err)"
printf '#!/bin/sh\necho no luck today >&2\nexit 3\n' >alone/bin/terraced
chmod +x alone/bin/terraced
expect_code 5 "job with a broken terraced" alone/bin/terrace run -- sh -c 'exit 5'
expect_text err "no luck today" "the reason of a daemon that fails"
mkdir "$XDG_RUNTIME_DIR/open" && chmod 755 "$XDG_RUNTIME_DIR/open" && mkdir "$XDG_RUNTIME_DIR/open/terrace"
chmod 777 "$XDG_RUNTIME_DIR/open/terrace"
XDG_RUNTIME_DIR=$XDG_RUNTIME_DIR/open expect_code 0 "job with an unsafe runtime directory" "$terrace" run -- true
expect_text err "nobody else can enter" "the reason of an unsafe directory"
rm alone/lib/libterrace_preload.so
expect_code 1 "job without the preload library" alone/bin/terrace run -- true
expect_text err "libterrace_preload.so" "what is missing"
finish
