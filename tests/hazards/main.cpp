// Entry of every hazard program: a test run of Catch2, or, with --scenario NAME, the job under test itself.
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#include <cstring>

#include "tests/hazards/hazard.h"
#include "tests/hazards/machine/encrypted_pool.h"

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "--scenario") == 0) {
    return terrace::hazards::run_registered_scenario(argv[2]);
  }
  if (std::string why_not; !terrace::hazards::prepare_encrypted_pool(&why_not)) {
    terrace::hazards::report_skip(why_not);
    return 0;
  }
  return Catch::Session().run(argc, argv);
}
