
#include "daemon/planner/reuse/families.h"

namespace terrace::planner {

std::vector<ReusePolicy> reuse_policies() {
  std::vector<ReusePolicy> all;
  const auto add = [&](const std::vector<ReusePolicy>& family) {
    all.insert(all.end(), family.begin(), family.end());
  };
  // A family that comes adds its line here.
  add(tflite_policies());
  add(tvm_policies());
  add(allocator_policies());
  add(framework_policies());
  add(search_policies());
  add(terrace_policies());
  return all;
}

}  // namespace terrace::planner
