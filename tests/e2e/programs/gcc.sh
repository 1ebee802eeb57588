#!/bin/bash
# gcc compiles a large generated file to the same object, byte for byte.
. "$(dirname "$0")/../e2e.sh"
need gcc

{
  for i in $(seq 700); do
    echo "int f$i(int x, int *t) { for (int k = 0; k < x; ++k) t[k % 7] += x * $i ^ (t[(k + $i) % 7] >> 3); return t[$i % 7]; }"
  done
} >"$work/large.c"
same_result sh -c "gcc -O2 -g -frandom-seed=1 -ffile-prefix-map=\$PWD=. -c -o large.o '$work/large.c' && sha256sum large.o"
