// The command line's errors are terrace::Result; the verb that called decides the exit code and prints the
// message once.
#pragma once

#include "liballoc/wire/result.h"

namespace terrace::cli {

using terrace::ok;
using terrace::refused;
using terrace::Result;

}  // namespace terrace::cli
