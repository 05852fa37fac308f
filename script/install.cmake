# `cmake --install` puts headers, library and programs in place, for find_package(dLSM) and
# pkg-config. The test at the end does what a user would: it installs, and builds programs against
# what was installed.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# What programs that use the static library have to link besides: exported as names, which
# dLSMConfig.cmake looks up again on the user's machine.
target_link_libraries(dlsm PRIVATE spdlog::spdlog OpenSSL::SSL OpenSSL::Crypto Snappy::snappy
                      PkgConfig::ISAL PkgConfig::XXHASH PkgConfig::NUMA PkgConfig::SQLITE)

install(DIRECTORY include/dLSM DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING
        PATTERN "*.h")
install(TARGETS dlsm dlsm_metrics EXPORT dLSMTargets)
foreach(program Server dlsm_serve dlsm_tool)
  # Beside the library, wherever the two are installed.
  if(BUILD_SHARED_LIBS)
    file(RELATIVE_PATH dlsm_from_programs ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
    set_target_properties(${program} PROPERTIES INSTALL_RPATH "$ORIGIN/${dlsm_from_programs}")
  endif()
  install(TARGETS ${program})
endforeach()

if(BUILD_SHARED_LIBS)
  set_target_properties(dlsm_metrics PROPERTIES INSTALL_RPATH "$ORIGIN")
endif()

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/dLSM)
install(EXPORT dLSMTargets NAMESPACE dLSM:: DESTINATION ${package_folder})
configure_package_config_file(script/install/dLSMConfig.cmake.in dLSMConfig.cmake
                              INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(dLSMConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/dLSMConfig.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/dLSMConfigVersion.cmake
        DESTINATION ${package_folder})

# For pkg-config. A static library does not know what it needs: users link it, too.
set(dlsm_static_libraries "")
if(NOT BUILD_SHARED_LIBS)
  set(dlsm_static_libraries "-lspdlog -lfmt -lssl -lcrypto -lsnappy -lisal -lxxhash -lnuma -lsqlite3 -lstdc++ -lm")
endif()
file(RELATIVE_PATH dlsm_prefix_from_pc
     ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(script/install/dlsm.pc.in dlsm.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/dlsm.pc
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

include(script/install_leveldb.cmake)

# With a sanitizer its run-time would have to be linked by hand.
if(DLSM_TESTS AND NOT DLSM_SANITIZE)
  add_test(NAME install
           COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/script/install_test.sh ${CMAKE_CURRENT_BINARY_DIR}
                   ${CMAKE_C_COMPILER} ${CMAKE_CXX_COMPILER})
  set_tests_properties(install PROPERTIES LABELS install TIMEOUT 300)
endif()
