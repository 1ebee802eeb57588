// AVX-512 without VBMI2, as Skylake and Cascade Lake have it (F, BW, DQ, VL; what x86-64-v4 asks for):
// elements of 1 and 2 bytes, for which it has no compress and no expand, go AVX2's way.
#include "compression/kernels/avx512_words.h"

namespace terrace::compression::avx512 {
namespace {

template <int width_log2>
std::size_t narrow_pack(const std::byte* src, std::size_t n, std::uint64_t* mask, std::byte* packed) {
  return avx2::table.pack[width_log2](src, n, mask, packed);
}

template <int width_log2>
std::size_t narrow_pack_storing(const std::byte* src, std::size_t n, std::uint64_t* mask, std::byte* packed,
                                Ahead& ahead, Storing& storing) {
  return avx2::table.pack_storing[width_log2](src, n, mask, packed, ahead, storing);
}

template <int width_log2>
void narrow_expand(const std::uint64_t* mask, std::size_t n, const std::byte* values, std::byte* dst) {
  avx2::table.expand[width_log2](mask, n, values, dst);
}

template <int width_log2>
void narrow_expand_past(const std::uint64_t* mask, std::size_t n, const std::byte* values, std::byte* dst) {
  avx2::table.expand_past[width_log2](mask, n, values, dst);
}

}  // namespace

constinit const Kernels table_v4 = {
    .name = "avx512_v4",
    .pack = {narrow_pack<0>, narrow_pack<1>, pack<4>, pack<8>},
    .pack_storing = {narrow_pack_storing<0>, narrow_pack_storing<1>, pack_storing<4>, pack_storing<8>},
    .expand = {narrow_expand<0>, narrow_expand<1>, expand<4>, expand<8>},
    .expand_past = {narrow_expand_past<0>, narrow_expand_past<1>, expand_past<4>, expand_past<8>},
    .group_code = group_code,
    .squeeze = squeeze,
    .unsqueeze = unsqueeze,
    .stream = stream,
    .store = store_at_once<Sums>,
    .store_rest = store_all_rest<Sums>,
    .fence = fence,
    .checksum = checksum,
};

}  // namespace terrace::compression::avx512
