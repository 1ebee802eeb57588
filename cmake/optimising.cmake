# How much of the compiler's time the optimiser gets. Both are called by a folder before its targets are made.

# For what reads, draws and asks: a quarter of the compiler's time, for what nobody would notice.
function(terrace_optimise_little)
  if(CMAKE_BUILD_TYPE STREQUAL "RelWithDebInfo")
    add_compile_options(-O1)
  endif()
endfunction()

# Of a sanitized build the optimiser takes more than half. It is worth its time in what tests move and encode a lot of memory
# with: compression, tiers and liballoc. The rest can do without.
option(TERRACE_OPTIMISE_ALL "In a sanitized build, optimise the daemon, the tools and the GPU parts, too" ON)
function(terrace_compile_quickly)
  if(TERRACE_SANITIZE AND NOT TERRACE_OPTIMISE_ALL)
    add_compile_options(-O0)
  endif()
endfunction()
