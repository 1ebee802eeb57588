# One target that every target of ours links: the warnings we hold ourselves to.
add_library(terrace_warnings INTERFACE)
target_compile_options(terrace_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor
                       -Wcast-qual -Wconversion -Wno-sign-conversion -Werror)
target_include_directories(terrace_warnings INTERFACE ${PROJECT_SOURCE_DIR})
if(TERRACE_CHECK_INVARIANTS)
  target_compile_definitions(terrace_warnings INTERFACE TERRACE_CHECK_INVARIANTS=1)
endif()
