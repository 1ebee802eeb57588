#include "daemon/planner/import/import.h"

namespace terrace::planner {

Result<Imported> import_onnx(std::string_view /*bytes*/, const FlopModel& /*model*/) {
  return refused<Imported>("ONNX models are not read yet");
}

}  // namespace terrace::planner
