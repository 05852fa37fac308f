# libleveldb goes into a prefix of its own, where programs find it that are told to, and no others:
# CMAKE_PREFIX_PATH or PKG_CONFIG_PATH names it. The component is leveldb-compat.
set(leveldb_prefix lib/dlsm-leveldb)
install(DIRECTORY include/leveldb DESTINATION ${leveldb_prefix}/include COMPONENT leveldb-compat
        FILES_MATCHING PATTERN "*.h")
install(TARGETS leveldb_compat_static ARCHIVE DESTINATION ${leveldb_prefix}/lib
        COMPONENT leveldb-compat)
if(TARGET leveldb_compat)
  install(TARGETS leveldb_compat EXPORT leveldbTargets
          LIBRARY DESTINATION ${leveldb_prefix}/lib COMPONENT leveldb-compat
                  NAMELINK_COMPONENT leveldb-compat)
  install(EXPORT leveldbTargets NAMESPACE leveldb:: COMPONENT leveldb-compat
          DESTINATION ${leveldb_prefix}/lib/cmake/leveldb)
  write_basic_package_version_file(leveldb/leveldbConfigVersion.cmake VERSION ${leveldb_version}
                                   COMPATIBILITY SameMajorVersion)
  configure_file(script/install/leveldb.pc.in leveldb/leveldb.pc @ONLY)
  install(FILES script/install/leveldbConfig.cmake
                ${CMAKE_CURRENT_BINARY_DIR}/leveldb/leveldbConfigVersion.cmake
          DESTINATION ${leveldb_prefix}/lib/cmake/leveldb COMPONENT leveldb-compat)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/leveldb/leveldb.pc
          DESTINATION ${leveldb_prefix}/lib/pkgconfig COMPONENT leveldb-compat)
endif()

if(DLSM_TESTS AND TARGET leveldb_compat)
  add_test(NAME install.leveldb
           COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/script/leveldb_test.sh ${CMAKE_CURRENT_BINARY_DIR}
                   ${CMAKE_C_COMPILER} ${CMAKE_CXX_COMPILER})
  set_tests_properties(install.leveldb PROPERTIES LABELS install TIMEOUT 300)
endif()
