#include "liballoc/paging/transfers/job.h"

#include "liballoc/base/os.h"

namespace terrace::liballoc {

void Job::work(CodecScratch* scratch) {
  if (kind == Kind::encode) return encoding.work(*scratch);
  if (kind == Kind::decode) return decoding.work(*scratch);
  const std::uint64_t start = is_timed ? os::thread_ns() : 0;
  zeroes = sums.take(data, pages);
  if (is_timed) sum_ns = os::thread_ns() - start;
}

}  // namespace terrace::liballoc
