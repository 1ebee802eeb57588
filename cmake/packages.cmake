# Debian packages of a finished build: `tools/package`, or `cpack` in the build folder.
#
#   terrace          service    terraced, terrace, units, settings, manual pages, completions
#   libterrace       library    what jobs have in their memory: the preloads and the libraries behind the headers
#   terrace-dev      development  headers, pkg-config, CMake
#   python3-terrace  python     terrace.torch, and what `terrace run --offload` puts into PYTHONPATH
#   terrace-bench    benchmarks   `terrace bench`: apart, since its baselines need libraries that no server wants
#
# What only a package has (changelog, copyright, compressed pages) is added to its tree by packages_tree.cmake.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME terrace)
set(CPACK_PACKAGE_VENDOR Terrace)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")  # each package has its own
set(CPACK_PACKAGE_CONTACT "Terrace developers <developers@terrace.invalid>" CACHE STRING "Maintainer of the packages: Name <address>")
# The settings go to /etc whatever the prefix.
set(CPACK_SET_DESTDIR ON)
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/packages_tree.cmake)
set(CPACK_TERRACE_SOURCE ${PROJECT_SOURCE_DIR})

set(CPACK_COMPONENTS_ALL service library development python benchmarks)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(same_version "${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}")
set(control ${CMAKE_CURRENT_LIST_DIR}/debian)

set(CPACK_DEBIAN_SERVICE_PACKAGE_NAME terrace)
set(CPACK_DEBIAN_SERVICE_PACKAGE_SECTION admin)
# The group and the directories that its scripts make: where systemd does not run, too.
set(CPACK_DEBIAN_SERVICE_PACKAGE_DEPENDS "libterrace (= ${same_version}), systemd | systemd-standalone-sysusers, systemd | systemd-standalone-tmpfiles")
set(CPACK_DEBIAN_SERVICE_PACKAGE_RECOMMENDS python3-terrace)
set(CPACK_DEBIAN_SERVICE_PACKAGE_SUGGESTS terrace-bench)
set(CPACK_DEBIAN_SERVICE_PACKAGE_CONTROL_EXTRA ${control}/conffiles ${control}/postinst ${control}/prerm ${control}/postrm)
set(CPACK_COMPONENT_SERVICE_DESCRIPTION "memory tiering for deep-learning jobs: service and command
Terrace gives a training job more memory than its fastest memory has: data
that is not needed soon waits in DRAM, on NVM or on an NVMe drive while the
job runs, and comes back in time. The program is not changed and its results
stay the same to the last bit.

This package has the service that divides a machine between jobs, and the
command that starts jobs and shows what happens.")

set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libterrace)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${control}/triggers ${control}/shlibs)
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION "memory tiering for deep-learning jobs: libraries
What a job under Terrace has in its memory: the preloaded allocator that moves
pages between DRAM and slower memory, the preload for CUDA allocations, the
heap in GPU memory, the offload engine and the optimizers.")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME terrace-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libterrace (= ${same_version})")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "memory tiering for deep-learning jobs: headers
The C API of Terrace for programs that say what they need next, with files for
pkg-config (terrace, terrace-gpu) and CMake (find_package(Terrace)).")

set(CPACK_DEBIAN_PYTHON_PACKAGE_NAME python3-terrace)
set(CPACK_DEBIAN_PYTHON_PACKAGE_SECTION python)
set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS "libterrace (= ${same_version}), python3 (>= 3.10)")
set(CPACK_DEBIAN_PYTHON_PACKAGE_SUGGESTS python3-torch)
set(CPACK_DEBIAN_PYTHON_PACKAGE_CONTROL_EXTRA ${control}/python/postinst ${control}/python/prerm)
set(CPACK_COMPONENT_PYTHON_DESCRIPTION "memory tiering for deep-learning jobs: PyTorch
terrace.torch keeps what PyTorch saves for backward, and the states of
optimizers, in host memory or on an NVMe drive. It works with the PyTorch of
Debian and with any other from 1.13 on.")

set(CPACK_DEBIAN_BENCHMARKS_PACKAGE_NAME terrace-bench)
set(CPACK_DEBIAN_BENCHMARKS_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_BENCHMARKS_PACKAGE_DEPENDS "terrace (= ${same_version}), python3-terrace (= ${same_version}), python3")
set(CPACK_COMPONENT_BENCHMARKS_DESCRIPTION "memory tiering for deep-learning jobs: benchmarks
The programs behind `terrace bench`, each of which runs its baseline in the
same invocation and prints both figures and their ratio.")
include(CPack)
