// AVX-512 with VBMI2, as Ice Lake and Zen 4 have it: elements of every width are compressed by an
// instruction.
#include "compression/kernels/avx512_words.h"

namespace terrace::compression::avx512 {

constinit const Kernels table = {
    .name = "avx512",
    .pack = {pack<1>, pack<2>, pack<4>, pack<8>},
    .pack_storing = {pack_storing<1>, pack_storing<2>, pack_storing<4>, pack_storing<8>},
    .expand = {expand<1>, expand<2>, expand<4>, expand<8>},
    .expand_past = {expand_past<1>, expand_past<2>, expand_past<4>, expand_past<8>},
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
