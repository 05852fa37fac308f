# libleveldb: LevelDB's interface over dLSM, as a shared and as a static library. Both have all of
# dLSM, so that programs link what they would link for LevelDB. They lie in a folder of their own,
# where no search for the real LevelDB finds them.
file(GLOB leveldb_sources CONFIGURE_DEPENDS db/leveldb/*.cc)
list(FILTER leveldb_sources EXCLUDE REGEX "(_test|_fuzz|_main|_testing)\\.cc$")
add_library(dlsm_leveldb OBJECT ${leveldb_sources})
target_link_libraries(dlsm_leveldb PRIVATE dlsm_settings)
dlsm_precompile(dlsm_leveldb)
dlsm_compile_together(dlsm_leveldb 12)

set(leveldb_folder ${CMAKE_CURRENT_BINARY_DIR}/leveldb)
set(leveldb_version 1.23.0)

function(dlsm_leveldb_library name kind)
  add_library(${name} ${kind} $<TARGET_OBJECTS:dlsm_leveldb>)
  foreach(floor ${floors})
    target_sources(${name} PRIVATE $<TARGET_OBJECTS:${floor}>)
  endforeach()
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX OUTPUT_NAME leveldb
                        LIBRARY_OUTPUT_DIRECTORY ${leveldb_folder}/lib
                        ARCHIVE_OUTPUT_DIRECTORY ${leveldb_folder}/lib)
  target_compile_features(${name} INTERFACE cxx_std_11)
  target_include_directories(${name} INTERFACE
                             $<BUILD_INTERFACE:${leveldb_folder}/include>
                             $<INSTALL_INTERFACE:lib/dlsm-leveldb/include>)
  target_link_libraries(${name} PRIVATE Threads::Threads spdlog::spdlog OpenSSL::SSL OpenSSL::Crypto
                        Snappy::snappy PkgConfig::ISAL PkgConfig::XXHASH PkgConfig::NUMA
                        PkgConfig::SQLITE)
endfunction()

dlsm_leveldb_library(leveldb_compat_static STATIC)
set_target_properties(leveldb_compat_static PROPERTIES EXPORT_NAME leveldb_static)
# The headers alone: include/ has dLSM's, too.
file(MAKE_DIRECTORY ${leveldb_folder}/include)
file(CREATE_LINK ${CMAKE_CURRENT_SOURCE_DIR}/include/leveldb ${leveldb_folder}/include/leveldb
     SYMBOLIC)

# Programs that do not have a sanitizer's run-time cannot load a library that needs it.
if(NOT DLSM_SANITIZE)
  dlsm_leveldb_library(leveldb_compat SHARED)
  set(leveldb_exported ${CMAKE_CURRENT_SOURCE_DIR}/db/leveldb/exported.map)
  # Debian's name for what programs that were linked to LevelDB load.
  set_target_properties(leveldb_compat PROPERTIES VERSION ${leveldb_version} SOVERSION 1d
                        EXPORT_NAME leveldb LINK_DEPENDS ${leveldb_exported})
  target_link_options(leveldb_compat PRIVATE -Wl,--version-script=${leveldb_exported}
                      -Wl,-z,defs)
endif()
