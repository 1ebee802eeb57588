#!/bin/bash
# The Debian packages of this build: made by tools/package, looked at by lintian, and installed, removed, installed again
# and purged by dpkg in a copy of this system (an overlay in a mount namespace, so that nothing here changes).
. "$(dirname "$0")/../e2e.sh"
need cpack
need dpkg-deb
need dpkg-shlibdeps
build=$1

cpack --config "$build/CPackConfig.cmake" -B "$work/packages" >"$work/cpack.log" 2>&1 || fail "cpack: $(tail -n 20 "$work/cpack.log")"
package() { compgen -G "$work/packages/$1_*.deb" || fail "no package $1"; }
for name in terrace libterrace terrace-dev python3-terrace terrace-bench; do package "$name" >/dev/null; done

# holds PACKAGE PATTERN…: a path of the package, from the root on, is each.
holds() {
  local pattern name=$1
  dpkg-deb --contents "$(package "$name")" | awk '{ print $6 }' | sed 's|^\.||' >"$work/contents"
  for pattern in "${@:2}"; do
    grep -qE "^$pattern$" "$work/contents" || fail "$name does not hold $pattern: $(cat "$work/contents")"
  done
}

library='/usr/lib(/[^/]*)?'
holds terrace /usr/sbin/terraced /usr/bin/terrace /etc/terrace/terraced.toml /usr/lib/systemd/system/terraced.service \
  /usr/lib/systemd/system/terraced.socket /usr/lib/systemd/system/terraced-metrics.socket /usr/share/terrace/grafana/terrace.json /usr/lib/sysusers.d/terrace.conf /usr/lib/tmpfiles.d/terrace.conf \
  /usr/share/bash-completion/completions/terrace /usr/share/zsh/vendor-completions/_terrace \
  /usr/share/fish/vendor_completions.d/terrace.fish /usr/share/doc/terrace/copyright
! command -v scdoc >/dev/null || holds terrace /usr/share/man/man1/terrace.1.gz /usr/share/man/man5/terraced.toml.5.gz \
  /usr/share/man/man8/terraced.8.gz
holds libterrace "$library/libterrace.so.0" "$library/libterrace_preload.so" "$library/libterrace_gpu.so.0" \
  "$library/libterrace_gpu_preload.so"
holds terrace-dev /usr/include/terrace.h /usr/include/terrace_gpu.h "$library/libterrace.so" "$library/pkgconfig/terrace.pc" \
  "$library/pkgconfig/terrace-gpu.pc" "$library/cmake/Terrace/TerraceConfig.cmake" "$library/cmake/Terrace/TerraceTargets.cmake"
holds python3-terrace /usr/lib/python3/dist-packages/terrace /usr/share/terrace/python/terrace/torch/__init__.py \
  /usr/share/terrace/python/terrace/py.typed /usr/share/terrace/python/auto/sitecustomize.py
holds terrace-bench /usr/bin/terrace-bench-malloc /usr/share/terrace/bench/training.py
[ "$(dpkg-deb --info "$(package terrace)" conffiles)" = /etc/terrace/terraced.toml ] || fail "the settings are no conffile"
# Every file of one package is in no other.
for file in "$work"/packages/*.deb; do dpkg-deb --contents "$file" | awk '$1 !~ /^d/ { print $6 }'; done | sort | uniq -d >"$work/twice"
[ ! -s "$work/twice" ] || fail "in several packages: $(cat "$work/twice")"

if command -v lintian >/dev/null; then
  lintian --fail-on error --tag-display-limit 0 --allow-root "$work"/packages/*.deb >"$work/lintian.log" 2>&1 ||
    fail "lintian: $(grep '^E:' "$work/lintian.log" || cat "$work/lintian.log")"
  ! grep '^E:' "$work/lintian.log" || fail "lintian reports errors (above)"
else
  echo "SKIP: lintian is not installed (tools/setup): the packages were not looked at by it"
fi

[ "$(id -u)" = 0 ] || skip "installing packages needs root; they were made, and looked at"
mkdir "$work/overlay"
unshare --mount sh -c 'mount -t tmpfs none "$1" && mkdir "$1/upper" "$1/work" "$1/root" &&
  mount -t overlay -o lowerdir=/,upperdir="$1/upper",workdir="$1/work" none "$1/root"' x "$work/overlay" 2>/dev/null ||
  skip "no overlay of / can be mounted here, in which packages could be installed; they were made, and looked at"

# In the overlay: what is there before, after a removal and after a purge, of what is not the package manager's own.
cat >"$work/inside.sh" <<'SCRIPT'
set -eu
root=$1 packages=$2
mount -t tmpfs none "$root"
mkdir "$root/upper" "$root/work" "$root/root"
mount -t overlay -o lowerdir=/,upperdir="$root/upper",workdir="$root/work" none "$root/root"
root=$root/root
mount -t tmpfs none "$root/run" # as at a boot; and no systemd is reached from here
mount -t proc proc "$root/proc"
mount --bind /dev "$root/dev"
mkdir "$root/run/packages" && cp "$packages"/*.deb "$root/run/packages/"
inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive LC_ALL=C "$@"; }
fail() { echo "FAILED: $*" >&2; exit 1; }
names="terrace libterrace terrace-dev python3-terrace terrace-bench"
# Terrace's files, anywhere but in the build host's own folders.
left() {
  (cd "$root" && find etc usr var run \( -path usr/local -o -path 'var/lib/dpkg' -o -path run/packages -o -path var/tmp -o -path var/log \
    -o -path var/cache \) -prune -o -iname '*terrace*' -print | sort)
}
before=$(left)
install() { inside sh -c 'dpkg --install --force-confold /run/packages/*.deb' >"$packages/dpkg.log" 2>&1 || fail "dpkg --install: $(tail -n 20 "$packages/dpkg.log")"; }
works() {
  inside getent group terrace >/dev/null || fail "no group terrace"
  grep -qx 'group = "terrace"' "$root/etc/terrace/terraced.toml" || fail "the settings do not name the group"
  [ "$(inside terrace version | head -n 1)" != "" ] || fail "terrace does not run"
  inside terraced --check-config --config /etc/terrace/terraced.toml >/dev/null || fail "terraced --check-config"
  inside terrace run --dram 64M -- sh -c 'grep -q libterrace_preload /proc/self/maps' || fail "terrace run"
  inside python3 -c 'import terrace, os; assert os.path.realpath(terrace.__file__).startswith("/usr/share/terrace/python/")' || fail "import terrace"
  [ -L "$root/etc/systemd/system/multi-user.target.wants/terraced.service" ] || fail "the service is not enabled"
  [ -L "$root/etc/systemd/system/sockets.target.wants/terraced.socket" ] || fail "the socket is not enabled"
  [ ! -e "$root/etc/systemd/system/sockets.target.wants/terraced-metrics.socket" ] || fail "metrics are served unasked"
  printf '#include <terrace.h>\nint main(void) { return !terrace_version()[0]; }\n' >"$root/run/program.c"
  inside sh -c 'cc /run/program.c -o /run/program $(pkg-config --cflags --libs terrace) && /run/program' || fail "pkg-config: a program with terrace.h"
  mkdir -p "$root/run/project" && cp "$root/run/program.c" "$root/run/project/"
  printf 'cmake_minimum_required(VERSION 3.25)\nproject(p C)\nfind_package(Terrace 0.1 REQUIRED)\nadd_executable(p program.c)\ntarget_link_libraries(p Terrace::terrace)\n' >"$root/run/project/CMakeLists.txt"
  inside sh -c 'cmake -S /run/project -B /run/project/build && cmake --build /run/project/build && /run/project/build/p' >"$packages/cmake.log" 2>&1 ||
    fail "find_package(Terrace): $(tail -n 20 "$packages/cmake.log")"
}
install
works
echo '# edited by the administrator' >>"$root/etc/terrace/terraced.toml"
mkdir -p "$root/var/lib/terrace" && : >"$root/var/lib/terrace/writes%2F"
metrics_link=etc/systemd/system/sockets.target.wants/terraced-metrics.socket
ln -s /usr/lib/systemd/system/terraced-metrics.socket "$root/$metrics_link"
inside dpkg --remove $names >>"$packages/dpkg.log" 2>&1 || fail "dpkg --remove: $(tail -n 20 "$packages/dpkg.log")"
after_removal=$(left | grep -v '^var/lib/systemd/deb-systemd-helper' || true)
[ "$after_removal" = "$(printf '%s\n' $before etc/terrace etc/terrace/terraced.toml etc/systemd/system/multi-user.target.wants/terraced.service etc/systemd/system/sockets.target.wants/terraced.socket "$metrics_link" run/terrace var/lib/terrace | sort -u)" ] ||
  fail "a removal leaves: $after_removal"
install
works
grep -q 'edited by the administrator' "$root/etc/terrace/terraced.toml" || fail "a reinstallation overwrites the settings"
inside dpkg --purge $names >>"$packages/dpkg.log" 2>&1 || fail "dpkg --purge: $(tail -n 20 "$packages/dpkg.log")"
[ "$(left)" = "$before" ] || fail "a purge leaves: $(left)"
[ ! -L "$root/$metrics_link" ] || fail "a purge leaves the link of the metrics' socket"
inside getent group terrace >/dev/null || fail "a purge takes the group away, whose number another could get"
install
works
SCRIPT
unshare --mount --pid --fork sh "$work/inside.sh" "$work/overlay" "$work/packages" || fail "installed packages (above)"
