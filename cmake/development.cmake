# What programs that use the C API find Terrace with: CMake's find_package(Terrace) and pkg-config's terrace and
# terrace-gpu. Both name places relative to their own, so that an installation may be moved.
include(CMakePackageConfigHelpers)
set(config_directory ${CMAKE_INSTALL_LIBDIR}/cmake/Terrace)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/development/TerraceConfig.cmake.in
                              ${PROJECT_BINARY_DIR}/development/TerraceConfig.cmake INSTALL_DESTINATION ${config_directory})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/development/TerraceConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(EXPORT Terrace FILE TerraceTargets.cmake NAMESPACE Terrace:: DESTINATION ${config_directory} COMPONENT development)
install(FILES ${PROJECT_BINARY_DIR}/development/TerraceConfig.cmake ${PROJECT_BINARY_DIR}/development/TerraceConfigVersion.cmake
        DESTINATION ${config_directory} COMPONENT development)

set(pkgconfig_directory ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH PREFIX_FROM_PKGCONFIG /${pkgconfig_directory} /)
# terrace_pkgconfig(NAME LIBRARY description)
function(terrace_pkgconfig NAME LIBRARY ABOUT)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/development/terrace.pc.in ${PROJECT_BINARY_DIR}/development/${NAME}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/development/${NAME}.pc DESTINATION ${pkgconfig_directory} COMPONENT development)
endfunction()
terrace_pkgconfig(terrace terrace "Heap whose pages may lie in DRAM or on a slower tier")
if(TARGET terrace_gpu)
  terrace_pkgconfig(terrace-gpu terrace_gpu "Heap in GPU memory, offload of tensors, optimizers with their states elsewhere")
endif()
