# `cmake --install` puts headers, library and programs in place, for find_package(dLSM) and
# pkg-config. The test at the end does what a user would: it installs, and builds programs against
# what was installed.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# What programs that use the static library have to link besides: exported as names, which
# dLSMConfig.cmake looks up again on the user's machine.
target_link_libraries(dlsm PRIVATE spdlog::spdlog OpenSSL::SSL OpenSSL::Crypto Snappy::snappy
                      PkgConfig::ISAL PkgConfig::XXHASH PkgConfig::NUMA PkgConfig::SQLITE)

install(DIRECTORY include/dLSM DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev
        FILES_MATCHING PATTERN "*.h")
install(TARGETS dlsm EXPORT dLSMTargets LIBRARY COMPONENT lib NAMELINK_COMPONENT dev
        ARCHIVE COMPONENT dev)
install(TARGETS dlsm_metrics EXPORT dLSMTargets LIBRARY COMPONENT metrics NAMELINK_COMPONENT dev
        ARCHIVE COMPONENT dev)
# Packages have the library in both kinds. Its objects are compiled once for the two.
if(BUILD_SHARED_LIBS AND DLSM_PACKAGES)
  add_library(dlsm_static STATIC)
  foreach(floor ${floors})
    target_sources(dlsm_static PRIVATE $<TARGET_OBJECTS:${floor}>)
  endforeach()
  set_target_properties(dlsm_static PROPERTIES LINKER_LANGUAGE CXX OUTPUT_NAME dlsm EXPORT_NAME static)
  target_include_directories(dlsm_static PUBLIC $<INSTALL_INTERFACE:include>)
  target_compile_features(dlsm_static PUBLIC cxx_std_20)
  target_link_libraries(dlsm_static PUBLIC Threads::Threads
                        PRIVATE spdlog::spdlog OpenSSL::SSL OpenSSL::Crypto Snappy::snappy PkgConfig::ISAL
                        PkgConfig::XXHASH PkgConfig::NUMA PkgConfig::SQLITE)
  add_custom_command(TARGET dlsm_static POST_BUILD
                     COMMAND ${CMAKE_STRIP} --strip-debug $<TARGET_FILE:dlsm_static>)
  install(TARGETS dlsm_static EXPORT dLSMStaticTargets ARCHIVE COMPONENT dev)
endif()
set(component_Server server)
set(component_dlsm_serve serve)
set(component_dlsm_tool tools)
foreach(program Server dlsm_serve dlsm_tool)
  # Beside the library, wherever the two are installed.
  if(BUILD_SHARED_LIBS)
    file(RELATIVE_PATH dlsm_from_programs ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
    set_target_properties(${program} PROPERTIES INSTALL_RPATH "$ORIGIN/${dlsm_from_programs}")
  endif()
  install(TARGETS ${program} COMPONENT ${component_${program}})
endforeach()

if(BUILD_SHARED_LIBS)
  set_target_properties(dlsm_metrics PROPERTIES INSTALL_RPATH "$ORIGIN")
endif()

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/dLSM)
install(EXPORT dLSMTargets NAMESPACE dLSM:: DESTINATION ${package_folder} COMPONENT dev)
if(TARGET dlsm_static)
  install(EXPORT dLSMStaticTargets NAMESPACE dLSM:: DESTINATION ${package_folder} COMPONENT dev)
endif()
configure_package_config_file(script/install/dLSMConfig.cmake.in dLSMConfig.cmake
                              INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(dLSMConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/dLSMConfig.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/dLSMConfigVersion.cmake
        DESTINATION ${package_folder} COMPONENT dev)

# For pkg-config. A static library does not know what it needs: users link it, too.
# Beside the shared library it is what pkg-config --static tells of.
set(dlsm_static_libraries "-lspdlog -lfmt -lssl -lcrypto -lsnappy -lisal -lxxhash -lnuma -lsqlite3 -lstdc++ -lm")
set(dlsm_private_libraries "")
if(BUILD_SHARED_LIBS)
  set(dlsm_private_libraries "${dlsm_static_libraries}")
  set(dlsm_static_libraries "")
endif()
file(RELATIVE_PATH dlsm_prefix_from_pc
     ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(script/install/dlsm.pc.in dlsm.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/dlsm.pc
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)

include(script/install_leveldb.cmake)

# With a sanitizer its run-time would have to be linked by hand.
if(DLSM_TESTS AND NOT DLSM_SANITIZE)
  add_test(NAME install
           COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/script/install_test.sh ${CMAKE_CURRENT_BINARY_DIR}
                   ${CMAKE_C_COMPILER} ${CMAKE_CXX_COMPILER})
  # The recipes of doc/cookbook in C++; those in Python are run by script/python-test.
  add_test(NAME cookbook
           COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/script/cookbook-test ${CMAKE_CURRENT_BINARY_DIR})
  set_tests_properties(install cookbook PROPERTIES LABELS install TIMEOUT 300)
endif()
