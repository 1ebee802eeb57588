// A kernel of the tests: XXH3 of an input's first bytes.
#pragma once

#include "compression/cuda/encode/finish_frame.cuh"

namespace terrace::compression::cuda::test {

struct ChecksumShared {
  u64 secret[secret_words];
  u64 sums[sum_words];
};

// By one CTA.
TERRACE_DEVICE void checksum_prefix(const SharedWords& words, u32 bytes, u64* result) {
  auto& shared = *reinterpret_cast<ChecksumShared*>(simt::shared_memory());
  load_secret(shared.secret);
  simt::sync_cta();
  const u64 checksum = xxh3(words, bytes, shared.secret, shared.sums);
  if (simt::thread_index() == 0) *result = checksum;
}

}  // namespace terrace::compression::cuda::test
