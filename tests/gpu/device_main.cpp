// Runs the cases where a GPU is, else says why not and ends with 77.
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#include <cstdio>
#include <string>

#include "machine.h"

int main(int argc, char** argv) {
  const std::string name = terrace::compression::cuda::test::machine_name();
  if (name.empty()) {
    std::puts("SKIP: no GPU that the CUDA runtime can use");
    return 77;
  }
  std::printf("on %s\n", name.c_str());
  return Catch::Session().run(argc, argv);
}
