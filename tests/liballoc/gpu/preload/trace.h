// Doubles of CUDA's runtime, its driver and Terrace's GPU heap, for the hooks' tests: each call is noted in
// one list, in order, as text ("runtime cudaMalloc 4096"), and does the least that its caller needs.
#pragma once

#include <string>
#include <vector>

struct Doubles {
  std::vector<std::string> calls;
  int device = 0;                // the current one
  int capture_status = 0;        // what cudaStreamIsCapturing says
  int runtime_error = 0;         // kept by the runtime until cudaGetLastError
  int heap_errno = 0;            // not 0: the heap refuses
  bool heap_calls_cuda = false;  // the heap allocates with cudaMalloc, as a library under it might
  unsigned long long allocated_bytes = 0, reserved_bytes = 0, budget_bytes = 0;
};

// One for the process; lives in the double of the heap.
Doubles& doubles();
void note(const std::string& call);
